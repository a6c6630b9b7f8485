"""Spark may compute a partition of a job more than once. A `Try` keeps the events of one computation until the job uses its results."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from engine.transactional import TransactionAttempt
from tests.transactional.model.interpreter import Items
from tests.transactional.model.shape import Item
from tests.transactional.model.witness import Task, Witness


class Recorder(Protocol):
    """Receives the events of the instances: a `Witness` in one process, a `Try` in a job of Spark."""

    def emits(self, task: Task, attempt: TransactionAttempt) -> None:
        """An emitter begins to emit its part of an attempt."""

    def takes(self, task: Task, attempt: TransactionAttempt, item: Item) -> None:
        """A tuple of an attempt is executed."""

    def loses(self, run: Any, task_id: int, tup: Any) -> None:
        """A tuple is lost."""

    def asks(self, task: Task, attempt: TransactionAttempt) -> None:
        """A task's finish_batch is called."""

    def has_finished(self, task: Task, attempt: TransactionAttempt) -> None:
        """A task's finish_batch has returned."""


@dataclass(eq=False)
class JobEvents:
    """Events of one job."""

    witness: Witness
    sends: Callable[[Task, Task], bool]
    """Whether a task may send to another one. Neighbours without a shuffle send within their partition only."""
    finished: set[Task] = field(default_factory=set)
    """Tasks that have finished in any try."""
    tries: "dict[int, Try]" = field(default_factory=dict)

    def count(self, numbers: set[int]) -> None:
        """Pass on the events of the tries whose results the job uses."""
        for number in sorted(numbers & self.tries.keys()):
            self.tries[number].count()


@dataclass(eq=False)
class Try:
    """One computation of one partition. The order of emissions is free, because jobs run side by side."""

    job: JobEvents
    is_lost: bool = False
    """Whether the machine has died, so that Spark must compute the partition again."""
    came: defaultdict[tuple[TransactionAttempt, str], Items] = field(default_factory=lambda: defaultdict(Counter))
    asked: Counter[tuple[TransactionAttempt, Task]] = field(default_factory=Counter)
    finished: set[tuple[TransactionAttempt, Task]] = field(default_factory=set)

    def emits(self, task: Task, attempt: TransactionAttempt) -> None:
        if not self.job.witness.is_deaf:
            self.job.witness.sees(attempt)

    def takes(self, task: Task, attempt: TransactionAttempt, item: Item) -> None:
        self.came[attempt, task[0]][item] += 1

    def loses(self, run: Any, task_id: int, tup: Any) -> None:
        self.is_lost = True

    def asks(self, task: Task, attempt: TransactionAttempt) -> None:
        witness = self.job.witness
        if witness.is_deaf:
            return
        witness.sees(attempt)
        self.asked[attempt, task] += 1
        witness.check_sources(task, attempt, {each for each in witness.sources_of(task) if self.job.sends(each, task)} - self.job.finished)
        if task[0] in witness.shape.late:
            witness.add_violation(f"finish_batch of {attempt} in {task} belongs to the commit phase, and is called on Spark")

    def has_finished(self, task: Task, attempt: TransactionAttempt) -> None:
        self.finished.add((attempt, task))
        self.job.finished.add(task)

    def count(self) -> None:
        """Tell the witness all events."""
        witness = self.job.witness
        if witness.is_deaf:
            return
        for (attempt, bolt), items in self.came.items():
            if witness.final.get(attempt.txid) == attempt:
                witness.add_violation(f"a job of {attempt} ends after its commit")
            witness.came[attempt][bolt] += items
        for attempt, task in self.finished:
            witness.finished[attempt].add(task)
        witness.asked += self.asked
        for text in self._asked_twice():
            witness.add_violation(text)

    def _asked_twice(self) -> Iterator[str]:
        for attempt, task in self.asked:
            if (times := self.job.witness.asked[attempt, task]) > 1:
                yield f"finish_batch of {attempt} is called {times} times in {task}"


TRY: Final[ContextVar[Try | None]] = ContextVar("try", default=None)
"""The try whose instances are created now. None in the engine's own tasks."""

_NUMBERS: Final = itertools.count(1)
_SHARED: Final[WeakValueDictionary[int, Any]] = WeakValueDictionary()


class SharedByJobs:
    """Is pickled as a reference to this object, because the jobs of a simulation run in its process."""

    _number: int | None = None

    def __reduce__(self) -> Any:
        if self._number is None:
            self._number = next(_NUMBERS)
            _SHARED[self._number] = self
        return _shared, (self._number,)


def _shared(number: int) -> Any:
    return _SHARED[number]
