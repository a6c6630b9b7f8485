"""The judge of a round of kills: it reads the journal alone (FC-6).

At any time the position that is written, or is about to be written, is within the done prefix. It is never less than an earlier one.
A start continues behind the stored position. It repeats only records that were sent beyond it. In the end each record is done.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.flow.kills.journal import Note


@dataclass
class Task:
    """State of one task of the spout after the lines read so far."""

    index: int
    count: int
    done: dict[int, int] = field(default_factory=dict)
    """Record number -> the life (process) that did the record first."""
    prefix: int = 0
    """All up to this record are done."""
    sent: int = 0
    """Last record that any life has sent."""
    written: int = 0
    """The newest position that was reported as written, or found in the store."""
    begun: int = 0
    """The newest position whose write has begun."""
    opened: int = 0
    """Position behind which this life began."""
    opened_by: int = 0
    beyond: int = 0
    """Records that earlier lives have sent beyond that position."""
    repeated: set[int] = field(default_factory=set)
    """Records that this life and an earlier one have done."""

    def take(self, note: Note) -> Iterator[str]:
        """Process the next line, and yield its faults."""
        if note.life != self.opened_by and note.kind != "stored" and note.kind != "opened":
            yield f"{note}: before its producer was opened"
        yield from getattr(self, f"_{note.kind}")(note)

    def _opened(self, note: Note) -> Iterator[str]:
        if note.life == self.opened_by:
            yield f"{note}: opened again in one life: the task died of something else, see the log"
        self.opened, self.opened_by = note.number, note.life
        self.beyond, self.repeated = self.sent - note.number, set()
        yield from self._stands(note)

    def _sent(self, note: Note) -> Iterator[str]:
        self.sent = max(self.sent, note.number)
        yield from ()

    def _done(self, note: Note) -> Iterator[str]:
        if not self.opened < note.number <= min(self.sent, self.count):
            yield f"{note}: not between {self.opened}, where the life began, and {self.sent}, the last that was sent"
        if self.done.setdefault(note.number, note.life) != note.life:
            self.repeated.add(note.number)
        while self.prefix + 1 in self.done:
            self.prefix += 1

    def _writes(self, note: Note) -> Iterator[str]:
        yield from self._is_no_less(note)
        yield from self._is_done(note)
        yield from self._is_counted(note)
        self.begun = max(self.begun, note.number)

    def _written(self, note: Note) -> Iterator[str]:
        yield from self._is_no_less(note)
        self.written = note.number

    def _stored(self, note: Note) -> Iterator[str]:
        yield from self._stands(note)
        yield from self._is_counted(note)
        if len(self.repeated) > self.beyond:
            yield f"{note}: {len(self.repeated)} were repeated, of {self.beyond} that were sent beyond {self.opened}"
        self.written = max(self.written, note.number)

    def _stands(self, note: Note) -> Iterator[str]:
        """Check a position that a store has after a death."""
        yield from self._is_no_less(note)
        yield from self._is_done(note)
        if note.number > self.begun:
            yield f"{note}: nobody began to write more than {self.begun}"

    def _is_no_less(self, note: Note) -> Iterator[str]:
        if note.number < self.written:
            yield f"{note}: {self.written} was recorded before"

    def _is_done(self, note: Note) -> Iterator[str]:
        if note.number > self.prefix:
            yield f"{note}: {self.prefix + 1} is not done"

    def _is_counted(self, note: Note) -> Iterator[str]:
        if note.records != note.number:
            yield f"{note}: the records up to it are {note.number}"

    def end(self) -> Iterator[str]:
        """Yield the faults after a complete life."""
        if self.prefix < self.count:
            yield f"task {self.index}: record {self.prefix + 1} was never done, of {self.count}"
        if self.written != self.count:
            yield f"task {self.index}: its position is that of record {self.written} in the end, not of the last one, {self.count}"


@dataclass
class Judged:
    """Result of a round."""

    violations: list[str]
    repeats: int
    """Repeats: each further life that has done a record counts once."""
    most_repeats: int
    """Most repeats of one task in one life."""


MOST_VIOLATIONS: Final = 20


def judge(notes: Iterable[Note], tasks: int, count: int) -> Judged:
    """Judge a round whose last life was complete."""
    found = [Task(index, count) for index in range(tasks)]
    violations: list[str] = []
    repeats = Counter[tuple[int, int]]()
    for note in notes:
        task = found[note.task]
        violations += task.take(note)
        if task.repeated:
            repeats[note.task, task.opened_by] = len(task.repeated)
        if len(violations) >= MOST_VIOLATIONS:
            break
    else:
        violations += [fault for task in found for fault in task.end()]
    return Judged(violations, repeats.total(), max(repeats.values(), default=0))
