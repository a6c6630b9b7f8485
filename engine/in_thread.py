"""A call in a thread beside a loop that never rests.

A thread that waits for the interpreter's lock asks for it only when nobody has released it for 5 ms. A busy loop releases it at each turn,
for microseconds: too short for the thread to wake up, and often enough that it never asks. So a call of a few milliseconds can take a
second. Here the loop waits for the thread a moment now and then, while it is busy and the call is not done; a loop that rests does not.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from engine.clock import Clock

LOOK_EVERY_SECS: Final = 0.001
BUSY_SECS: Final = 0.002
"""A loop that is later than this has something to do; timers of uvloop are in whole milliseconds."""
GRANT_SECS: Final = 0.0005
"""How long the loop waits for the thread in one turn."""
_T = TypeVar("_T")


async def in_thread(pool: Executor, work: Callable[[], _T]) -> _T:
    """Call work in a thread of the pool; return what it returns, raise what it raises. Cancelled, it is not called if it has not begun."""
    loop = asyncio.get_running_loop()
    now = Clock.of(loop).now
    finished = threading.Event()

    def call() -> _T:
        try:
            return work()
        finally:
            finished.set()

    result = loop.run_in_executor(pool, call)
    due = now() + LOOK_EVERY_SECS
    try:
        while not (await asyncio.wait([result], timeout=LOOK_EVERY_SECS))[0]:
            if now() - due > BUSY_SECS:
                finished.wait(GRANT_SECS)
            due = now() + LOOK_EVERY_SECS
    except asyncio.CancelledError:
        result.cancel()
        raise
    return result.result()
