"""A run uses the time of its loop if that is virtual, else the time of the machine."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from engine.clock import Clock


class _VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time a test sets."""

    virtual_time = True

    def time(self) -> float:
        return 12.5

    def wall(self) -> float:
        return 1_700_000_000.0


def test_a_real_loop_uses_the_clock_of_the_machine() -> None:
    loop = asyncio.new_event_loop()
    try:
        clock = Clock.of(loop)
    finally:
        loop.close()

    assert clock.now is time.monotonic
    assert clock.wall is time.time


def test_a_virtual_loop_uses_its_own_clock() -> None:
    loop = _VirtualLoop()
    try:
        clock = Clock.of(loop)
    finally:
        loop.close()

    assert (clock.now(), clock.wall()) == (12.5, 1_700_000_000.0)


def test_a_clock_can_be_made_of_any_two_callables() -> None:
    clock = Clock(now=lambda: 1.0, wall=lambda: 2.0)

    assert (clock.now(), clock.wall()) == (1.0, 2.0)


def test_the_cpu_time_is_that_of_one_thread() -> None:
    cpu_secs = Clock().measure_cpu()
    first = cpu_secs()
    sum(range(100_000))
    second = cpu_secs()
    assert first is not None
    assert second is not None
    assert 0 <= first < second
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(cpu_secs).result() is None


def test_virtual_time_takes_no_cpu_time() -> None:
    loop = _VirtualLoop()
    try:
        cpu_secs = Clock.of(loop).measure_cpu()
    finally:
        loop.close()

    sum(range(100_000))
    assert cpu_secs() == 0
