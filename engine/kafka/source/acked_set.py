"""Encodes and decodes the metadata of a commit. Contains no I/O.

The metadata store the acked offsets above the commit (KS-7), the name of the topology (KS-5) and the mark of the log (KS-15).

The text is `stormcell:<version>:<topology>:<base64>`. Every version has the topology at this place. Version 1 has a plain body. Version 2
has a packed body, and is written only if it stores more runs. Runs at the end that do not fit are left out. Version 3 has no set: the
commit is a copy of a position that the topology keeps in its state provider. Its body is the quoted id of an exact spout, or empty in a
transactional topology. Version 4 has the mark of the log before a plain
or a packed body: the 16 bytes of the topic's id, the leader epoch plus 1 as a varint, and 0 (plain) or 1 (packed) as a byte.

A plain body consists of varints. The first varint is the base. Then gaps and lengths of runs alternate.
A packed body has the same content, compressed by zlib. A length of 0 starts a bitmap. The next varint is the size of the bitmap (at most
127 bytes), and its bytes follow. The lowest bit is the first offset after the gap, and the highest set bit is the last offset. A stretch of
runs is written as varints or as a bitmap, whichever is shorter.
"""

import base64
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import compress, pairwise
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from engine.kafka.client.partition import LogMark

PLENTY: Final = 256
"""Bytes that are enough for metadata with an empty set, even with the longest topology name."""
MOST_BODY_BYTES: Final = 65_536
"""Limit of an unpacked body. A reader must not unpack more, because another program may have written the bytes."""

_MARK: Final = "stormcell"
_PLAIN: Final = "1"
_PACKED: Final = "2"
_COPY: Final = "3"
_MARKED: Final = "4"
_TOPIC_ID_BYTES: Final = 16
_BODY_IS_PLAIN: Final = b"\0"
_BODY_IS_PACKED: Final = b"\1"
_VERSION: Final = re.compile("[1-9][0-9]{0,3}")
_LONGEST_NAME: Final = 96
"""Limit of a written name, in characters. Earlier versions cut longer names to this length, without a digest."""
_CUT: Final = "#"
"""Separator of a cut name and its digest. No quoted name contains this character."""
_DIGEST_CHARACTERS: Final = 32
_BITMAP_OFFSETS: Final = 127 * 8
_MOST_OFFSET: Final = 2**63 - 1
_AS_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")
_AS_FLAGS: Final = bytes.maketrans(b"01", b"\0\1")


class CommitNote(NamedTuple):
    """Content of the metadata of our commits."""

    topology: str
    """Topology name in the form of `written_name`."""
    base: int
    """Committed offset above which the runs are."""
    runs: tuple[int, ...]
    """Finished offsets above the base, as start, stop, start, stop…"""
    is_copy: bool = False
    """True if the topology never reads this commit, because it keeps its positions in its state provider."""
    spout: str | None = None
    """Id of the spout whose position was copied. None in a transactional topology."""
    mark: LogMark | None = None
    """Mark of the log at the base. None if an older version wrote the commit, or the brokers had no topic ids."""

    def is_by(self, topology: str) -> bool | None:
        """Return True if this topology wrote the commit. Return None if an older version cut the name, so the writer is unknown."""
        if len(self.topology) == _LONGEST_NAME and _CUT not in self.topology:
            return None if _quoted(topology).startswith(self.topology) else False
        return self.topology == written_name(topology)


def written_name(topology: str) -> str:
    """Return a topology name for metadata. The result contains no ':'. A long name is cut and gets a digest.

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


def encode(topology: str, base: int, runs: Sequence[int], most_bytes: int, mark: LogMark | None = None) -> tuple[str, int]:
    """Return the metadata of a commit at `base`, and the number of acked offsets that did not fit into `most_bytes`.

    The metadata are '' if not even an empty set fits (see `PLENTY`). runs: ascending start, stop, start, stop… above `base`.

    >>> encode("words", 10, [12, 15], 4096)
    ('stormcell:1:words:CgID', 0)
    """
    name, marking = written_name(topology), b""
    plain, packed = f"{_MARK}:{_PLAIN}:{name}:", f"{_MARK}:{_PACKED}:{name}:"
    if mark is not None:
        plain = packed = f"{_MARK}:{_MARKED}:{name}:"
        marking = mark.topic_id + _varint(mark.leader_epoch + 1)
    room = (most_bytes - len(plain)) // 4 * 3 - (len(marking) + 1 if marking else 0)
    head, (body, kept) = plain, _plain_body(base, runs, room)
    kind = _BODY_IS_PLAIN
    if kept < len(runs):
        smaller, more = _packed_body(base, runs, room)
        if more > kept:
            head, body, kept, kind = packed, smaller, more, _BODY_IS_PACKED
    metadata = head + base64.b64encode(marking + kind + body if marking else body).decode()
    left_out = count(runs[kept:])
    return (metadata, left_out) if len(metadata) <= most_bytes else ("", left_out)


def copied_position(topology: str, spout: str = "") -> str:
    """Return the metadata of a commit that only shows the progress of a topology. spout: an exact spout. "": a transactional topology.

    >>> copied_position("words"), copied_position("words", "lines")
    ('stormcell:3:words:', 'stormcell:3:words:lines')
    """
    return f"{_MARK}:{_COPY}:{written_name(topology)}:{written_name(spout)}"


def moved_to(note: CommitNote, offset: int) -> str:
    """Return the metadata of a commit of the same topology at another offset, without a set."""
    return f"{_MARK}:{_PLAIN}:{note.topology}:{base64.b64encode(_varint(offset)).decode()}"


def decode(metadata: str | None) -> CommitNote | None:
    """Return the content of our metadata. Return None for metadata that are damaged or come from another program.

    If a later version wrote the metadata, only the topology is read. The base is then -1, so that it matches no commit.

    >>> decode("stormcell:1:words:CgID")
    CommitNote(topology='words', base=10, runs=(12, 15), is_copy=False, spout=None, mark=None)
    >>> decode("stormcell:5:words:?")
    CommitNote(topology='words', base=-1, runs=(), is_copy=False, spout=None, mark=None)
    """
    parts = (metadata or "").split(":", 3)
    if len(parts) != 4 or parts[0] != _MARK or not _VERSION.fullmatch(parts[1]):
        return None
    if parts[1] not in (_PLAIN, _PACKED, _MARKED):
        is_copy = parts[1] == _COPY
        return CommitNote(parts[2], -1, (), is_copy=is_copy, spout=shown_name(parts[3]) if is_copy and parts[3] else None)
    try:
        body, mark, is_packed = base64.b64decode(parts[3], validate=True), None, parts[1] == _PACKED
        if parts[1] == _MARKED:
            body, mark, is_packed = _read_mark(body)
        base, runs = _read(_unpacked(body), has_bitmaps=True) if is_packed else _read(body, has_bitmaps=False)
        return CommitNote(parts[2], base, runs, mark=mark)
    except ValueError:  # binascii.Error is a subclass
        return None


def shown_name(written: str) -> str:
    """Return a topology name for display. A long name is cut.

    >>> shown_name(written_name("x" * 500)) == "x" * 63 + "…"
    True
    """
    name, _, digest = written.partition(_CUT)
    if not digest and len(name) < _LONGEST_NAME:
        return unquote(name)
    return unquote(re.sub("%.?$", "", name), errors="ignore") + "…"  # the cut may split a character


def count(runs: Iterable[int]) -> int:
    """Return the number of offsets in runs (start, stop, start, stop…)."""
    bounds = list(runs)
    return sum(bounds[1::2]) - sum(bounds[::2])


# Bodies. Each writer returns a body with the runs that fit, and the number of their bounds.


def _plain_body(base: int, runs: Sequence[int], most_bytes: int) -> tuple[bytes, int]:
    body, before = bytearray(_varint(base)), base
    for at in range(0, len(runs), 2):
        pair = _varint(runs[at] - before) + _varint(runs[at + 1] - runs[at])
        if len(body) + len(pair) > most_bytes:
            return bytes(body), at
        body += pair
        before = runs[at + 1]
    return bytes(body), len(runs)


def _packed_body(base: int, runs: Sequence[int], most_bytes: int) -> tuple[bytes, int]:
    stretches = _stretches(base, runs)
    bounds = [0, *(past for past, _ in stretches)]

    def pack(count: int, more: bytes = b"") -> bytes:
        return zlib.compress(_varint(base) + b"".join(data for _, data in stretches[:count]) + more, 9)

    whole = _most(len(stretches), lambda count: len(pack(count)) <= most_bytes)
    first = bounds[whole]

    def part(count: int) -> bytes:
        return _stretch(runs[first - 1] if first else base, runs[first : first + 2 * count])

    more = 0  # the next stretch does not fit as a whole, but some of its runs may fit
    if whole < len(stretches):
        more = _most((bounds[whole + 1] - first) // 2 - 1, lambda count: len(pack(whole, part(count))) <= most_bytes)
    return pack(whole, part(more)), first + 2 * more


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits. Uses binary search. 0 always fits."""
    return bisect_left(range(1, count + 1), True, key=lambda number: not fits(number))


def _stretches(base: int, runs: Sequence[int]) -> list[tuple[int, bytes]]:
    """Divide runs into stretches of neighbours. Return for each stretch the number of bounds up to its end, and its bytes.

    All stretches together have at most `MOST_BODY_BYTES`.
    """
    found: list[tuple[int, bytes]] = []
    before, first, left = base, 0, MOST_BODY_BYTES - len(_varint(base))
    while first < len(runs):
        past = bisect_right(runs, runs[first] + _BITMAP_OFFSETS, first)
        past = max(past - (past - first) % 2, first + 2)
        data = _stretch(before, runs[first:past])
        left -= len(data)
        if left < 0:
            break
        found.append((past, data))
        before, first = runs[past - 1], past
    return found


def _stretch(before: int, runs: Sequence[int]) -> bytes:
    """Return runs as varints or as a bitmap, whichever is shorter."""
    if not runs:
        return b""
    size = (runs[-1] - runs[0] + 7) // 8
    if size * 8 > _BITMAP_OFFSETS or len(runs) < size + 3:
        pairs = b"".join(_varint(after - bound) for bound, after in pairwise([before, *runs]))
        if size * 8 > _BITMAP_OFFSETS or len(pairs) < len(_varint(runs[0] - before)) + 2 + size:
            return pairs
    return _varint(runs[0] - before) + bytes((0, size)) + _bitmap(runs, size)


def _bitmap(runs: Sequence[int], size: int) -> bytes:
    """Return the bitmap of the offsets from the first one on. Must be fast, because there may be 50,000 runs."""
    bounds = bytearray(size * 8 + 1)
    for bound in runs:
        bounds[bound - runs[0]] = 1
    bits = int(bounds.translate(_AS_DIGITS)[::-1], 2)
    shift = 1
    while shift <= size * 8:  # each bit becomes the parity of the number of bounds up to this bit
        bits ^= bits << shift
        shift *= 2
    return (bits & (1 << size * 8) - 1).to_bytes(size, "little")


def _varint(number: int) -> bytes:
    """Encode a number of at least 0 in groups of seven bits, lowest first. The eighth bit is set in all bytes except the last."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _unpacked(data: bytes) -> bytes:
    """Decompress a packed body. Raise ValueError if it is damaged or too large."""
    inflating = zlib.decompressobj()
    try:
        body = inflating.decompress(data, MOST_BODY_BYTES)
    except zlib.error as error:
        raise ValueError(f"no packed set: {error}") from None
    if not inflating.eof or inflating.unused_data:
        raise ValueError("a packed set that is cut, too large, or followed by more")
    return body


def _read_mark(body: bytes) -> tuple[bytes, LogMark, bool]:
    """Return the body after the mark, the mark, and True if the rest is packed. Raise ValueError if it is damaged."""
    epoch, at = _varint_at(body, _TOPIC_ID_BYTES)
    kind = body[at : at + 1]
    if kind not in (_BODY_IS_PLAIN, _BODY_IS_PACKED):
        raise ValueError("a mark without a body")
    return body[at + 1 :], LogMark(body[:_TOPIC_ID_BYTES], epoch - 1), kind == _BODY_IS_PACKED


def _read(body: bytes, *, has_bitmaps: bool) -> tuple[int, tuple[int, ...]]:
    """Return the base and the runs of a body. Raise ValueError if it is damaged."""
    base, at = _varint_at(body, 0)
    runs: list[int] = []
    before = base
    while at < len(body):
        gap, at = _varint_at(body, at)
        length, at = _varint_at(body, at)
        start = before + gap
        if length:
            runs += (start, start + length)
        elif has_bitmaps and at < len(body) and 0 < body[at] <= len(body) - at - 1:
            past = at + 1 + body[at]
            runs += _bitmap_runs(start, body[at + 1 : past])
            at = past
        else:
            raise ValueError("an empty run, or a bitmap without its bytes")
        before = runs[-1]
    if before > _MOST_OFFSET:
        raise ValueError("an offset beyond 63 bits")
    return base, tuple(runs)


def _bitmap_runs(origin: int, data: bytes) -> Iterator[int]:
    bits = int.from_bytes(data, "little")
    if not bits & 1 or not data[-1]:
        raise ValueError("a bitmap whose first bit or last byte is 0")
    bounds = f"{bits ^ bits << 1:b}"[::-1].encode().translate(_AS_FLAGS)
    return compress(range(origin, origin + len(bounds)), bounds)


def _varint_at(body: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it."""
    number = shift = 0
    while at < len(body) and shift < 63:
        byte = body[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at
    raise ValueError("a varint without its end, or beyond 63 bits")
