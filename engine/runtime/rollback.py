"""`Rollback` takes all tasks of a run back to their last commit, whatever waits in mailboxes and whatever call hangs (EO-5)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from engine.errors import Failure

CANCEL_AGAIN_SECS: Final = 0.5
"""Pause before the calls of tasks that have not stopped are cancelled once more, because a call may swallow a cancellation."""


class RollbackTask(Protocol):
    """A task that goes back, as a rollback sees it: of a bolt, or of a spout whose positions are in the checkpoint."""

    def roll_back(self, rollback: "Rollback") -> None:
        """Cancel the running calls and the pause before a restart. The task then waits in `stopped`."""

    def drop_inputs(self, failure: Failure) -> None:
        """Drop all inputs, taken or not, without a signal to their trees."""


class RollbackSource(Protocol):
    """A task of any spout, as a rollback sees it."""

    def fail_open_trees(self, failure: Failure) -> None:
        """Fail all trees that have no verdict."""


class Rollback:
    """One rollback. `run` returns when every task serves again.

    A tuple from before the rollback must not reach a task behind it. So no task begins anew until all tasks have stopped, and in that
    moment, without an await, all queues are emptied and all open trees fail.
    """

    def __init__(self, tasks: Sequence[RollbackTask], sources: Sequence[RollbackSource], failure: Failure) -> None:
        self._tasks = tasks
        self._sources = sources
        self.failure: Final = failure
        self._running: set[object] = set(tasks)
        self._unready: set[object] = set(tasks)
        self._progress = asyncio.Event()
        self._dropped = asyncio.Event()

    async def run(self, before_drop: Callable[[], Awaitable[None]]) -> None:
        """Stop all tasks, empty their queues, and begin them anew. before_drop: called when no task runs, for what still counts."""
        while self._running:
            for task in self._tasks:
                if task in self._running:
                    task.roll_back(self)
            await self._wait_for_progress(CANCEL_AGAIN_SECS)
        await before_drop()
        for task in self._tasks:
            task.drop_inputs(self.failure)
        for source in self._sources:
            source.fail_open_trees(self.failure)
        self._dropped.set()
        while self._unready:
            await self._wait_for_progress(None)

    async def _wait_for_progress(self, limit_secs: float | None) -> None:
        self._progress.clear()
        try:
            async with asyncio.timeout(limit_secs):
                await self._progress.wait()
        except TimeoutError:
            return

    # Calls of the tasks

    async def stopped(self, task: object) -> None:
        """Note that a task makes no call, and wait until all queues are empty."""
        self._running.discard(task)
        if not self._running:
            self._progress.set()
        await self._dropped.wait()

    def note_gone(self, task: object) -> None:
        """Note that a task is closing, because the run ends."""
        self._running.discard(task)
        self._unready.discard(task)

    def note_ready(self, task: object) -> None:
        """Note that a task serves again."""
        self._unready.discard(task)
        if not self._unready:
            self._progress.set()
