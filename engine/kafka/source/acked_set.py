"""Metadata of a commit: the acked offsets above it (KS-7), and the topology that wrote it (KS-5).

The text is `stormcell:<version>:<topology>:<base64>`; every version has the topology there. `offset_codec` makes the bytes: plain in
version 1, packed in version 2, which is written only if it holds more. Runs that do not fit are left out from the end.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from engine.kafka.source import offset_codec

PLENTY: Final = 256
"""Bytes that are enough for metadata with an empty set, even with the longest topology name."""

_MARK: Final = "stormcell"
_PLAIN: Final = "1"
_PACKED: Final = "2"
_READERS: Final[Mapping[str, Callable[[bytes], offset_codec.OffsetSet]]] = {
    _PLAIN: offset_codec.read_plain,
    _PACKED: offset_codec.read_packed,
}
_VERSION: Final = re.compile("[1-9][0-9]{0,3}")
_LONGEST_NAME: Final = 96
"""Limit of a written name, in characters. Earlier versions cut longer names there, without a digest."""
_CUT: Final = "#"
"""Separator of a cut name and its digest. No quoted name contains it."""
_DIGEST_CHARACTERS: Final = 32


class CommitNote(NamedTuple):
    """Content of the metadata of our commits."""

    topology: str
    """Topology name in the form of `written_name`."""
    base: int
    """Committed offset that the runs belong to."""
    runs: tuple[int, ...]
    """Start, stop, start, stop… of the finished offsets above it."""

    def is_by(self, topology: str) -> bool | None:
        """Return True if this topology wrote it, None if an older version cut the name and the writer is unknown."""
        if len(self.topology) == _LONGEST_NAME and _CUT not in self.topology:
            return None if _quoted(topology).startswith(self.topology) else False
        return self.topology == written_name(topology)


def written_name(topology: str) -> str:
    """Return a topology name for metadata: without ':', and cut with a digest if it is long.

    >>> written_name("word count: 2")
    'word%20count%3A%202'
    """
    name = _quoted(topology)
    if len(name) < _LONGEST_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{name[: _LONGEST_NAME - len(_CUT + digest)]}{_CUT}{digest}"


def _quoted(topology: str) -> str:
    return quote(topology, safe="", errors="surrogatepass")


def encode(topology: str, base: int, runs: Sequence[int], most_bytes: int) -> tuple[str, int]:
    """Return the metadata of a commit at `base`, and the number of acked offsets that did not fit into `most_bytes`.

    The metadata are '' if not even an empty set fits (see `PLENTY`). runs: ascending start, stop, start, stop… above `base`.

    >>> encode("words", 10, [12, 15], 4096)
    ('stormcell:1:words:CgID', 0)
    """
    head = f"{_MARK}:{_PLAIN}:{written_name(topology)}:"
    room = (most_bytes - len(head)) // 4 * 3
    body, kept = offset_codec.plain(base, runs, room)
    if kept < len(runs):
        smaller, more = offset_codec.packed(base, runs, room)
        if more > kept:
            head, body, kept = f"{_MARK}:{_PACKED}:{written_name(topology)}:", smaller, more
    metadata = head + base64.b64encode(body).decode()
    left_out = count(runs[kept:])
    return (metadata, left_out) if len(metadata) <= most_bytes else ("", left_out)


def moved_to(note: CommitNote, offset: int) -> str:
    """Return the metadata of a commit of the same topology at another offset, without a set."""
    return f"{_MARK}:{_PLAIN}:{note.topology}:{base64.b64encode(offset_codec.varint(offset)).decode()}"


def decode(metadata: str | None) -> CommitNote | None:
    """Return the content of our metadata, None for metadata that are damaged or of another program.

    Only the topology of a later version is read. Its base is -1, so that no commit matches it.

    >>> decode("stormcell:1:words:CgID")
    CommitNote(topology='words', base=10, runs=(12, 15))
    >>> decode("stormcell:3:words:?")
    CommitNote(topology='words', base=-1, runs=())
    """
    parts = (metadata or "").split(":", 3)
    if len(parts) != 4 or parts[0] != _MARK or not _VERSION.fullmatch(parts[1]):
        return None
    read = _READERS.get(parts[1])
    if read is None:
        return CommitNote(parts[2], -1, ())
    try:
        return CommitNote(parts[2], *read(base64.b64decode(parts[3], validate=True)))
    except ValueError:  # binascii.Error is one
        return None


def shown_name(written: str) -> str:
    """Return a topology name for display; only the beginning of a long one.

    >>> shown_name(written_name("x" * 500)) == "x" * 63 + "…"
    True
    """
    name, _, digest = written.partition(_CUT)
    if not digest and len(name) < _LONGEST_NAME:
        return unquote(name)
    return unquote(re.sub("%.?$", "", name), errors="ignore") + "…"  # the cut may be inside a character


def count(runs: Iterable[int]) -> int:
    """Return the number of offsets in start, stop, start, stop…"""
    bounds = list(runs)
    return sum(bounds[1::2]) - sum(bounds[::2])
