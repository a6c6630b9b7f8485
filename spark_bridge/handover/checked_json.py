"""JSON files with format, version, kind and checksum, so that a reader detects damage."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spark_bridge.handover.errors import ForeignFile, NewerFormat, TornFile

FORMAT: Final = "stormcell-handover"
VERSION: Final = 1
RESTORE: Final = "Restore it from a copy."
_ENVELOPE: Final = ("format", "version", "kind", "checksum")


def encode(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return the content of a file of this kind, indented for people."""
    content = {"format": FORMAT, "version": VERSION, "kind": kind, **fields}
    return (json.dumps({**content, "checksum": _checksum(content)}, ensure_ascii=False, indent=1) + "\n").encode()


def decode(content: bytes, kind: str, where: str, repair: str = RESTORE) -> dict[str, Any]:
    """Return the fields of a file of this kind. `where`: name of the file in errors. `repair`: hint for a damaged file.

    Raises TornFile if the file is cut or changed, ForeignFile if another program or kind wrote it, and NewerFormat if a later version wrote
    it.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise torn_file(where, "it is not a complete JSON text", repair) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        hint = f"If another program wrote it, give the hand-over its own folder. If it is damaged: {repair}"
        raise ForeignFile(f"{where} is not a file of {FORMAT}", hint=hint)
    version = found.get("version")
    # Checked before the checksum, because a later version may compute the checksum in another way.
    if type(version) is int and version > VERSION:
        text = f"{where} is of version {version} of {FORMAT}, and this program reads up to version {VERSION}"
        hint = "Update stormcell here, on the drivers and on the executors, to the version that writes the folder. "
        raise NewerFormat(text, hint=f"{hint}If no newer version writes there, the file is damaged: {repair}")
    checksum = found.pop("checksum", None)
    if version != VERSION or checksum != _checksum(found):
        raise torn_file(where, "its checksum does not match its content", repair)
    if found.get("kind") != kind:
        hint = f"Another file was moved or copied to that name. Put the right file there. {repair}"
        raise ForeignFile(f"{where} is a {found.get('kind')}, not a {kind}", hint=hint)
    return {name: value for name, value in found.items() if name not in _ENVELOPE}


def torn_file(where: str, why: str, repair: str = RESTORE) -> TornFile:
    """Return the error for a damaged file of the folder."""
    return TornFile(f"{where} is damaged: {why}", hint=repair)


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
