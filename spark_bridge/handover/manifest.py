"""Manifest of a txid, which lists its Parquet files. A file without a manifest is invisible to readers.

Each file has a digest, which is verified before a reader gets a row (SP-2).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from spark_bridge.handover.checked_json import RESTORE, decode, encode, torn_file
from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import ManifestName, StagedName, file_text
from spark_bridge.handover.storage import Storage
from spark_bridge.handover.storage.api import missing_file

KIND: Final = "manifest"
LATEST_MS: Final = 10**14
"""Upper bound of `time_ms`, in the year 5138."""
WRITE_BYTES: Final = 1 << 20
"""Bytes that are hashed and written in one call. Each call takes the GIL, so smaller calls stop the event loop more often."""
RESTORE_FILE: Final = "The file changed after the engine wrote it. Restore it from a copy. No row of it was read."


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Entry of a manifest: one Parquet file of a batch."""

    name: str
    """Name in the folder, in the format of `StagedName`."""
    rows: int
    bytes: int
    digest: str | None = None
    """First 32 hexadecimal digits of the SHA-256 of its bytes; None in manifests of earlier versions."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed batch."""

    txid: int
    attempt_id: int
    """Attempt that staged the files."""
    time_ms: int
    """Time of the commit in milliseconds since 1970. The column `batch_time` of the rows has this time."""
    files: tuple[StagedFile, ...] = ()
    """Files of rows, in the order of tasks and parts. A batch without rows has none."""
    rejects: tuple[StagedFile, ...] = ()
    """Files of rows that do not fit the schema, with `on_bad_row="reject"`."""

    @property
    def rows(self) -> int:
        """Number of rows, without rejects."""
        return sum(file.rows for file in self.files)

    @property
    def byte_count(self) -> int:
        """Size of its files, without rejects."""
        return sum(file.bytes for file in self.files)

    def name(self, *, by_attempt: bool) -> ManifestName:
        """Return the name of its file."""
        return ManifestName(self.txid, self.attempt_id if by_attempt else None)

    def encoded(self) -> bytes:
        """Return the content of its file."""
        fields = {"txid": self.txid, "attempt": self.attempt_id, "time_ms": self.time_ms, "rows": self.rows}
        return encode(KIND, {**fields, "files": _entries(self.files), "rejects": _entries(self.rejects)})


def read_manifest(content: bytes, where: str, name: ManifestName) -> Manifest:
    """Parse a manifest. Raise TornFile, ForeignFile or NewerFormat if it is not the manifest of this name."""
    fields = decode(content, KIND, where)
    try:
        files, rejects = (tuple(_parse_entries(fields[each], fields["txid"])) for each in ("files", "rejects"))
        manifest = Manifest(_number(fields["txid"]), _number(fields["attempt"]), _number(fields["time_ms"], LATEST_MS), files, rejects)
        is_whole = manifest.rows == fields["rows"]
    except (KeyError, TypeError) as error:
        raise torn_file(where, f"a field of the manifest is missing or wrong: {error}") from error
    if not is_whole or manifest.txid != name.txid or name.attempt_id not in (None, manifest.attempt_id):
        raise TornFile(f"{where} has the manifest of txid {manifest.txid}, whose txid or attempt does not fit the file name", hint=RESTORE)
    return manifest


def _entries(files: tuple[StagedFile, ...]) -> list[dict[str, Any]]:
    return [{name: value for name, value in asdict(file).items() if value is not None} for file in files]


def _parse_entries(files: list[dict[str, Any]], txid: int) -> Iterator[StagedFile]:
    for file in files:
        name, digest = file["name"], file.get("digest")
        staged = StagedName.parse(name)
        if staged is None or staged.txid != txid or not isinstance(digest, str | None):
            raise TypeError(f"{name!r} with the digest {digest!r} is not a file of txid {txid}")
        yield StagedFile(name, _number(file["rows"]), _number(file["bytes"]), digest)


def _number(found: Any, limit: int = 2**63) -> int:
    if type(found) is not int or not 0 <= found < limit:
        raise TypeError(f"{found!r} is not an integer from 0 to {limit - 1}")
    return found


# Files


class DigestedOutput:
    """Output that hashes all written bytes. pyarrow uses it as a Python file, and closes it."""

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
        """Do nothing, because the storage flushes the underlying file when its context ends."""

    def close(self) -> None:
        """Mark this output as closed. The underlying file stays open, because the storage closes it."""
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
    """Open a staged file for pyarrow.parquet and verify its size and digest. A file with a digest is read into memory.

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
        raise TornFile(text, hint=RESTORE_FILE)
    return pa.BufferReader(content)


def _check_size(where: str, found: int, committed: int) -> None:
    if found != committed:
        raise TornFile(
            f"{where} is not the file that was committed: it has {found} bytes, and {committed} were committed", hint=RESTORE_FILE
        )


def _digest_text(found: Any) -> str:
    text: str = found.hexdigest()
    return text[:32]
