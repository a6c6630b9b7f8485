"""The Parquet files of a batch: written with a digest that their manifest keeps, read only where it fits (SP-2)."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import file_text
from spark_bridge.handover.storage import Storage
from spark_bridge.handover.storage.api import missing

WRITE_BYTES: Final = 1 << 20
"""So much is hashed and written at once: each time the interpreter's lock is taken."""
RESTORE: Final = "It was changed, cut or exchanged since the engine wrote it: restore it from a copy. No row of it was given out."


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file of a batch."""

    name: str
    """In the folder, as `StagedName` writes it."""
    rows: int
    bytes: int
    digest: str | None = None
    """SHA-256 of its bytes, the first 32 hexadecimal digits; None in manifests of earlier versions."""


class DigestedOutput:
    """An output that hashes what passes through. It is a Python file for pyarrow, which closes it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.closed = False

    def write(self, content: bytes) -> int:
        """Hash and write; both let go of the interpreter's lock."""
        self._hash.update(content)
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: the file below is flushed by who opened it."""

    def close(self) -> None:
        """Take no more; the file below stays open."""
        self.closed = True

    def digest(self) -> str:
        """Return the digest of what was written so far."""
        return _text(self._hash)

    def buffered(self) -> pa.BufferedOutputStream:
        """Return it behind a buffer of C++, for pyarrow.parquet."""
        return pa.BufferedOutputStream(pa.PythonFile(self, mode="w"), WRITE_BYTES)


def digest_of(content: bytes) -> str:
    """Return the digest of a file's bytes, as `StagedFile.digest` has it."""
    return _text(hashlib.sha256(content))


def open_staged(storage: Storage, file: StagedFile) -> Any:
    """Return a staged file for pyarrow.parquet, its size and digest verified: with a digest it is read whole, into memory.

    Raises TornFile where it is another one than was committed, HandoverError where it is not there; both name the txid.
    """
    where = f"{storage.url}: {file_text(file.name)}"
    if file.digest is None:
        opened = storage.open_input(file.name)
        with storage.telling("read", file.name):
            size = opened.seek(0, 2)
            opened.seek(0)
        _check(where, "bytes", size, file.bytes)
        return opened
    content = storage.read(file.name)
    if content is None:
        raise missing(storage.url, file.name)
    _check(where, "bytes", len(content), file.bytes)
    found = digest_of(content)
    if found != file.digest:
        text = f"{where} is not the file that was committed: its SHA-256 begins with {found}, and the manifest has {file.digest}"
        raise TornFile(text, hint=RESTORE)
    return pa.BufferReader(content)


def _check(where: str, what: str, found: int, committed: int) -> None:
    if found != committed:
        raise TornFile(f"{where} is not the file that was committed: it has {found} {what}, and {committed} were committed", hint=RESTORE)


def _text(found: Any) -> str:
    text: str = found.hexdigest()
    return text[:32]
