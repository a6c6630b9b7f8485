"""Limits the wait for work that outlives its run (calls in pool threads, coroutines that swallow their cancellation)."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from engine.cli.console.output import print_to_stderr
from engine.clock import Clock
from engine.names import POOL_NAME

_T = TypeVar("_T")
TO_THREAD: Final = "(to_thread)"
"""Name of the pool of `asyncio.to_thread`. No component may have this name."""
GRACE_SECS: Final = 1.0
"""Time for left work to end. This time is short, because components already had their own time to close."""

_abandoned: list["asyncio.Task[Any]"] = []
"""Coroutines of closed sessions that no loop runs any more.

Without these references, the garbage collector would close the coroutines, and their code would run again.
"""


class BoundedRunner:
    """Runner of one coroutine. `close` takes a few seconds at most, even if the coroutine left work running."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        # asyncio.Runner waits without a limit for the threads of its default pool.
        self._threads = ThreadPoolExecutor(thread_name_prefix=f"{POOL_NAME} {TO_THREAD}")
        self._runner.get_loop().set_default_executor(self._threads)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end and return its result."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Close the loop. Coroutines that ignore cancellation are reported and abandoned."""
        running = self._runner.get_loop().run_until_complete(_cancel_all())
        self._threads.shutdown(wait=False, cancel_futures=True)
        if not running and not _alive_threads(TO_THREAD):
            self._runner.close()
            return
        asyncio.set_event_loop(None)
        _abandoned.extend(running)
        for name in sorted({_name_of(aio_task) for aio_task in running}):
            print_to_stderr(
                f"{name} swallowed its cancellation and did not end. The process ends without it. Let asyncio.CancelledError pass."
            )


async def _cancel_all() -> "set[asyncio.Task[Any]]":
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for _ in range(2):  # user code may swallow the first cancellation by accident
        for aio_task in running:
            aio_task.cancel()
        if running:
            _, running = await asyncio.wait(running, timeout=GRACE_SECS)
    return running


def _name_of(aio_task: "asyncio.Task[Any]") -> str:
    """Return the name of a component's task, or that of the coroutine."""
    name = aio_task.get_name()
    return f"a coroutine of {name!r}" if "/" in name else f"the coroutine {getattr(aio_task.get_coro(), '__qualname__', name)}()"


def report_leftovers() -> bool:
    """Report pool threads that have not returned. Return True if some work ends only with the process."""
    stuck = _alive_threads()
    for pool in stuck:
        where = "asyncio.to_thread() or run_in_executor()" if pool == TO_THREAD else f"bolt {pool!r} in a pool thread"
        print_to_stderr(f"a call of {where} did not return. The process ends without it.")
    return bool(stuck or _abandoned)


def _alive_threads(pool: str = "") -> list[str]:
    """Wait briefly for pool threads to return. Return the names of the pools with running threads. pool: "" for all pools."""
    deadline = Clock().now() + GRACE_SECS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(f"{POOL_NAME} {pool}")]
    for thread in threads:
        thread.join(max(0.0, deadline - Clock().now()))
    return sorted({thread.name.removeprefix(f"{POOL_NAME} ").rpartition("_")[0] for thread in threads if thread.is_alive()})
