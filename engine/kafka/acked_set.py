"""The acked offsets above a commit, as text for the commit's metadata (KS-7), and whose commit it is (KS-5).

`stormcell:1:<topology>:<base64>`; the bytes are varints: the committed offset that the set belongs to, then in turn how many offsets follow
that are not done, and how many that are. What does not fit is left out from the far end.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

PLENTY: Final = 256
"""Bytes that the shortest metadata fit in: a set of nothing, of a topology with the longest name."""

_MARK: Final = "stormcell"
_VERSION: Final = "1"
_LONGEST_NAME: Final = 96
"""Characters of a name that are written. Earlier versions cut a longer name there, without a digest."""
_CUT: Final = "#"
"""Stands in a cut name before its digest; no quoted name contains it."""
_DIGEST_CHARACTERS: Final = 32
_MOST_OFFSET: Final = 2**63 - 1


class CommitNote(NamedTuple):
    """What stands in the metadata of a commit of ours."""

    topology: str
    """The name as it is written: see `written_name`."""
    base: int
    """The committed offset that the runs belong to."""
    runs: tuple[int, ...]
    """Start, stop, start, stop… of what is done above it."""

    def is_by(self, topology: str) -> bool | None:
        """Tell whether this topology wrote it; None where an older version has cut the name, so that nobody can say."""
        if len(self.topology) == _LONGEST_NAME and _CUT not in self.topology:
            return None if _quoted(topology).startswith(self.topology) else False
        return self.topology == written_name(topology)


def written_name(topology: str) -> str:
    """Return a topology's name as metadata have it: no ':' in it, and bounded; a digest stands for the rest of a long one.

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
    """Return the metadata of a commit at `base`, of at most so many bytes, and how many acked offsets did not fit.

    Where not even the shortest fits (see `PLENTY`) there are none: ''. `runs`: ascending start, stop, start, stop… above `base`.

    >>> encode("words", 10, [12, 15], 4096)
    ('stormcell:1:words:CgID', 0)
    """
    head = f"{_MARK}:{_VERSION}:{written_name(topology)}:"
    room = (most_bytes - len(head)) // 4 * 3
    body = bytearray(_varint(base))
    before, kept = base, 0
    for at in range(0, len(runs), 2):
        start, stop = runs[at], runs[at + 1]
        pair = _varint(start - before) + _varint(stop - start)
        if len(body) + len(pair) > room:
            break
        body += pair
        before, kept = stop, at + 2
    left_out = sum(runs[at + 1] - runs[at] for at in range(kept, len(runs), 2))
    metadata = head + base64.b64encode(body).decode()
    return (metadata, left_out) if len(metadata) <= most_bytes else ("", left_out)


def moved_to(note: CommitNote, offset: int) -> str:
    """Return the metadata of a commit of the same topology at another offset, without a set."""
    return f"{_MARK}:{_VERSION}:{note.topology}:{base64.b64encode(_varint(offset)).decode()}"


def decode(metadata: str | None) -> CommitNote | None:
    """Return what a commit of ours says; None for the metadata of another program, of another version, or damaged.

    >>> decode("stormcell:1:words:CgID")
    CommitNote(topology='words', base=10, runs=(12, 15))
    """
    parts = (metadata or "").split(":")
    if len(parts) != 4 or parts[:2] != [_MARK, _VERSION]:
        return None
    try:
        numbers = list(_varints(base64.b64decode(parts[3], validate=True)))
    except (binascii.Error, ValueError):
        return None
    if len(numbers) % 2 == 0:
        return None
    runs, at = [], numbers[0]
    for gap, length in zip(numbers[1::2], numbers[2::2], strict=True):
        if length < 1 or at + gap + length > _MOST_OFFSET:
            return None
        runs += [at + gap, at + gap + length]
        at += gap + length
    return CommitNote(parts[2], numbers[0], tuple(runs))


def shown_name(written: str) -> str:
    """Return a topology's name for a person, of a long one the beginning.

    >>> shown_name(written_name("x" * 500)) == "x" * 63 + "…"
    True
    """
    name, _, digest = written.partition(_CUT)
    if not digest and len(name) < _LONGEST_NAME:
        return unquote(name)
    return unquote(re.sub("%.?$", "", name), errors="ignore") + "…"  # cut within a letter, perhaps


def count(runs: Iterable[int]) -> int:
    """Return how many offsets stand in start, stop, start, stop…"""
    bounds = list(runs)
    return sum(bounds[1::2]) - sum(bounds[::2])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varints(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if number > _MOST_OFFSET:
            raise ValueError("a varint beyond 63 bits")
        if byte & 0x80:
            shift += 7
        else:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("a varint without its end")
