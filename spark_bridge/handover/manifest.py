"""The manifest of a txid: which files its rows are in. What no manifest names is not there."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from spark_bridge.handover.checked_json import RESTORE, decode, encode, torn
from spark_bridge.handover.errors import TornFile
from spark_bridge.handover.names import ManifestName, StagedName
from spark_bridge.handover.staged_file import StagedFile

KIND: Final = "manifest"
LATEST_MS: Final = 10**14
"""In the year 5138."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed batch."""

    txid: int
    attempt_id: int
    """Whose files these are."""
    time_ms: int
    """When it was committed, in milliseconds since 1970: the column `batch_time` of its rows."""
    files: tuple[StagedFile, ...] = ()
    """In the order of tasks and parts; none for a batch without rows."""
    rejects: tuple[StagedFile, ...] = ()
    """Rows that did not fit the schema, where they are kept."""

    @property
    def rows(self) -> int:
        """How many rows it has, rejects not counted."""
        return sum(file.rows for file in self.files)

    @property
    def byte_count(self) -> int:
        """How large its files are, rejects not counted."""
        return sum(file.bytes for file in self.files)

    def name(self, *, by_attempt: bool) -> ManifestName:
        """Return what its file is called."""
        return ManifestName(self.txid, self.attempt_id if by_attempt else None)

    def encoded(self) -> bytes:
        """Return the file."""
        fields = {"txid": self.txid, "attempt": self.attempt_id, "time_ms": self.time_ms, "rows": self.rows}
        return encode(KIND, {**fields, "files": _written(self.files), "rejects": _written(self.rejects)})


def read_manifest(content: bytes, where: str, name: ManifestName) -> Manifest:
    """Return what a file says; raise TornFile, ForeignFile or NewerFormat where it is not the manifest that its name says."""
    fields = decode(content, KIND, where)
    try:
        files, rejects = (tuple(_read(fields[each], fields["txid"])) for each in ("files", "rejects"))
        manifest = Manifest(_number(fields["txid"]), _number(fields["attempt"]), _number(fields["time_ms"], LATEST_MS), files, rejects)
        is_whole = manifest.rows == fields["rows"]
    except (KeyError, TypeError) as error:
        raise torn(where, f"it lacks what a manifest has: {error}") from error
    if not is_whole or manifest.txid != name.txid or name.attempt_id not in (None, manifest.attempt_id):
        raise TornFile(f"{where} holds another manifest than its name says, of txid {manifest.txid}", hint=RESTORE)
    return manifest


def _written(files: tuple[StagedFile, ...]) -> list[dict[str, Any]]:
    return [{name: value for name, value in asdict(file).items() if value is not None} for file in files]


def _read(files: list[dict[str, Any]], txid: int) -> Iterator[StagedFile]:
    for file in files:
        name, digest = file["name"], file.get("digest")
        staged = StagedName.parse(name)
        if staged is None or staged.txid != txid or not isinstance(digest, str | None):
            raise TypeError(f"{name!r} with the digest {digest!r} is no file of txid {txid}")
        yield StagedFile(name, _number(file["rows"]), _number(file["bytes"]), digest)


def _number(found: Any, most: int = 2**63) -> int:
    if type(found) is not int or not 0 <= found < most:
        raise TypeError(f"{found!r} is no number of that kind")
    return found
