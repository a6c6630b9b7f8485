"""What the components of one simulated run share: the draws, the book of who waits for which verdict, and what went wrong."""

import asyncio
import weakref
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from engine import Failure, Tuple

MessageId = tuple[str, int, int, int]
"""Component, task index, incarnation of the instance, number: no other instance ever uses it."""


@dataclass
class SourceBook:
    """What the source behind one spout task remembers through deaths of its instances."""

    left: deque[int]
    """Numbers to emit, again or for the first time."""
    tries: dict[int, int] = field(default_factory=dict)
    incarnation: int = 0
    open: dict[MessageId, tuple[int, float]] = field(default_factory=dict)
    """What the living instance waits for: the number, and when it was emitted."""


class World:
    """One simulated run. Everything random is drawn from its seed, in the order in which a loop with virtual time runs it."""

    def __init__(self, seed: int, timeout_secs: float) -> None:
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
        """Source task and target task to the label that came last."""

    def born(self, instance: Any) -> None:
        """Note an instance, to see later that it is gone."""
        self.instances.append(weakref.ref(instance))

    def living(self) -> list[Any]:
        """The instances that something still holds."""
        return [instance for reference in self.instances if (instance := reference()) is not None]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.random.random() < probability

    def label(self) -> int:
        """A number for a tuple."""
        self.labels += 1
        return self.labels

    def note(self, *event: Any) -> None:
        """Put an event into the trace."""
        self.trace.append((round(self.now(), 9), *event))

    def violated(self, text: str) -> None:
        """Note a broken promise."""
        self.violations.append(text)

    def came(self, tup: Tuple, task_id: int, *, in_order: bool) -> None:
        """A bolt executes an input: labels grow, so what one task sends another comes in their order (GRP-4)."""
        label = tup["label"]
        self.note("executed", task_id, label)
        if in_order:
            link = (tup.source_task, task_id)
            if label <= self.latest.get(link, 0):
                self.violated(f"task {task_id} got label {label} of task {tup.source_task} after {self.latest[link]}")
            self.latest[link] = label

    # Roots

    def opened(self, book: SourceBook, message_id: MessageId, number: int) -> None:
        """A spout emitted a tracked tuple."""
        book.open[message_id] = (number, self.now())
        self.roots += 1
        self.note("emitted", message_id)

    def heard(self, book: SourceBook, message_id: MessageId, failure: Failure | None, max_tries: int) -> None:
        """A spout heard a verdict: one of its own, for the first time, and no timeout before its time."""
        self.note("acked" if failure is None else failure.reason, message_id)
        number, emitted = book.open.pop(message_id, (None, 0.0))
        if number is None:
            self.violated(f"{failure or 'acked'} for {message_id}, which its instance does not wait for: it came twice, or is another's")
            return
        if failure is not None and failure.reason == "timeout" and self.now() - emitted < self.timeout_secs - 1e-6:
            self.violated(f"{message_id} timed out {self.now() - emitted:g} s after its emit")
        if failure is not None and book.tries.get(number, 1) < max_tries:
            book.left.append(number)

    def reborn(self, book: SourceBook, max_tries: int) -> int:
        """An instance begins: what the one before it had open is replayed; return its incarnation."""
        book.incarnation += 1
        for number, _ in book.open.values():
            if book.tries.get(number, 1) < max_tries:
                book.left.append(number)
        book.open.clear()
        return book.incarnation

    def now(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()
