"""What the files of a file committer are called, and which of them count (TX-8). Plain; both who writes and who reads asks here."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import StateError
from engine.transactional.attempt import TransactionAttempt

OWNER: Final = ".written-by.json"
"""Says which committer writes to the folder: one only."""
_NAME: Final = re.compile(r"(\.?)(\d{12,})-(\d{8,})\.(\d{10})-(\d+)-of-(\d+)(\..*)?", re.DOTALL)


class OutputName(NamedTuple):
    """The name of a file: which share of which attempt it holds.

    >>> str(OutputName(7, 2 * 2**32 + 5, 0, 3, ".jsonl"))
    '000000000007-00000002.0000000005-0-of-3.jsonl'
    """

    txid: int
    attempt_id: int
    task: int
    """0, 1, …"""
    tasks: int
    """How many tasks have written this attempt."""
    suffix: str

    def __str__(self) -> str:
        attempt = TransactionAttempt(self.txid, self.attempt_id)
        return f"{self.txid:012}-{attempt.epoch:08}.{attempt.number:010}-{self.task}-of-{self.tasks}{self.suffix}"

    @property
    def draft(self) -> str:
        """What the file is called while it is written."""
        return f".{self}.tmp"


def name_of(text: str) -> tuple[OutputName, bool] | None:
    """Return what a file's name says, and whether it is a draft; None for another file."""
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
    """The files that count, in the order of transactions and tasks."""

    settled: list[OutputName]
    """Of transactions that are committed: a later one has begun its commit phase. They stay as they are."""
    newest: list[OutputName]
    """Of the newest transaction, once all its tasks have written: committed, or about to be written again, by a later attempt."""


def counting(names: Iterable[OutputName]) -> Counting:
    """Return which files count: of each txid those of its highest attempt. Raise StateError where one of a committed txid is missing."""
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
                f"of txid {txid} the tasks {there} of {files[0].tasks} have a file, and later txids are there",
                hint="The others are gone, or were not copied with these. Whoever takes files away takes all of a txid.",
            )
        settled += files
    return Counting(settled, [])


def superseded(names: Iterable[tuple[OutputName, bool]], attempt: TransactionAttempt) -> list[str]:
    """Return what can be removed when this attempt is being committed: all of it was written by attempts that are over.

    Those of a txid below are committed by its highest attempt. A draft or a file of an attempt below this one counts no more.
    """
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
