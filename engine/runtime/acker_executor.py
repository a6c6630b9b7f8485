"""Executor of an acker: handles the signals of its ring, and fails the trees that timed out."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, TypedDict

from engine.cancellation import aio_task_error, cancel_and_wait
from engine.errors import TASK_DIED, Failure
from engine.kernel import AckerCore, Signal, SignalRing
from engine.runtime.actor import Actor
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext

ExplainTimeouts: TypeAlias = Callable[[Iterable[int]], Iterator[tuple[int, Failure] | None]]
"""Finds the Failures of root ids that timed out, one after the other. None between them is a place for a pause."""

LEAST_WAIT_SECS: Final = 1e-6
"""Shortest wait for a deadline. A loop runs a timer that is nearer than the resolution of its clock at once, so before the deadline."""
SLICE_SECS: Final = 0.005
"""Time after which the work for trees that timed out yields to the event loop (BP-4)."""


class _Rules(TypedDict):
    timeout_from: Literal["progress", "emit"]
    timeouts: bool


class AckerExecutor(Actor):
    """The actor of one acker task. If it dies, its trees are lost, and every spout is informed at once (ACK-13)."""

    def __init__(self, info: TaskInfo, run_context: RunContext, inbox: SignalRing, explain_timeouts: ExplainTimeouts) -> None:
        super().__init__(info, run_context)
        self._timed_out: list[tuple[int, int]] = []
        """Root ids of trees that timed out, each with its spout task. The ledger has forgotten them, and the spout does not know it yet."""
        self._failing: Iterator[None] | None = None
        """Sends their verdicts, after an earlier sweep."""
        self.inbox = inbox
        self.restarts = 0
        self._explain_timeouts = explain_timeouts
        self._spouts: Mapping[int, SignalRing] = {}
        inbox.set_on_wake(self.wakeup.set)

    def connect(self, spouts: Mapping[int, SignalRing], exact: frozenset[int], effects: bytearray) -> None:
        """Set the rings of the spout tasks, by task id. exact, effects: as in `AckerCore`."""
        self._spouts = spouts
        now = self.run_context.clock.now
        self.core = AckerCore(self.info.task_id, self.inbox, dict(spouts), now, **self._rules())
        if exact:
            self.core.set_exact(exact, effects)

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
        self._timed_out, self._failing = [], None
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
                self._timed_out += core.sweep()
                await asyncio.sleep(0)
            elif self._fail_for_a_slice():
                await asyncio.sleep(0)
            else:
                await self._park()

    def _fail_for_a_slice(self) -> bool:
        """Fail trees that timed out, for about 5 ms, so that many of them stop neither the loop nor this acker. False if there are none."""
        if self._failing is None:
            timed_out = self._timed_out + self.core.overdue()
            if not timed_out:
                return False
            self._timed_out, self._failing = [], self._fail_trees(dict(timed_out))
        now = self.run_context.clock.now
        until = now() + SLICE_SECS
        for _ in self._failing:
            if now() >= until:
                return True
        self._failing = None
        return True

    def _fail_trees(self, task_of: dict[int, int]) -> Iterator[None]:
        """Send the verdicts of trees, with their reasons. Each yield is a place for a pause."""
        for explained in self._explain_timeouts(task_of):
            if explained is not None:
                root, reason = explained
                self.core.fail_tree(root, task_of[root], reason)
            yield

    async def _park(self) -> None:
        deadline = self.core.next_deadline
        if not self.inbox.park():
            return
        try:
            await self.wakeup.wait(None if deadline is None else max(LEAST_WAIT_SECS, deadline - self.run_context.clock.now()))
        finally:
            self.inbox.unpark()

    @property
    def is_empty(self) -> bool:
        """True while no signal waits."""
        return self.is_idle and not len(self.inbox)
