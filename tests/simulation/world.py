"""Shared state of the components of one simulated run: random draws, open trees of each spout, and violations."""

import asyncio
import weakref
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from engine import Failure, Tuple

MessageId = tuple[str, int, int, int]
"""Component, task index, incarnation of the instance, and number. It is unique."""


@dataclass
class SourceBook:
    """State of the source behind one spout task. It survives deaths of the instances."""

    left: deque[int]
    """Numbers to emit, for the first time or again."""
    tries: dict[int, int] = field(default_factory=dict)
    incarnation: int = 0
    open: dict[MessageId, tuple[int, float]] = field(default_factory=dict)
    """Open trees of the living instance: number and time of the emit."""


class World:
    """One simulated run. All draws come from its seed, in the order in which virtual time runs the components."""

    def __init__(self, seed: int, timeout_secs: float) -> None:
        self.seed = seed
        self.random = Random(f"components {seed}")
        self.timeout_secs = timeout_secs
        self.violations: list[str] = []
        self.trace: list[tuple[Any, ...]] = []
        self.books: dict[tuple[str, int], SourceBook] = {}
        self.kept: list[Tuple] = []
        """Tuples that a bolt keeps and never settles."""
        self.instances: list[weakref.ref[Any]] = []
        self.labels = 0
        self.roots = 0
        self.latest: dict[tuple[int, int], int] = {}
        """Latest label by source task and target task."""
        self.seen_by_task: defaultdict[int, set[int]] = defaultdict(set)
        """Labels that a bolt with retries has seen, by its task."""

    def note_instance(self, instance: Any) -> None:
        """Record an instance, to check later that it is garbage."""
        self.instances.append(weakref.ref(instance))

    def living(self) -> list[Any]:
        """Instances that are not yet garbage."""
        return [instance for reference in self.instances if (instance := reference()) is not None]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.random.random() < probability

    def label(self) -> int:
        """Number of the next tuple."""
        self.labels += 1
        return self.labels

    def list_sizes(self, tuples: int) -> Iterator[int]:
        """Draw the lengths of lists with so many tuples together. Some lists are empty."""
        while tuples > 0:
            size = min(tuples, self.random.choice((0, 1, 2, 5, 12)))
            tuples -= size
            yield size

    def note(self, *event: Any) -> None:
        """Add an event to the trace."""
        self.trace.append((round(self.now(), 9), *event))

    def add_violation(self, text: str) -> None:
        """Add a violation."""
        self.violations.append(text)

    def note_input(self, tup: Tuple, task_id: int, *, in_order: bool, may_repeat: bool = False) -> None:
        """A bolt executes an input. Labels must grow: tuples of one task arrive in their order (GRP-4). A retry repeats the last label."""
        label = tup["label"]
        self.note("executed", task_id, label)
        if in_order:
            link = (tup.source_task, task_id)
            latest = self.latest.get(link, 0)
            if label < latest or (label == latest and not may_repeat):
                self.add_violation(f"task {task_id} got label {label} of task {tup.source_task} after {latest}")
            self.latest[link] = label

    # Roots

    def note_emit(self, book: SourceBook, message_id: MessageId, number: int) -> None:
        """A spout emitted a tracked tuple."""
        book.open[message_id] = (number, self.now())
        self.roots += 1
        self.note("emitted", message_id)

    def note_verdict(self, book: SourceBook, message_id: MessageId, failure: Failure | None, max_tries: int) -> None:
        """A spout got a verdict. It must be the first one of an own tree, and a timeout must not be early."""
        self.note("acked" if failure is None else failure.reason, message_id)
        number, emitted = book.open.pop(message_id, (None, 0.0))
        if number is None:
            self.add_violation(
                f"{failure or 'acked'} for {message_id}, which is not open at its instance: a second verdict, or one of another instance"
            )
            return
        if failure is not None and failure.reason == "timeout" and self.now() - emitted < self.timeout_secs - 1e-6:
            self.add_violation(f"{message_id} timed out {self.now() - emitted:g} s after its emit")
        if failure is not None and book.tries.get(number, 1) < max_tries:
            book.left.append(number)

    def begin_instance(self, book: SourceBook, max_tries: int) -> int:
        """An instance begins: open trees of the one before are replayed. Return the number of the incarnation."""
        book.incarnation += 1
        for number, _ in book.open.values():
            if book.tries.get(number, 1) < max_tries:
                book.left.append(number)
        book.open.clear()
        return book.incarnation

    def now(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()
