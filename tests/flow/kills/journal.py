"""The file of events of a round. All processes and the judge append to it.

Each line is one `os.write`, so a death cuts no line.

| kind | by | says |
|---|---|---|
| opened | the producer | it begins behind this record number |
| sent | the spout | all records up to this number have been sent |
| done | the last bolt | this record is done |
| writes | the ledger | the position of this number is about to be written |
| written | the ledger | the position of this number is written |
| stored | the judge, after a death | the position of this number is stored, with this count of done records |
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["opened", "sent", "done", "writes", "written", "stored"]


class Note(NamedTuple):
    """One line of the journal."""

    life: int
    """Number of the process, from 1 on."""
    kind: Kind
    task: int
    """The index of the spout's task."""
    number: int
    """Number of a record of that task, from 1 on. 0 is the position before the first record."""
    records: int = 0


class Journal:
    """The journal as one process writes it."""

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
