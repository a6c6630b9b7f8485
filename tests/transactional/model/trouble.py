"""What goes wrong in one process, at named points of the user's methods; and how long these take."""

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
"""FailedBatch, quiet or not; another exception; a CancelledError of the user's own; a task dies; the process dies; the tuple is lost."""
POINTS: Final = (
    *("execute", "finish", "finished", "prepare", "cleanup", "keep", "emit", "emitted", "take part", "forget"),
    *("is ready", "define", "open", "prepare task"),
)
"""In bolts; in emitters; in coordinators and at the start of tasks."""


@dataclass(frozen=True)
class Blow:
    """What happens when a point is reached for the n-th time."""

    point: str
    number: int
    what: What
    victim: tuple[str, int] | None = None
    """Component and task index, for `kill`; None: the task itself."""


@dataclass
class Trouble:
    """The blows of one process, and the time that its methods take."""

    draws: random.Random
    blows: Sequence[Blow] = ()
    waits: float = 0.0
    """The chance that an async method takes a while."""
    longest_secs: float = 1.0
    kill: Callable[[str, int], None] = lambda component, index: None
    kill_process: Callable[[], None] = lambda: None
    reached: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)

    def meet(self, point: str, context: TaskContext) -> bool:
        """Reach a point, on the loop's thread; True where the input of the call is to be lost."""
        self.reached[point] += 1
        for blow in self.blows:
            if (blow.point, blow.number) == (point, self.reached[point]):
                self.struck[blow.what] += 1
                if blow.what == "lose":
                    return True
                self._strike(blow, context)
        return False

    def _strike(self, blow: Blow, context: TaskContext) -> None:
        name = f"{blow.point} {blow.number}"
        if blow.what == "kill":
            self.kill(*(blow.victim or (context.component_id, context.task_index)))
        elif blow.what == "process":
            self.kill_process()
        elif blow.what == "cancel":
            raise asyncio.CancelledError(name)
        elif blow.what == "raise":
            raise InjectedError(name)
        else:
            raise FailedBatch(f"InjectedError: {name}", report=blow.what == "report")

    async def wait(self) -> None:
        """Take a while, or not."""
        if self.draws.random() < self.waits:
            await asyncio.sleep(self.longest_secs * self.draws.random() ** 3)
