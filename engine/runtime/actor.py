"""Base class of the actors of a run, and the event that wakes an actor."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Final

from engine.errors import ComponentError
from engine.runtime.error_report import error_text
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext

CLOSER: Final[ContextVar[object]] = ContextVar("CLOSER", default=None)
"""The supervisor that closes its actors in the running asyncio task, or in the one that created it."""
BUG_HINT: Final = "This is a bug in the engine. Please report this text."


class WakeupEvent:
    """Event that wakes the one coroutine that waits. If no coroutine waits, a call of `set` ends the next wait at once.

    `note_wait` is called at the beginning of each wait.
    """

    __slots__ = ("_is_set", "_loop", "_note_wait", "_waiter", "has_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop, note_wait: Callable[[], None]) -> None:
        self._loop = loop
        self._note_wait = note_wait
        self._is_set = False
        self.has_waiter = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter, now or at its next wait. Call it on the loop's thread only."""
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_secs: float | None = None) -> bool:
        """Wait for `set` and reset the event. Return False if the timeout came first."""
        self.has_waiter = True
        timer = None
        try:
            self._note_wait()
            if not self._is_set:
                self._waiter = self._loop.create_future()
                if timeout_secs is not None:
                    timer = self._loop.call_later(timeout_secs, self._time_out)
                await self._waiter
        finally:
            self.has_waiter = False
            self._waiter = None
            if timer is not None:
                timer.cancel()
        was_set, self._is_set = self._is_set, False
        return was_set

    def _time_out(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Actor(ABC):
    """One task of a run, served by one coroutine that waits at its `wakeup`."""

    def __init__(self, info: TaskInfo, run_context: RunContext) -> None:
        self.info = info
        self.run_context = run_context
        self.wakeup = WakeupEvent(run_context.loop, run_context.note_idle)
        self.reporter = run_context.reporter_of(info)
        self._aio_task: asyncio.Task[None] | None = None
        self.variables: Context | None = None
        """Context variables of the coroutine. None: a copy of those of the caller of `start`."""

    @property
    def is_idle(self) -> bool:
        """True while the coroutine waits for a wake-up. Concurrent calls of a bolt may run meanwhile."""
        return self.wakeup.has_waiter

    def start(self) -> None:
        """Start the coroutine."""
        name = f"{self.run_context.topology.name}/{self.info.component_id}[{self.info.task_id}]"
        self._aio_task = self.run_context.loop.create_task(self._main(), name=name, context=self.variables)
        self._aio_task.add_done_callback(self._note_end)

    def abandon(self) -> None:
        """Cancel the coroutine at once, because nobody will close it. Its loop counts as ending (`RunContext.is_abandoned`)."""
        if self._aio_task is not None:
            self._aio_task.cancel()

    @abstractmethod
    async def close(self) -> None:
        """End the coroutine."""

    @abstractmethod
    async def _main(self) -> None:
        """Serve the task until it is closed."""

    @abstractmethod
    def _note_end(self, aio_task: "asyncio.Task[None]") -> None:
        """End the run if the coroutine ended by an error."""

    def _engine_failure(self, error: BaseException) -> ComponentError:
        """Return the ComponentError for an error of the engine's own code."""
        return ComponentError(
            self.info.component_id, self.info.task_id, error, message=f"its executor failed: {error_text(error)}", hint=BUG_HINT
        )
