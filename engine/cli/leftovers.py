"""Ends what a run leaves behind, within a bound: coroutines that swallow their cancellation, calls in pool threads."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from engine.cli import output
from engine.clock import Clock
from engine.names import POOL_NAME

_T = TypeVar("_T")
TO_THREAD: Final = "(to_thread)"
"""Names the pool of `asyncio.to_thread`; no component may be called so."""
PATIENCE_SECS: Final = 1.0
"""Components had their own time to close before this."""

_abandoned: list["asyncio.Task[Any]"] = []
"""Coroutines of closed sessions that run no more; kept, so that their destruction cannot run their code again."""


class BoundedRunner:
    """A runner of one coroutine whose `close` takes a few seconds at most, whatever the coroutine left running."""

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory)
        # asyncio's own pool would be waited for without a limit.
        self._threads = ThreadPoolExecutor(thread_name_prefix=f"{POOL_NAME} {TO_THREAD}")
        self._runner.get_loop().set_default_executor(self._threads)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, and return its result."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Close the loop. What goes on after being cancelled is named, and left where it is."""
        running = self._runner.get_loop().run_until_complete(_cancel_all())
        self._threads.shutdown(wait=False, cancel_futures=True)
        if not running and not _alive_threads(TO_THREAD):
            self._runner.close()
            return
        asyncio.set_event_loop(None)
        _abandoned.extend(running)
        for name in sorted({_name_of(aio_task) for aio_task in running}):
            output.tell(f"{name} swallowed its cancellation and did not end; the process ends without it. Let asyncio.CancelledError pass.")


async def _cancel_all() -> "set[asyncio.Task[Any]]":
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for _ in range(2):  # the first cancellation may be swallowed by accident
        for aio_task in running:
            aio_task.cancel()
        if running:
            _, running = await asyncio.wait(running, timeout=PATIENCE_SECS)
    return running


def _name_of(aio_task: "asyncio.Task[Any]") -> str:
    """Name the task of a component by its place; another one by its coroutine."""
    name = aio_task.get_name()
    return f"a coroutine of {name!r}" if "/" in name else f"the coroutine {getattr(aio_task.get_coro(), '__qualname__', name)}()"


def is_left_behind() -> bool:
    """Tell, also the user, of work that only the end of the process ends: coroutines, and calls in pool threads that have not returned."""
    stuck = _alive_threads()
    for pool in stuck:
        where = "asyncio.to_thread() or run_in_executor()" if pool == TO_THREAD else f"bolt {pool!r} in a pool thread"
        output.tell(f"a call of {where} did not return; the process ends without it")
    return bool(stuck or _abandoned)


def _alive_threads(pool: str = "") -> list[str]:
    """Give pool threads a last moment to return; return the names of the pools that have threads left. pool: "" for all."""
    deadline = Clock().now() + PATIENCE_SECS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(f"{POOL_NAME} {pool}")]
    for thread in threads:
        thread.join(max(0.0, deadline - Clock().now()))
    return sorted({thread.name.removeprefix(f"{POOL_NAME} ").rpartition("_")[0] for thread in threads if thread.is_alive()})
