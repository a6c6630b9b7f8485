"""JSON files that say what they are, and show damage: format, version, kind and a checksum in each."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spark_bridge.handover.errors import ForeignFile, NewerFormat, TornFile

FORMAT: Final = "stormcell-handover"
VERSION: Final = 1
_OWN: Final = ("format", "version", "kind", "checksum")


def encode(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Return a file of this kind, for a person to read too."""
    content = {"format": FORMAT, "version": VERSION, "kind": kind, **fields}
    return (json.dumps({**content, "checksum": _checksum(content)}, ensure_ascii=False, indent=1) + "\n").encode()


def decode(content: bytes, kind: str, where: str) -> dict[str, Any]:
    """Return the fields of a file of this kind; `where` names it in errors.

    Raises TornFile for half a file or a changed one, ForeignFile for what is none of ours or of another kind, NewerFormat for what a later
    version wrote.
    """
    try:
        found = json.loads(content)
    except ValueError as error:
        raise _torn(where, "it is no whole JSON text") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ForeignFile(f"{where} is no file of {FORMAT}", hint="Give the hand-over a folder of its own, and take that file away.")
    version = found.get("version")
    if type(version) is int and version > VERSION:
        text = f"{where} is of version {version} of {FORMAT}, and this program knows {VERSION}"
        raise NewerFormat(
            text, hint="Update stormcell here, on the drivers and on the executors, to the version of whoever writes the folder."
        )
    checksum = found.pop("checksum", None)
    if version != VERSION or checksum != _checksum(found):
        raise _torn(where, "its checksum does not fit its content")
    if found.get("kind") != kind:
        raise ForeignFile(
            f"{where} is a {found.get('kind')}, not a {kind}", hint="Somebody has moved or copied files in the folder: put them back."
        )
    return {name: value for name, value in found.items() if name not in _OWN}


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _torn(where: str, why: str) -> TornFile:
    hint = (
        "The storage has lost or changed a part of it: restore the file from a copy. The engine writes such a file whole, and never again."
    )
    return TornFile(f"{where} is damaged: {why}", hint=hint)
