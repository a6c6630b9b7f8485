"""`StepWaits` says what the checkpoints of a run wait for, and when one of them is late (EO-3, SV-11)."""

import asyncio
from collections.abc import Callable
from typing import Final

from engine.checkpoint.machine import Step
from engine.waits import Wait, waiting_for

LATE_SECS: Final = 10.0
LATE_INTERVALS: Final = 2
"""A checkpoint that takes longer than both is late, and holds the sources, so that an outage cannot make an interval grow without a bound."""


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
