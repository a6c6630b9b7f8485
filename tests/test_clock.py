"""A run uses the time of its loop if that is virtual, else the time of the machine."""

import asyncio
import time

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
