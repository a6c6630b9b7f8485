"""File names of a hand-over folder. The engine and Spark's side build and parse names only here."""

import re
from dataclasses import dataclass
from typing import Final

from spark_bridge.handover.errors import HandoverError

CONTRACT: Final = "contract.json"
DELETED: Final = "deleted.json"
FILES: Final = "files"
REJECTS: Final = "rejects"
MANIFESTS: Final = "manifests"
CONSUMERS: Final = "consumers"
FOLDERS: Final = (FILES, REJECTS, MANIFESTS, CONSUMERS)

EPOCH_SIZE: Final = 2**32
"""Attempt ids per epoch of the coordinator. An attempt id is the epoch times this number, plus a growing number."""
_ATTEMPT: Final = r"(\d{12,})-(\d{8,})\.(\d{10})"
_STAGED: Final = re.compile(rf"({FILES}|{REJECTS})/{_ATTEMPT}-(\d+)-of-(\d+)-(\d+)\.parquet")
_MANIFEST: Final = re.compile(rf"(?:(\d{{12,}})|{_ATTEMPT})\.json")
_CONSUMER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, order=True)
class StagedName:
    """Name of a Parquet file. Attempt, task and part make it unique, so no two attempts or tries write the same file.

    >>> str(StagedName(7, EPOCH_SIZE + 9, task=0, tasks=2, part=0))
    'files/000000000007-00000001.0000000009-0-of-2-0.parquet'
    """

    txid: int
    attempt_id: int
    task: int
    """Index of the stager task: 0, 1, …"""
    tasks: int
    """Number of stager tasks."""
    part: int
    """Number of the file: 0, 1, … On Spark, each try of a task has other numbers."""
    folder: str = FILES

    def __str__(self) -> str:
        return f"{self.folder}/{_attempt_name(self.txid, self.attempt_id)}-{self.task}-of-{self.tasks}-{self.part}.parquet"

    @classmethod
    def parse(cls, text: str) -> "StagedName | None":
        """Parse a name. Return None if it is not the name of a staged file.

        >>> StagedName.parse("rejects/000000000007-00000001.0000000009-0-of-2-0.parquet").txid
        7
        """
        found = _STAGED.fullmatch(text)
        if found is None:
            return None
        txid, epoch, number, task, tasks, part = map(int, found.groups()[1:])
        name = cls(txid, epoch * EPOCH_SIZE + number, task, tasks, part, found[1])
        return name if number < EPOCH_SIZE and str(name) == text else None


@dataclass(frozen=True, slots=True)
class ManifestName:
    """Name of a manifest. The name has the txid, and also the attempt if the storage cannot create exclusively.

    >>> str(ManifestName(7)), str(ManifestName(7, EPOCH_SIZE + 9))
    ('manifests/000000000007.json', 'manifests/000000000007-00000001.0000000009.json')
    """

    txid: int
    attempt_id: int | None = None

    def __str__(self) -> str:
        text = f"{self.txid:012}" if self.attempt_id is None else _attempt_name(self.txid, self.attempt_id)
        return f"{MANIFESTS}/{text}.json"

    @classmethod
    def parse(cls, text: str) -> "ManifestName | None":
        """Parse a name in the folder `manifests`. Return None if it is not the name of a manifest."""
        found = _MANIFEST.fullmatch(text)
        if found is None:
            return None
        alone, txid, epoch, number = found.groups()
        name = cls(int(alone)) if alone is not None else cls(int(txid), int(epoch) * EPOCH_SIZE + int(number))
        return name if str(name) == f"{MANIFESTS}/{text}" else None


def consumer_file(name: str) -> str:
    """Return the name of a consumer's file. Raise HandoverError if the consumer's name is not valid.

    >>> consumer_file("per-minute")
    'consumers/per-minute.json'
    """
    given: object = name
    if not isinstance(given, str) or _CONSUMER.fullmatch(given) is None:
        hint = "Use up to 100 letters, digits, '.', '_' and '-', the first a letter or a digit."
        raise HandoverError(f"{name!r} is not a valid name of a consumer", hint=hint)
    return f"{CONSUMERS}/{name}.json"


def consumer_of(file_name: str) -> str | None:
    """Return the consumer of a file in the folder `consumers`. None if it is not the file of a consumer."""
    name = file_name.removesuffix(".json")
    return name if name != file_name and _CONSUMER.fullmatch(name) else None


def attempt_text(txid: int, attempt_id: int) -> str:
    """Format an attempt for people, in the engine's format.

    >>> attempt_text(7, 2 * EPOCH_SIZE + 5)
    '7 (attempt 2.5)'
    """
    return f"{txid} (attempt {attempt_id // EPOCH_SIZE}.{attempt_id % EPOCH_SIZE})"


def file_text(name: str) -> str:
    """Format the name of a file for people, with its txid.

    >>> file_text("files/000000000007-00000001.0000000009-0-of-2-0.parquet")
    "'files/000000000007-00000001.0000000009-0-of-2-0.parquet' of txid 7"
    """
    staged = StagedName.parse(name)
    return repr(name) if staged is None else f"{name!r} of txid {staged.txid}"


def _attempt_name(txid: int, attempt_id: int) -> str:
    return f"{txid:012}-{attempt_id // EPOCH_SIZE:08}.{attempt_id % EPOCH_SIZE:010}"
