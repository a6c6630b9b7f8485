"""Reads what a file committer has written: what counts of it (TX-8)."""

import os
from collections.abc import Iterator
from pathlib import Path

from engine.transactional.files.output_names import counting, name_of


def committed_files(folder: str | os.PathLike[str], *, newest: bool = True) -> list[Path]:
    """Return the files that count, in the order of txids and tasks: of each txid those of its highest attempt.

    All but those of the newest txid are committed, and stay as they are. Those of the newest are there when every task has written. While
    the topology runs, or was killed, they are in doubt: its commit may not be known to the coordinator, which then has the txid written
    again by a later attempt, with the same content behind a transactional spout, with another behind an opaque one. `newest=False` leaves
    them out; after a run that has ended by itself there is no doubt.

    Files of lower attempts, which a process that was paused and overtaken may write late, are never among them. Whoever takes files
    away, leaves the newest txid, and takes all files of the others that he takes. Raises StateError where one is missing.
    """
    path = Path(folder)
    names = [found[0] for text in os.listdir(path) if (found := name_of(text)) is not None and not found[1]]
    counts = counting(names)
    return [path / str(name) for name in (*counts.settled, *(counts.newest if newest else ()))]


def committed_lines(folder: str | os.PathLike[str], *, newest: bool = True) -> Iterator[str]:
    """Yield the lines of the files that count, without their ends."""
    for path in committed_files(folder, newest=newest):
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")
