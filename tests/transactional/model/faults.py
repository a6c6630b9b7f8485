"""Faults of one process at named points of the user's methods, and delays of these methods."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from engine import TaskContext
from engine.testing import InjectedError
from engine.transactional import FailedBatch

What: TypeAlias = Literal["fail", "report", "raise", "cancel", "kill", "process", "lose"]
"""Effect of a fault.

A FailedBatch without or with a report, another exception, or a CancelledError of user code. A dead task or process. A lost tuple.
"""
POINTS: Final = (
    *("execute", "finish", "finished", "prepare", "cleanup", "keep", "emit", "emitted", "take part", "forget"),
    *("is ready", "define", "open", "prepare task"),
)
"""Points in bolts, then in emitters, then in coordinators and at the start of tasks."""


@dataclass(frozen=True)
class PlannedFault:
    """A fault at the n-th time that a point is reached."""

    point: str
    number: int
    what: What
    victim: tuple[str, int] | None = None
    """Component and task index to kill; None is the task at the point."""


@dataclass
class Faults:
    """Planned faults of one process, and delays of its methods."""

    draws: random.Random
    planned: Sequence[PlannedFault] = ()
    waits: float = 0.0
    """Chance that an async method waits."""
    longest_secs: float = 1.0
    kill: Callable[[str, int], None] = lambda component, index: None
    kill_process: Callable[[], None] = lambda: None
    reached: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)

    def reach(self, point: str, context: TaskContext) -> bool:
        """Reach a point, on the loop's thread. Return whether the input of the call is to be lost."""
        self.reached[point] += 1
        for fault in self.planned:
            if (fault.point, fault.number) == (point, self.reached[point]):
                self.struck[fault.what] += 1
                if fault.what == "lose":
                    return True
                self._strike(fault, context)
        return False

    def _strike(self, fault: PlannedFault, context: TaskContext) -> None:
        name = f"{fault.point} {fault.number}"
        if fault.what == "kill":
            self.kill(*(fault.victim or (context.component_id, context.task_index)))
        elif fault.what == "process":
            self.kill_process()
        elif fault.what == "cancel":
            raise asyncio.CancelledError(name)
        elif fault.what == "raise":
            raise InjectedError(name)
        else:
            raise FailedBatch(f"InjectedError: {name}", report=fault.what == "report")

    async def wait(self) -> None:
        """Wait, or not."""
        if self.draws.random() < self.waits:
            await asyncio.sleep(self.longest_secs * self.draws.random() ** 3)
