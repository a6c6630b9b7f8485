"""World of the bolts in one child process of a simulated run. Its violations go through the log to the run."""

import logging
import os
import signal
import time
from collections import defaultdict
from random import Random
from typing import Any, Final

from engine import Tuple

VIOLATIONS: Final = logging.getLogger("tests.simulation.child")
"""A child logs its violations here. The log of a child arrives in its run (PR-1)."""


class ChildWorld:
    """Draws for the bolts of one process, as `World` does for those of the run.

    The draws depend on the seed and the label of the input. The schedule of a child is real, so a seed does not repeat a run exactly.
    """

    def __init__(self, seed: str, crash: float) -> None:
        """crash: chance that an input kills the process, before or between its emits."""
        self.seed, self.crash = seed, crash
        self.random = Random(seed)
        self.kept: list[Tuple] = []
        self.latest: dict[int, int] = {}
        """Latest label by source task."""
        self.seen_by_task: defaultdict[int, set[int]] = defaultdict(set)
        self._label = 0

    def note_instance(self, instance: Any) -> None:
        """Do nothing. The process ends with its instances."""

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def label(self) -> int:
        """Label of the next tuple. It also grows from one process of a task to the next."""
        self.maybe_crash()
        self._label = max(self._label + 1, time.monotonic_ns())
        return self._label

    def note_input(self, tup: Tuple, task_id: int, *, in_order: bool, may_repeat: bool = False) -> None:
        """A bolt executes an input. Labels must grow: tuples of one task arrive in their order (GRP-4)."""
        label = tup["label"]
        self.random.seed(f"{self.seed} {label}")
        if in_order:
            latest = self.latest.get(tup.source_task, 0)
            if label < latest or (label == latest and not may_repeat):
                VIOLATIONS.error("the process of task %s got label %s of task %s after %s", task_id, label, tup.source_task, latest)
            self.latest[tup.source_task] = label
        self.maybe_crash()

    def maybe_crash(self) -> None:
        """Kill this process by chance."""
        if self.chance(self.crash):
            os.kill(os.getpid(), signal.SIGKILL)
