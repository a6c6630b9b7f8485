"""Executor of an acker: handles the signals of its ring, and fails the trees that timed out."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from engine.cancellation import aio_task_error, cancel_and_wait
from engine.errors import TASK_DIED, Failure
from engine.kernel import AckerCore, Signal, SignalRing
from engine.runtime.actor import Actor
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext

ExplainTimeouts: TypeAlias = Callable[[Sequence[int]], Mapping[int, Failure]]
"""Maps root ids that timed out to their Failures."""


class _Rules(TypedDict):
    timeout_from: Literal["progress", "emit"]
    timeouts: bool


class AckerExecutor(Actor):
    """The actor of one acker task. If it dies, its trees are lost, and every spout is informed at once (ACK-13)."""

    def __init__(self, info: TaskInfo, run_context: RunContext, inbox: SignalRing, explain_timeouts: ExplainTimeouts) -> None:
        super().__init__(info, run_context)
        self.inbox = inbox
        self.restarts = 0
        self._explain_timeouts = explain_timeouts
        self._spouts: Mapping[int, SignalRing] = {}
        inbox.set_on_wake(self.wakeup.set)

    def connect(self, spouts: Mapping[int, SignalRing]) -> None:
        """Set the rings of the spout tasks, by task id."""
        self._spouts = spouts
        self.core = AckerCore(self.info.task_id, self.inbox, dict(spouts), self.run_context.clock.now, **self._rules())

    def _rules(self) -> _Rules:
        config = self.run_context.config
        return {"timeout_from": config.timeout_from, "timeouts": config.enable_message_timeouts}

    async def close(self) -> None:
        """End the coroutine."""
        if self._aio_task is not None:
            await cancel_and_wait([self._aio_task])
            self._aio_task = None

    def kill(self) -> None:
        """Lose all trees. Every spout task fails its open trees of this acker."""
        self.restarts += 1
        self.core.begin(**self._rules())
        for ring in self._spouts.values():
            ring.signal(Signal.ACKER_DIED, value=self.info.task_index)
        self.reporter.warn(f"acker {self.info.task_index} died; its open trees fail (reason {TASK_DIED})")

    def _note_end(self, aio_task: "asyncio.Task[None]") -> None:
        error = aio_task_error(aio_task)
        if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):  # asyncio raises these two out of the loop
            self.run_context.end_run(self._engine_failure(error))

    async def _main(self) -> None:
        core = self.core
        while True:
            if core.run_burst():
                await asyncio.sleep(0)
            elif core.ledger.sweeping:
                self._fail_trees(core.sweep())
                await asyncio.sleep(0)
            else:
                self._fail_trees(core.overdue())
                await self._park()

    def _fail_trees(self, timed_out: list[tuple[int, int]]) -> None:
        """Send the verdicts of trees that timed out, with their reasons."""
        if not timed_out:
            return
        reasons = self._explain_timeouts([root for root, _ in timed_out])
        for root, task in timed_out:
            self.core.fail_tree(root, task, reasons[root])

    async def _park(self) -> None:
        deadline = self.core.next_deadline
        if not self.inbox.park():
            return
        try:
            await self.wakeup.wait(None if deadline is None else max(0.0, deadline - self.run_context.clock.now()))
        finally:
            self.inbox.unpark()

    @property
    def is_empty(self) -> bool:
        """True while no signal waits."""
        return self.is_idle and not len(self.inbox)
