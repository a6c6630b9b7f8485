"""The virtual loop raises instead of hanging, and if a limit is exceeded."""

import asyncio
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.errors import EngineError, UsageError
from engine.testing.virtual_loop import LoopDeadlock, RealTimeExceeded, VirtualTimeExceeded, run_virtual
from tests.patience import PATIENCE_SECS
from tests.testing.virtual import loop_of_this_test


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def ticks(secs: float) -> AsyncIterator[float]:
    while True:
        yield asyncio.get_running_loop().time()
        await asyncio.sleep(secs)


@pytest.mark.parametrize("waiting", [wait_for_ever, lambda: asyncio.sleep(math.inf)])
def test_a_deadlock_is_raised_with_the_waiting_tasks_and_their_lines(waiting: Callable[[], object]) -> None:
    ended: list[str] = []

    async def main() -> None:
        await asyncio.sleep(12)
        stuck = asyncio.create_task(wait_for_ever(), name="stuck")
        try:
            await asyncio.wait([stuck])
        finally:
            ended.append("cleaned up")

    with pytest.raises(LoopDeadlock, match=r"virtual time 12") as caught:
        run_virtual(main)
    assert "stuck: wait_for_ever (test_virtual_loop_limits.py:" in str(caught.value)
    assert "hold_time" in str(caught.value)
    assert isinstance(caught.value, EngineError)
    assert ended == ["cleaned up"]


def test_a_sleep_without_end_is_a_deadlock() -> None:
    with pytest.raises(LoopDeadlock, match="no timer is set"):
        run_virtual(lambda: asyncio.sleep(math.inf))


def test_a_deadlock_names_at_most_twenty_tasks() -> None:
    async def main() -> None:
        await asyncio.gather(*(wait_for_ever() for _ in range(50)))

    with pytest.raises(LoopDeadlock, match="and 31 more"):
        run_virtual(main)


def test_a_cleanup_that_never_ends_is_a_deadlock_too() -> None:
    async def main() -> None:
        try:
            await wait_for_ever()
        except asyncio.CancelledError:
            await wait_for_ever()

    with pytest.raises(LoopDeadlock):
        run_virtual(main)


def test_the_limit_of_virtual_time_ends_an_endless_program_and_allows_cleanup() -> None:
    ended: list[float] = []

    async def main() -> None:
        try:
            async for _ in ticks(1):
                pass
        finally:
            await asyncio.sleep(5)
            ended.append(asyncio.get_running_loop().time())

    with pytest.raises(VirtualTimeExceeded, match=r"more than its 10 s .* its next event is at 111[\s\S]*main"):
        run_virtual(main, start=100, limit_secs=10)
    assert ended == [115.0]


def test_advance_beyond_the_limit_raises() -> None:
    async def main() -> None:
        loop_of_this_test().advance(11)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with pytest.raises(VirtualTimeExceeded):
        run_virtual(main, limit_secs=10)


def test_a_program_that_never_waits_ends_at_the_limit_of_real_time() -> None:
    async def main() -> None:
        async for _ in ticks(0):
            pass

    with pytest.raises(RealTimeExceeded, match=r"0\.05 s of real time.* turns something was ready"):
        run_virtual(main, real_limit_secs=0.05)


def test_a_thread_that_waits_for_virtual_time_is_named_and_uses_no_cpu() -> None:
    released = threading.Event()

    def wait_in_thread() -> None:
        released.wait(PATIENCE_SECS)

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, released.set)
        await asyncio.to_thread(wait_in_thread)

    begun = time.process_time()
    try:
        with pytest.raises(RealTimeExceeded, match=r"time stands still for .*wait_in_thread[\s\S]*Fix: A thread") as caught:
            run_virtual(main, real_limit_secs=0.3)
        assert time.process_time() - begun < 0.2
        assert caught.value.__context__ is None  # the end of the run did not wait for the thread once more
    finally:
        released.set()


@pytest.mark.parametrize("secs", [1, math.inf])
def test_a_hold_that_is_never_released_is_named_and_uses_no_cpu(secs: float) -> None:
    async def main() -> None:
        with loop_of_this_test().hold_time("the device"):
            await asyncio.sleep(secs)

    begun = time.process_time()
    with pytest.raises(RealTimeExceeded, match="time stands still for the device"):
        run_virtual(main, real_limit_secs=0.3)
    assert time.process_time() - begun < 0.2


def test_a_socket_that_stays_silent_ends_at_the_limit_of_real_time() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            right.setblocking(False)
            await asyncio.get_running_loop().sock_recv(right, 1)

    with pytest.raises(RealTimeExceeded, match="1 sockets are open"):
        run_virtual(main, real_limit_secs=0.05)


@pytest.mark.parametrize("call", [True, False])
def test_a_main_that_is_no_function_is_refused_with_the_fix(call: bool) -> None:
    async def main() -> None:
        raise AssertionError

    given: Any = main() if call else None
    with pytest.raises(UsageError, match=f"takes a coroutine function, not {type(given).__name__}") as caught:
        run_virtual(given)
    assert caught.value.hint == "Write run_virtual(main), without ()."


@pytest.mark.parametrize("start", [0.0, 0.1, 1e6 + 0.1])
def test_a_busy_loop_reaches_a_time_within_its_resolution(start: float) -> None:
    """Asyncio fires a timer a little early. Code that waits for the time itself sets it again, which must not go on for ever."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        due = math.nextafter(loop.time(), math.inf)
        turns = 0

        def stay_busy() -> None:
            nonlocal turns
            turns += 1
            if turns < 100:
                loop.call_soon(stay_busy)

        stay_busy()
        while loop.time() < due:
            woken = loop.create_future()
            loop.call_at(due, woken.set_result, None)
            await woken
        assert turns < 100

    run_virtual(main, start=start)
