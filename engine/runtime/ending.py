"""Ending what a component has running: within a bound, and with every error told."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from engine.raised import without_exits

CLOSE_TIMEOUT_SECS: Final = 30.0
"""What `close`, `cleanup` and cancelled work of a component get to end."""

_SECOND_CANCEL_SECS: Final = 1.0


async def end_all(aio_tasks: Iterable["asyncio.Task[Any]"]) -> tuple[list[BaseException], int]:
    """Cancel tasks and wait for them: the errors that they ended with, and how many would not end in time.

    A task may swallow a cancellation by accident (`except BaseException`), so those that go on are cancelled once more.
    """
    running = set(aio_tasks)
    errors: list[BaseException] = []
    for patience_secs in (_SECOND_CANCEL_SECS, CLOSE_TIMEOUT_SECS - _SECOND_CANCEL_SECS):
        for aio_task in running:
            aio_task.cancel()
        if running:
            ended, running = await asyncio.wait(running, timeout=patience_secs)
            errors += [error for each in ended if not each.cancelled() and (error := each.exception()) is not None]
    return errors, len(running)


async def end_in_time(coroutine: Coroutine[Any, Any, None], secs: float) -> bool:
    """Await a coroutine for so long, then cancel it; False where it swallows even that, and runs on.

    Raises what the coroutine raises; TimeoutError without arguments where it was cancelled.
    """
    aio_task = asyncio.get_running_loop().create_task(without_exits(coroutine))
    try:
        await asyncio.wait([aio_task], timeout=secs)
        if aio_task.done():
            aio_task.result()
            return True
    finally:
        aio_task.cancel()
    await asyncio.wait([aio_task], timeout=_SECOND_CANCEL_SECS)
    if not aio_task.done():
        return False
    if not aio_task.cancelled() and (error := aio_task.exception()) is not None:
        raise error
    raise TimeoutError


def is_cancelled_from_outside() -> bool:
    """Tell whether somebody cancelled the running task; else a CancelledError in it is the component's own, an error like others."""
    aio_task = asyncio.current_task()
    return aio_task is not None and aio_task.cancelling() > 0


def cancellations_of_task() -> int:
    """Return how often the running task was cancelled, and has not been told."""
    aio_task = asyncio.current_task()
    return 0 if aio_task is None else aio_task.cancelling()


async def take_own_cancellation_back() -> None:
    """Let the running task go on as if its last cancellation, of which it has not been told yet, had not been."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    aio_task = asyncio.current_task()
    if aio_task is not None:
        aio_task.uncancel()


def take_cancellations_back() -> None:
    """Let the running task go on as if it had not been cancelled."""
    aio_task = asyncio.current_task()
    while aio_task is not None and aio_task.cancelling():
        aio_task.uncancel()
