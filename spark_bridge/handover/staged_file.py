"""Parquet files of a batch. Each has a digest, which is verified before a reader gets a row (SP-2)."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import file_text
from spark_bridge.handover.storage import Storage
from spark_bridge.handover.storage.api import missing_file

WRITE_BYTES: Final = 1 << 20
"""Bytes that are hashed and written in one call. Each call takes the GIL, so smaller ones stop the event loop more often."""
RESTORE: Final = "The file changed after the engine wrote it. Restore it from a copy. No row of it was read."


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Entry of a manifest: one Parquet file of a batch."""

    name: str
    """Name in the folder, in the format of `StagedName`."""
    rows: int
    bytes: int
    digest: str | None = None
    """First 32 hexadecimal digits of the SHA-256 of its bytes; None in manifests of earlier versions."""


class DigestedOutput:
    """Output that hashes what passes through it. pyarrow uses it as a Python file, and closes it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.closed = False

    def write(self, content: bytes) -> int:
        """Hash and write. Both release the GIL."""
        self._hash.update(content)
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: the storage flushes the file below when its context ends."""

    def close(self) -> None:
        """Mark this output as closed. The file below stays open: the storage closes it."""
        self.closed = True

    def digest(self) -> str:
        """Return the digest of all bytes written so far."""
        return _digest_text(self._hash)

    def buffered(self) -> pa.BufferedOutputStream:
        """Return this output behind a C++ buffer, for pyarrow.parquet."""
        return pa.BufferedOutputStream(pa.PythonFile(self, mode="w"), WRITE_BYTES)


def digest_of(content: bytes) -> str:
    """Return the digest of a file's bytes, in the format of `StagedFile.digest`."""
    return _digest_text(hashlib.sha256(content))


def open_staged(storage: Storage, file: StagedFile) -> Any:
    """Open a staged file for pyarrow.parquet, its size and digest verified. A file with a digest is read into memory.

    Raises TornFile if it differs from the committed file, HandoverError if it does not exist. Both errors name the txid.
    """
    where = f"{storage.url}: {file_text(file.name)}"
    if file.digest is None:
        opened = storage.open_input(file.name)
        with storage.translate_errors("read", file.name):
            size = opened.seek(0, 2)
            opened.seek(0)
        _check_size(where, size, file.bytes)
        return opened
    content = storage.read(file.name)
    if content is None:
        raise missing_file(storage.url, file.name)
    _check_size(where, len(content), file.bytes)
    found = digest_of(content)
    if found != file.digest:
        text = f"{where} is not the file that was committed: its SHA-256 begins with {found}, and the manifest has {file.digest}"
        raise TornFile(text, hint=RESTORE)
    return pa.BufferReader(content)


def _check_size(where: str, found: int, committed: int) -> None:
    if found != committed:
        raise TornFile(f"{where} is not the file that was committed: it has {found} bytes, and {committed} were committed", hint=RESTORE)


def _digest_text(found: Any) -> str:
    text: str = found.hexdigest()
    return text[:32]
