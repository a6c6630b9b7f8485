"""An acker's executor: drains its ring, and after each rotation sweeps for trees that timed out."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from engine.errors import TASK_DIED, ComponentError, Failure
from engine.kernel import AckerCore, Signal, SignalRing
from engine.runtime.doorbell import Doorbell
from engine.runtime.ending import end_all
from engine.runtime.error_report import error_text
from engine.runtime.surroundings import RunSurroundings, TaskPlace

Explain: TypeAlias = Callable[[Sequence[int]], Mapping[int, Failure]]
"""From the roots that timed out to why, as far as the lists of taken tuples and the trace know."""


class _Rules(TypedDict):
    timeout_from: Literal["progress", "emit"]
    timeouts: bool


class AckerExecutor:
    """The actor of one acker task. Its death loses its trees; each spout is told at once (ACK-13)."""

    def __init__(self, place: TaskPlace, around: RunSurroundings, inbox: SignalRing, explain: Explain) -> None:
        self.place = place
        self.around = around
        self.doorbell = Doorbell(around.loop)
        self.reporter = around.reporter_of(place)
        self.inbox = inbox
        self.restarts = 0
        self._explain = explain
        self._spouts: Mapping[int, SignalRing] = {}
        self._aio_task: asyncio.Task[None] | None = None
        self.at_rest = False
        inbox.set_on_wake(self.doorbell.ring)

    def connect(self, spouts: Mapping[int, SignalRing]) -> None:
        """Name the rings of the spout tasks, by task id."""
        self._spouts = spouts
        self.core = AckerCore(self.place.task_id, self.inbox, dict(spouts), self.around.clock.now, **self._rules())

    def _rules(self) -> _Rules:
        config = self.around.config
        return {"timeout_from": config.timeout_from, "timeouts": config.enable_message_timeouts}

    def start(self) -> None:
        """Set the coroutine off."""
        name = f"{self.around.topology.name}/{self.place.component_id}[{self.place.task_id}]"
        self._aio_task = self.around.loop.create_task(self._main(), name=name)
        self._aio_task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the coroutine."""
        if self._aio_task is not None:
            await end_all([self._aio_task])
            self._aio_task = None

    def kill(self) -> None:
        """Die: the trees are lost, and every spout task fails its open ones of this acker."""
        self.restarts += 1
        self.core.begin(**self._rules())
        for ring in self._spouts.values():
            ring.signal(Signal.ACKER_DIED, value=self.place.task_index)
        self.reporter.warn(f"acker {self.place.task_index} died; its open trees fail (reason {TASK_DIED})")

    def _ended(self, aio_task: "asyncio.Task[None]") -> None:
        """Whatever the coroutine raises ends the run; KeyboardInterrupt and SystemExit asyncio raises in the loop's host."""
        error = None if aio_task.cancelled() else aio_task.exception()
        if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            message = f"its executor failed: {error_text(error)}"
            hint = "This is a bug in the engine. Please report this text."
            self.around.give_up(ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint=hint))

    async def _main(self) -> None:
        core = self.core
        while True:
            if core.run_burst():
                await asyncio.sleep(0)
            elif core.ledger.sweeping:
                self._time_out(core.sweep())
                await asyncio.sleep(0)
            else:
                self._time_out(core.overdue())
                await self._park()

    def _time_out(self, over: list[tuple[int, int]]) -> None:
        """Send the failing verdicts of trees that are over, with their reasons."""
        if not over:
            return
        reasons = self._explain([root for root, _ in over])
        for root, task in over:
            self.core.fail_tree(root, task, reasons[root])

    async def _park(self) -> None:
        deadline = self.core.next_deadline
        if not self.inbox.park():
            return
        self.at_rest = True
        self.around.came_to_rest()
        try:
            await self.doorbell.wait(None if deadline is None else max(0.0, deadline - self.around.clock.now()))
        finally:
            self.at_rest = False
            self.inbox.unpark()

    @property
    def is_empty(self) -> bool:
        """True when no signal waits."""
        return self.at_rest and not len(self.inbox)
