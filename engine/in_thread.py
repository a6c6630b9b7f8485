"""Runs calls in a thread, and lets them progress even while the event loop is busy.

A waiting thread requests the GIL only if no thread has released the GIL for 5 ms. A busy loop releases the GIL in each turn, but only for
microseconds. Such a release is too short for the waiting thread to wake up, and too frequent for a request. So a call of a few milliseconds
could take seconds. `in_thread` therefore makes a busy loop wait for the thread from time to time, until the call is done. An idle loop
does not wait. The CPU time of the loop's thread tells which of both it is. Timers do not, because they are on time if the turns are short.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from engine.clock import Clock
from engine.errors import ENDS_OF_ITERATION

POLL_SECS: Final = 0.001
BUSY_SHARE: Final = 0.25
"""Share of the CPU time of the loop's thread in the elapsed time, above which the loop counts as busy."""
GRANT_SECS: Final = 0.0005
"""Time that the loop waits for the thread in one turn."""
_T = TypeVar("_T")


def begin_in_thread(pool: Executor, work: Callable[[], _T]) -> asyncio.Future[_T]:
    """Begin a call in a thread of the pool, with a copy of the caller's context, as `asyncio.to_thread` does.

    An error that no future can carry, such as StopIteration, becomes a RuntimeError.
    """
    run = contextvars.copy_context().run
    return asyncio.get_running_loop().run_in_executor(pool, run, _call, work)


async def in_thread(pool: Executor, work: Callable[[], _T]) -> _T:
    """Call work in a thread of the pool. Return its result, or raise its error. A cancellation stops only a call that has not begun."""
    loop = asyncio.get_running_loop()
    clock = Clock.of(loop)
    now, cpu = clock.now, clock.cpu
    finished = threading.Event()

    def call() -> _T:
        try:
            return _call(work)
        finally:
            finished.set()

    result = loop.run_in_executor(pool, call)
    began, used = now(), cpu()
    try:
        while not (await asyncio.wait([result], timeout=POLL_SECS))[0]:
            if cpu() - used > BUSY_SHARE * (now() - began):
                finished.wait(GRANT_SECS)
            began, used = now(), cpu()
    except asyncio.CancelledError:
        result.cancel()
        raise
    return result.result()


def _call(work: Callable[[], _T]) -> _T:
    """Call work. Raise RuntimeError for StopIteration, as PEP 479 does: a future refuses it, and Python 3.11 then waits for ever."""
    try:
        return work()
    except ENDS_OF_ITERATION as error:
        raise RuntimeError(f"the call raised {type(error).__name__}") from error
