"""What the checkpoints of a run wait for: `StepWaits` for the run as a whole, and when it is late, `TaskWaits` for each task (EO-10)."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from engine.checkpoint.machine import Step
from engine.checkpoint.prepare import Prepare
from engine.waits import Wait, waiting_for

LATE_SECS: Final = 10.0
LATE_INTERVALS: Final = 2
"""A checkpoint that takes longer than both is late, and holds the sources. Else an outage would make an interval grow without a bound."""


class StepWaits:
    """The waits of the checkpoints of one run: the checkpoint or the recovery under way, and an outage of a component."""

    def __init__(self, interval_secs: float, reason: Callable[[], str | None], on_late: Callable[[], None]) -> None:
        """reason: tells what the step waits for. on_late: called when a checkpoint is late, and when it no longer is."""
        self.late_secs: Final = max(LATE_SECS, LATE_INTERVALS * interval_secs)
        self.is_late = False
        self._reason = reason
        self._on_late = on_late
        self._timer: asyncio.TimerHandle | None = None
        self._wait: Wait | None = None
        self._outage: Wait | None = None
        self._failures = ""
        """What the last pass of the outage has failed."""

    def begin_step(self, step: Step) -> None:
        """Note a new step. A PREPARE and its COMMIT are one wait, and so are recoveries that follow each other."""
        if step is Step.PREPARE:
            self._begin(waiting_for("a checkpoint", long_secs=self.late_secs, detail=self._reason, yields=True))
            self._timer = asyncio.get_running_loop().call_later(self.late_secs, self._note_late)
        elif step is Step.RECOVER and (self._wait is None or self._timer is not None):
            self._begin(waiting_for("the states to go back to the last commit", detail=self._reason, yields=True))
        elif step is Step.IDLE:
            self.close()

    def close(self) -> None:
        """End the wait for a step."""
        if self._wait is not None:
            self._wait.end()
            self._wait = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_late:
            self.is_late = False
            self._on_late()

    def _begin(self, wait: Wait) -> None:
        self.close()
        self._wait = wait.begun()

    def _note_late(self) -> None:
        self.is_late = True
        self._on_late()

    @property
    def in_outage(self) -> bool:
        """True from the second pass in which nothing counted, to a commit or a pass in which a failure counts (EO-6)."""
        return self._outage is not None

    def note_outage(self, failures: str) -> None:
        """Note a further pass in which components have failed rows and processed none, so that nothing counts."""
        self._failures = failures
        if self._outage is None:
            self._outage = waiting_for("the end of an outage", detail=lambda: self._failures).begun()

    def end_outage(self) -> None:
        """Note that a pass counts, or that a checkpoint is committed."""
        if self._outage is not None:
            self._outage.end()
            self._outage = None


class TaskWaits:
    """What each task waits for in the step under way."""

    def __init__(self, prepare: Prepare) -> None:
        self._prepare = prepare
        self._component_of: Mapping[int, str] = {}
        self._tasks_of: defaultdict[str, list[int]] = defaultdict(list)
        self._aligning: dict[int, Collection[int]] = {}
        """Tasks whose barriers each of these tasks waits for."""
        self._unsettled: set[int] = set()
        """Tasks that wait for their unsettled inputs before they forward the barrier."""
        self._ordered: dict[asyncio.Future[None], int] = {}
        """Orders of the current step, each with its task."""
        self._repeating: dict[int, str] = {}
        """The hook that each of these tasks repeats until it succeeds, and its last error, as text."""

    def join(self, component_of: Mapping[int, str]) -> None:
        """Take the component ids of all tasks."""
        self._component_of = component_of
        for task, component_id in component_of.items():
            self._tasks_of[component_id].append(task)

    def begin_step(self) -> None:
        """Forget what tasks have waited for in the step before."""
        self._aligning.clear()
        self._unsettled.clear()
        self._ordered.clear()

    def note_aligning(self, task: int, sources: Collection[int]) -> None:
        """Note the tasks whose barriers a task waits for. Empty: the task does not wait."""
        if sources:
            self._aligning[task] = sources
        else:
            self._aligning.pop(task, None)

    def note_unsettled(self, task: int, *, waits: bool) -> None:
        """Note that a task waits for its unsettled inputs before it forwards the barrier, or does no longer."""
        (self._unsettled.add if waits else self._unsettled.discard)(task)

    def note_ordered(self, orders: Mapping["asyncio.Future[None]", int]) -> None:
        """Note the orders of a step, each with its task."""
        self._ordered = dict(orders)

    def note_repeating(self, task: int, text: str | None) -> None:
        """Note the call of a hook that a task repeats, and its last error, as text. None: it repeats none."""
        if text is None:
            self._repeating.pop(task, None)
        else:
            self._repeating[task] = text

    @property
    def first(self) -> str | None:
        """The first text. None: no task waits."""
        return next(self.texts(), None)

    def texts(self) -> Iterator[str]:
        """Yield a text for each task that waits, or that the step waits for."""
        for task, text in sorted(self._repeating.items()):
            yield f"{self._named(task)} repeats {text}"
        for task, sources in sorted(self._aligning.items()):
            yield f"{self._named(task)} waits for the barrier of {', '.join(map(self._named, sorted(sources)))}"
        for task in sorted(self._unsettled):
            yield f"{self._named(task)} waits until its inputs of before the barrier are settled"
        for task in sorted({task for order, task in self._ordered.items() if not order.done()} - self._repeating.keys()):
            yield f"{self._named(task)} has not done the step"
        told, late = self._aligning.keys() | self._unsettled, set[str]()
        for component_id, senders in self._prepare.bolts.items():
            lacking = set(self._prepare.lacks(self._tasks_of.get(component_id, ())))
            if lacking:
                late.add(component_id)
            if late.isdisjoint(senders):  # else the barrier may not have come yet
                for task in sorted(lacking - told):
                    yield f"{self._named(task)} has not passed on the barrier"

    def _named(self, task: int) -> str:
        return f"{self._component_of.get(task, 'task')}[{task}]"
