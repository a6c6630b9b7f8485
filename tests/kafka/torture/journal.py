"""Journal of one process of a group. It survives kill -9, and can be read while it is written.

A line is `nanoseconds kind words…`, by the clock that all processes of a machine share:

    e EMISSION TASK PARTITION OFFSET NUMBER       a record is emitted
    d EMISSION, f EMISSION                        the bolt is done with it, or fails it
    k PARTITION OFFSET                            the spout hears that a record failed because a bolt's task has died
    o TASK PARTITION START                        a partition is opened: a tenure begins
    g TASK PARTITION REASON IN_FLIGHT DECIDED     it is given up: the tenure ends; how many were in flight when, before its last commit
    a TASK GENERATION PARTITION…                  the group has assigned; these are kept
    l PARTITION OFFSET                            the broker has the dead letter of a record: it is done
    v TASK                                        the group revokes
    s COMMIT TASK PARTITION OFFSET METADATA       a commit is sent, a line for each partition; `c COMMIT`, `x COMMIT`: it succeeded, failed
    z                                             a clean end
"""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from engine.kafka.source import acked_set


class Journal:
    """The writing end. The bolts in child processes have copies, which write to the same file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __reduce__(self) -> "tuple[type[Journal], tuple[Path]]":
        return Journal, (self._path,)

    def write(self, kind: str, *words: object) -> None:
        """Append one line."""
        os.write(self._file, " ".join([str(time.monotonic_ns()), kind, *map(str, words)]).encode() + b"\n")


@dataclass(slots=True)
class Sent:
    """The commit of one partition, as it was sent."""

    at: int
    partition: int
    offset: int
    runs: tuple[int, ...]
    """Start, stop, start, stop… of what its acked set names."""
    has_succeeded: bool = False

    def covers(self, offset: int) -> bool:
        """Tell whether whoever begins at this commit leaves a record out."""
        return offset < self.offset or any(start <= offset < stop for start, stop in zip(self.runs[::2], self.runs[1::2], strict=True))


@dataclass(slots=True)
class Tenure:
    """One partition in the hands of one task, from its opening until it was given up."""

    life: str
    """The journal of its process, by name."""
    partition: int
    start: int
    opened: int
    end: str = "killed"
    """drained, uncommitted, lost, closed, reset; `killed` where nobody wrote an end."""
    in_flight: int = 0
    """At its end: emitted, without a verdict."""
    decided: int = 0
    """When these were counted, just before the last commit."""
    commit: Sent | None = None
    """The last that succeeded."""
    claimed: int = 0
    """The highest offset of a commit that was sent, whether it succeeded or not."""

    def covers(self, offset: int) -> bool:
        """Tell whether a record was committed."""
        return self.commit is not None and self.commit.covers(offset)


@dataclass(slots=True)
class Emission:
    """One record that was emitted once."""

    tenure: Tenure
    offset: int
    number: int
    at: int
    done: int | None = None
    """When the bolt was done with it."""
    is_struck: bool = False
    """True if it failed because a bolt's task has died."""


@dataclass
class Life:
    """The reading end: all that one process did."""

    path: Path
    emissions: dict[str, Emission] = field(default_factory=dict)
    tenures: list[Tenure] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    generations: dict[str, int] = field(default_factory=dict)
    """Of each task, as it was assigned last; a task that was revoked has none."""
    owned: dict[tuple[str, int], Tenure] = field(default_factory=dict)
    all_generations: set[int] = field(default_factory=set)
    done: int = 0
    has_ended: bool = False
    _read: int = 0
    _commits: dict[str, list[tuple[str, Sent]]] = field(default_factory=dict)

    def read(self) -> None:
        """Take in what was written since."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            at, kind, *words = line.split(" ")
            getattr(self, f"_on_{kind}")(int(at), *words)

    def _on_e(self, at: int, emission: str, task: str, partition: str, offset: str, number: str) -> None:
        tenure = self.owned.get((task, int(partition))) or self._on_o(at, task, partition, offset)
        self.emissions[emission] = Emission(tenure, int(offset), int(number), at)

    def _on_d(self, at: int, emission: str) -> None:
        self.emissions[emission].done = at
        self.done += 1

    def _on_l(self, at: int, partition: str, offset: str) -> None:
        self._latest(partition, offset).done = at
        self.done += 1

    def _on_k(self, _at: int, partition: str, offset: str) -> None:
        self._latest(partition, offset).is_struck = True

    def _latest(self, partition: str, offset: str) -> Emission:
        """Return the last emission of a record."""
        place = (int(partition), int(offset))
        return next(one for one in reversed(self.emissions.values()) if (one.tenure.partition, one.offset) == place)

    def _on_f(self, at: int, emission: str) -> None:
        """A failure is no end of anything."""

    def _on_o(self, at: int, task: str, partition: str, start: str) -> Tenure:
        tenure = self.owned[task, int(partition)] = Tenure(self.path.name, int(partition), int(start), at)
        self.tenures.append(tenure)
        return tenure

    def _on_g(self, _at: int, task: str, partition: str, reason: str, in_flight: str, decided: str) -> None:
        tenure = self.owned.pop((task, int(partition)), None)
        if tenure is not None:
            tenure.end, tenure.in_flight, tenure.decided = reason, int(in_flight), int(decided)

    def _on_a(self, _at: int, task: str, generation: str, *_kept: str) -> None:
        self.generations[task] = int(generation)
        self.all_generations.add(int(generation))

    def _on_v(self, _at: int, task: str) -> None:
        self.generations.pop(task, None)

    def _on_s(self, at: int, commit: str, task: str, partition: str, offset: str, metadata: str = "") -> None:
        note = acked_set.decode(metadata)
        sent = Sent(at, int(partition), int(offset), note.runs if note else ())
        self.sent.append(sent)
        tenure = self.owned.get((task, sent.partition))
        if tenure is not None:
            tenure.claimed = max(tenure.claimed, sent.offset)
        self._commits.setdefault(commit, []).append((task, sent))

    def _on_c(self, _at: int, commit: str) -> None:
        for task, sent in self._commits.pop(commit, ()):
            sent.has_succeeded = True
            tenure = self.owned.get((task, sent.partition))
            if tenure is not None:
                tenure.commit = sent

    def _on_x(self, _at: int, commit: str, *_error: str) -> None:
        self._commits.pop(commit, None)

    def _on_z(self, _at: int) -> None:
        self.has_ended = True
