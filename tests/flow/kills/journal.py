"""What all processes of a round, and their judge, write down in one file, in order: a line by one `os.write`, so a death cuts none off.

| kind | by | says |
|---|---|---|
| opened | the producer | it begins behind this number |
| sent | the spout | all up to this number have been sent |
| done | the last bolt | this record is done |
| writes | the ledger | the position of this number is about to be written |
| written | the ledger | it is |
| stored | the judge, behind a death | it is what is stored, and so many records were done up to it |
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["opened", "sent", "done", "writes", "written", "stored"]


class Note(NamedTuple):
    """One line."""

    life: int
    """Which process."""
    kind: Kind
    task: int
    """The index of the spout's task."""
    number: int
    """Of a record of that task, from 1 on; 0 is before the first."""
    records: int = 0


class Journal:
    """One process's end of it."""

    def __init__(self, path: Path, life: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._life = life

    def note(self, kind: Kind, task: int, number: int, records: int = 0) -> None:
        """Write one line."""
        os.write(self._file, f"{self._life} {kind} {task} {number} {records}\n".encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def notes_in(path: Path) -> Iterator[Note]:
    """Yield all lines, in order."""
    with path.open() as file:
        for line in file:
            life, kind, *numbers = line.split()
            yield Note(int(life), kind, *map(int, numbers))  # type: ignore[arg-type]
