"""Ends what a run leaves behind, within a bound: coroutines that swallow their cancellation, calls in pool threads."""

import asyncio
import threading
from typing import Any, Final

from engine.cli import output
from engine.clock import Clock
from engine.names import POOL_NAME

PATIENCE_SECS: Final = 1.0
"""Components had their own time to close before this."""

_abandoned: list["asyncio.Task[Any]"] = []
"""Coroutines of closed sessions that run no more; kept, so that their destruction cannot run their code again."""


def close_runner(runner: asyncio.Runner) -> None:
    """Close a runner and its loop. Coroutines that go on after being cancelled are named, and left where they are."""
    loop = runner.get_loop()
    running = loop.run_until_complete(_cancel_all())
    if not running:
        runner.close()
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
    deadline = Clock().now() + PATIENCE_SECS
    pools = [thread for thread in threading.enumerate() if thread.name.startswith(f"{POOL_NAME} ")]
    for thread in pools:
        thread.join(max(0.0, deadline - Clock().now()))
    stuck = sorted({thread.name.removeprefix(f"{POOL_NAME} ").rpartition("_")[0] for thread in pools if thread.is_alive()})
    for component_id in stuck:
        output.tell(f"a call of bolt {component_id!r} in a pool thread did not return; the process ends without it")
    return bool(stuck or _abandoned)
