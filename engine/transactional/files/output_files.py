"""File names of a file committer, and the rule that decides which files count (TX-8).

The writer and the readers use this module.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import StateError
from engine.transactional.attempt import TransactionAttempt

OWNER: Final = ".written-by.json"
"""File with the name of the only committer that writes to the folder."""
_NAME: Final = re.compile(r"(\.?)(\d{12,})-(\d{8,})\.(\d{10})-(\d+)-of-(\d+)(\..*)?", re.DOTALL)


class OutputName(NamedTuple):
    """Name of a file, with the attempt and the task of its content.

    >>> str(OutputName(7, 2 * 2**32 + 5, 0, 3, ".jsonl"))
    '000000000007-00000002.0000000005-0-of-3.jsonl'
    """

    txid: int
    attempt_id: int
    task: int
    """0, 1, …"""
    tasks: int
    """Number of tasks that write this attempt."""
    suffix: str

    def __str__(self) -> str:
        attempt = TransactionAttempt(self.txid, self.attempt_id)
        return f"{self.txid:012}-{attempt.epoch:08}.{attempt.number:010}-{self.task}-of-{self.tasks}{self.suffix}"

    @property
    def draft(self) -> str:
        """Name of the file while it is written."""
        return f".{self}.tmp"


def name_of(text: str) -> tuple[OutputName, bool] | None:
    """Parse a file name. Return the name and whether it is a draft, None for another file."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    dot, txid, epoch, number, task, tasks, suffix = found.groups(default="")
    is_draft = bool(dot)
    if is_draft != suffix.endswith(".tmp"):
        return None
    name = OutputName(
        int(txid), int(epoch) * 2**32 + int(number), int(task), int(tasks), suffix.removesuffix(".tmp") if is_draft else suffix
    )
    return (name, is_draft) if text == (name.draft if is_draft else str(name)) else None


class Counting(NamedTuple):
    """The files that count, in the order of txids and tasks."""

    settled: list[OutputName]
    """Files of committed txids, which never change."""
    newest: list[OutputName]
    """Files of the newest txid, if all its tasks have written. A later attempt may still replace them."""


def counting(names: Iterable[OutputName]) -> Counting:
    """Return the files that count, which are those of the highest attempt of each txid.

    Raises StateError if a file of a committed txid is missing.
    """
    by_txid: dict[int, list[OutputName]] = defaultdict(list)
    for name in names:
        found = by_txid[name.txid]
        if found and name.attempt_id > found[0].attempt_id:
            found.clear()
        if not found or name.attempt_id == found[0].attempt_id:
            found.append(name)
    newest = max(by_txid, default=0)
    settled: list[OutputName] = []
    for txid in sorted(by_txid):
        files = sorted(by_txid[txid])
        is_whole = [file.task for file in files] == list(range(files[0].tasks))
        if txid == newest:
            return Counting(settled, files if is_whole else [])
        if not is_whole:
            there = ", ".join(str(file.task) for file in files)
            raise StateError(
                f"of txid {txid} only the tasks {there} of {files[0].tasks} have a file, although later txids exist",
                hint="The other files were removed or not copied. Move or remove all files of a txid together.",
            )
        settled += files
    return Counting(settled, [])


def superseded(names: Iterable[tuple[OutputName, bool]], attempt: TransactionAttempt) -> list[str]:
    """Return the names of drafts and files of superseded attempts, which are removed when this attempt commits."""
    names = list(names)
    highest: dict[int, int] = {attempt.txid: attempt.attempt_id}
    for name, is_draft in names:
        if not is_draft:
            highest[name.txid] = max(highest.get(name.txid, 0), name.attempt_id)
    return [
        name.draft if is_draft else str(name)
        for name, is_draft in names
        if name.attempt_id < (attempt.attempt_id if is_draft else highest[name.txid])
    ]


def committed_files(folder: str | os.PathLike[str], *, newest: bool = True) -> list[Path]:
    """Return the files that count, in the order of txids and tasks: those of the highest attempt of each txid.

    The files of all txids but the newest are committed and never change. The files of the newest txid are included once all tasks have
    written. These files are in doubt while the topology runs, and after it was killed. The coordinator may not know the commit, and then a
    later attempt writes the txid again. Behind an opaque spout the content may then differ. `newest=False` leaves them out.

    A process that was paused and replaced may write files of lower attempts. Such files are never included. If you remove files, keep the
    newest txid, and remove all files of a txid together. Raises StateError if a file is missing.
    """
    path = Path(folder)
    names = [found[0] for text in os.listdir(path) if (found := name_of(text)) is not None and not found[1]]
    counts = counting(names)
    return [path / str(name) for name in (*counts.settled, *(counts.newest if newest else ()))]


def committed_lines(folder: str | os.PathLike[str], *, newest: bool = True) -> Iterator[str]:
    """Yield the lines of the files that count, without line ends."""
    for path in committed_files(folder, newest=newest):
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")
