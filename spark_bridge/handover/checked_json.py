"""JSON files that say what they are, and show damage: format, version, kind and a checksum in each."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spark_bridge.handover.errors import ForeignFile, NewerFormat, TornFile

FORMAT: Final = "stormcell-handover"
VERSION: Final = 1
RESTORE: Final = "Restore it from a copy."
_OWN: Final = ("format", "version", "kind", "checksum")


def encode(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return a file of this kind, for a person to read too."""
    content = {"format": FORMAT, "version": VERSION, "kind": kind, **fields}
    return (json.dumps({**content, "checksum": _checksum(content)}, ensure_ascii=False, indent=1) + "\n").encode()


def decode(content: bytes, kind: str, where: str, repair: str = RESTORE) -> dict[str, Any]:
    """Return the fields of a file of this kind; `where` names it in errors, `repair` says what to do about a damaged one.

    Raises TornFile for half a file or a changed one, ForeignFile for what is none of ours or of another kind, NewerFormat for what a later
    version wrote.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise torn(where, "it is no whole JSON text", repair) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        hint = f"If another program wrote it, give the hand-over a folder of its own. If it is damaged: {repair}"
        raise ForeignFile(f"{where} is no file of {FORMAT}", hint=hint)
    version = found.get("version")
    if type(version) is int and version > VERSION:
        text = f"{where} is of version {version} of {FORMAT}, and this program knows {VERSION}"
        hint = "Update stormcell here, on the drivers and on the executors, to the version of whoever writes the folder. "
        raise NewerFormat(text, hint=f"{hint}If nothing newer writes there, the file is damaged: {repair}")
    checksum = found.pop("checksum", None)
    if version != VERSION or checksum != _checksum(found):
        raise torn(where, "its checksum does not fit its content", repair)
    if found.get("kind") != kind:
        hint = f"Was it moved or copied to that name? Put the right one there. {repair}"
        raise ForeignFile(f"{where} is a {found.get('kind')}, not a {kind}", hint=hint)
    return {name: value for name, value in found.items() if name not in _OWN}


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def torn(where: str, why: str, repair: str = RESTORE) -> TornFile:
    """Return the error for a file of ours that cannot be what was written."""
    return TornFile(f"{where} is damaged: {why}", hint=repair)
