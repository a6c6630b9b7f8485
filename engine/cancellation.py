"""Cancels asyncio tasks that run user code, with a limited wait. Also tells whether an asyncio task was really cancelled.

User code may raise CancelledError by itself, or cancel its own asyncio task. Such an error is an error of the component. A real
cancellation must propagate.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from contextvars import Context
from typing import Any, Final

CLOSE_TIMEOUT_SECS: Final = 30.0
"""Time limit for `close`, `cleanup` and cancelled work of a component."""

CALL_ERRORS: Final = (Exception, asyncio.CancelledError, GeneratorExit)
"""What a call of a component may raise without ending the run. StepTimer turns a GeneratorExit of an awaited call into a RuntimeError."""

OWN_CANCELLATION: Final = "the component cancelled the asyncio task that runs it"

_SECOND_CANCEL_SECS: Final = 1.0
BACKGROUND_END_SECS: Final = 10.0
"""Time that cancelled background work has before it is cancelled again. It may be a generator whose `finally` closes a connection."""


def was_cancelled(error: BaseException) -> bool:
    """Return True if `error` is the cancellation of the running asyncio task, or the close of a coroutine that no task runs.

    Return False for a CancelledError or a GeneratorExit that user code raised by itself. Callers handle such an error like any other.
    """
    if isinstance(error, GeneratorExit):
        return _current_aio_task() is None
    return isinstance(error, asyncio.CancelledError) and cancel_requests() > 0


def cancel_requests() -> int:
    """Return the number of cancel requests of the running asyncio task. Withdrawn requests do not count."""
    aio_task = _current_aio_task()
    return 0 if aio_task is None else aio_task.cancelling()


def _current_aio_task() -> "asyncio.Task[Any] | None":
    """Return the running asyncio task. None also without an event loop, such as when the garbage collector closes a coroutine."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def take_back_cancel_requests() -> None:
    """Withdraw all cancel requests of the running asyncio task."""
    aio_task = asyncio.current_task()
    while aio_task is not None and aio_task.cancelling():
        aio_task.uncancel()


async def absorb_last_cancel_request() -> None:
    """Withdraw the last cancel request of the running asyncio task, before asyncio delivers it as an error."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    aio_task = asyncio.current_task()
    if aio_task is not None:
        aio_task.uncancel()


def aio_task_error(aio_task: "asyncio.Task[Any]") -> BaseException | None:
    """Return the error of an asyncio task that has ended. Return None if it has no error or was cancelled.

    Use this function as a done callback of a task if the caller handles the error elsewhere. Then asyncio does not log the error.
    """
    return None if aio_task.cancelled() else aio_task.exception()


async def cancel_and_wait(aio_tasks: Iterable["asyncio.Task[Any]"]) -> tuple[list[BaseException], int]:
    """Cancel asyncio tasks and wait for their end. Return their errors, and the number of tasks that still run after CLOSE_TIMEOUT_SECS.

    A task may swallow a cancellation by accident (`except BaseException`), so the function cancels again after one second.
    """
    return await CancelledWork().cancel(aio_tasks)


class CancelledWork:
    """Asyncio tasks that are cancelled and have not ended. If a kill interrupts a wait for them, the next wait includes them."""

    def __init__(self, second_cancel_secs: float = _SECOND_CANCEL_SECS) -> None:
        """second_cancel_secs: time that a task has to end before it is cancelled again, which breaks off a `finally` that still waits."""
        self._second_cancel_secs = second_cancel_secs
        self._running: set[asyncio.Task[Any]] = set()

    async def cancel(self, aio_tasks: Iterable["asyncio.Task[Any]"]) -> tuple[list[BaseException], int]:
        """Do what `cancel_and_wait` does, for these tasks and for those of a wait that was interrupted.

        A task that is being cancelled already is not cancelled at once, because it may run its `finally`.
        """
        for aio_task in set(aio_tasks) - self._running:
            self._running.add(aio_task)
            if not aio_task.cancelling():
                aio_task.cancel()
        errors = await self._wait(self._second_cancel_secs)
        for aio_task in self._running:
            aio_task.cancel()
        errors += await self._wait(CLOSE_TIMEOUT_SECS - self._second_cancel_secs)
        count = len(self._running)
        self._running.clear()
        return errors, count

    async def _wait(self, timeout_secs: float) -> list[BaseException]:
        """Wait for the end of the tasks. Return the errors of those that have ended."""
        if not self._running:
            return []
        ended, self._running = await asyncio.wait(self._running, timeout=timeout_secs)
        return [error for each in ended if (error := aio_task_error(each)) is not None]


async def await_or_cancel(coroutine: Coroutine[Any, Any, None], timeout_secs: float, context: Context | None = None) -> bool:
    """Await a coroutine, and cancel it after `timeout_secs`. Return False if it swallows the cancellation and runs on.

    context: the context variables of the coroutine. None: a copy of the caller's. Raises the errors of the coroutine, and a TimeoutError
    without arguments if it was cancelled.
    """
    aio_task = asyncio.get_running_loop().create_task(coroutine, context=context)
    try:
        await asyncio.wait([aio_task], timeout=timeout_secs)
        if aio_task.done():
            aio_task.result()
            return True
    finally:
        aio_task.cancel()
    await asyncio.wait([aio_task], timeout=_SECOND_CANCEL_SECS)
    if not aio_task.done():
        return False
    if (error := aio_task_error(aio_task)) is not None:
        raise error
    raise TimeoutError
