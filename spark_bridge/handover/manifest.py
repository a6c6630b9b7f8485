"""Manifest of a txid: the list of its Parquet files. A file that no manifest names is invisible to readers."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from spark_bridge.handover.checked_json import RESTORE, decode, encode, torn_file
from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import ManifestName, StagedName
from spark_bridge.handover.staged_file import StagedFile

KIND: Final = "manifest"
LATEST_MS: Final = 10**14
"""Upper bound of `time_ms`, in the year 5138."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed batch."""

    txid: int
    attempt_id: int
    """Attempt that staged the files."""
    time_ms: int
    """Time of the commit in milliseconds since 1970: the column `batch_time` of its rows."""
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
    """Parse a manifest; raise TornFile, ForeignFile or NewerFormat if it is not the manifest of this name."""
    fields = decode(content, KIND, where)
    try:
        files, rejects = (tuple(_parse_entries(fields[each], fields["txid"])) for each in ("files", "rejects"))
        manifest = Manifest(_number(fields["txid"]), _number(fields["attempt"]), _number(fields["time_ms"], LATEST_MS), files, rejects)
        is_whole = manifest.rows == fields["rows"]
    except (KeyError, TypeError) as error:
        raise torn_file(where, f"a field of the manifest is missing or wrong: {error}") from error
    if not is_whole or manifest.txid != name.txid or name.attempt_id not in (None, manifest.attempt_id):
        raise TornFile(f"{where} holds the manifest of another txid or attempt than its name, of txid {manifest.txid}", hint=RESTORE)
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
