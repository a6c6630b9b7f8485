"""Runs of offsets as bytes: what an acked set is made of (KS-7). Decides; does nothing.

`plain`: varints, first the base, then in turn how many offsets follow that are not in the set, and how many that are.
`packed`: the same, compressed by zlib. Behind a length of 0 stands a bitmap: the number of its bytes, at most 127, and the bytes.
Its lowest bit is the first offset after the gap, the highest bit that is set is the last one. A stretch of runs has the shorter form.
"""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, pairwise
from typing import Final, NamedTuple

MOST_BODY_BYTES: Final = 65_536
"""Bytes of a packed body before compression; bounds what a reader of foreign bytes unpacks."""
_BITMAP_OFFSETS: Final = 127 * 8
_MOST_OFFSET: Final = 2**63 - 1
_AS_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")
_AS_FLAGS: Final = bytes.maketrans(b"01", b"\0\1")


class OffsetSet(NamedTuple):
    """Ascending runs above a base: start, stop, start, stop…"""

    base: int
    runs: tuple[int, ...]


# Writing: as many runs as have room, and how many bounds these have


def plain(base: int, runs: Sequence[int], most_bytes: int) -> tuple[bytes, int]:
    """Return the plain form of as many runs as have room, and the number of their bounds."""
    body, before = bytearray(varint(base)), base
    for at in range(0, len(runs), 2):
        pair = varint(runs[at] - before) + varint(runs[at + 1] - runs[at])
        if len(body) + len(pair) > most_bytes:
            return bytes(body), at
        body += pair
        before = runs[at + 1]
    return bytes(body), len(runs)


def packed(base: int, runs: Sequence[int], most_bytes: int) -> tuple[bytes, int]:
    """Return the packed form of as many runs as have room, and the number of their bounds."""
    stretches = _stretches(base, runs)
    bounds = [0, *(past for past, _ in stretches)]

    def pack(count: int, more: bytes = b"") -> bytes:
        return zlib.compress(varint(base) + b"".join(data for _, data in stretches[:count]) + more, 9)

    whole = _most(len(stretches), lambda count: len(pack(count)) <= most_bytes)
    first = bounds[whole]

    def part(count: int) -> bytes:
        return _stretch(runs[first - 1] if first else base, runs[first : first + 2 * count])

    more = 0  # runs of the next stretch, which has no room as a whole
    if whole < len(stretches):
        more = _most((bounds[whole + 1] - first) // 2 - 1, lambda count: len(pack(whole, part(count))) <= most_bytes)
    return pack(whole, part(more)), first + 2 * more


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `count` that fits; 0 always does."""
    return bisect_left(range(1, count + 1), True, key=lambda number: not fits(number))


def _stretches(base: int, runs: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return stretches of neighbouring runs, each in its shorter form, with the number of bounds up to there; at most the most bytes."""
    found: list[tuple[int, bytes]] = []
    before, first, left = base, 0, MOST_BODY_BYTES - len(varint(base))
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
    """Return runs in the shorter form: pairs of varints, or a bitmap."""
    if not runs:
        return b""
    size = (runs[-1] - runs[0] + 7) // 8
    if size * 8 > _BITMAP_OFFSETS or len(runs) < size + 3:
        pairs = b"".join(varint(after - bound) for bound, after in pairwise([before, *runs]))
        if size * 8 > _BITMAP_OFFSETS or len(pairs) < len(varint(runs[0] - before)) + 2 + size:
            return pairs
    return varint(runs[0] - before) + bytes((0, size)) + _bitmap(runs, size)


def _bitmap(runs: Sequence[int], size: int) -> bytes:
    """Return the bytes whose bits are the offsets from the first on; with little for each run: there may be 50,000 of them."""
    bounds = bytearray(size * 8 + 1)
    for bound in runs:
        bounds[bound - runs[0]] = 1
    bits = int(bounds.translate(_AS_DIGITS)[::-1], 2)
    shift = 1
    while shift <= size * 8:  # each bit becomes the parity of the bounds up to it
        bits ^= bits << shift
        shift *= 2
    return (bits & (1 << size * 8) - 1).to_bytes(size, "little")


def varint(number: int) -> bytes:
    """Return a number, 0 or more, as seven bits a byte, the lowest first; all bytes but the last have the eighth."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Reading


def read_plain(body: bytes) -> OffsetSet:
    """Read the plain form; ValueError for what is none."""
    return _read(body, has_bitmaps=False)


def read_packed(data: bytes) -> OffsetSet:
    """Read the packed form; ValueError for what is none, or is too large."""
    inflating = zlib.decompressobj()
    try:
        body = inflating.decompress(data, MOST_BODY_BYTES)
    except zlib.error as error:
        raise ValueError(f"no packed set: {error}") from None
    if not inflating.eof or inflating.unused_data:
        raise ValueError("a packed set that is cut, too large, or followed by more")
    return _read(body, has_bitmaps=True)


def _read(body: bytes, *, has_bitmaps: bool) -> OffsetSet:
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
            raise ValueError("a run of nothing, or a bitmap without its bytes")
        before = runs[-1]
    if before > _MOST_OFFSET:
        raise ValueError("an offset beyond 63 bits")
    return OffsetSet(base, tuple(runs))


def _bitmap_runs(origin: int, data: bytes) -> Iterator[int]:
    bits = int.from_bytes(data, "little")
    if not bits & 1 or not data[-1]:
        raise ValueError("a bitmap that begins or ends with nothing")
    bounds = f"{bits ^ bits << 1:b}"[::-1].encode().translate(_AS_FLAGS)
    return compress(range(origin, origin + len(bounds)), bounds)


def _varint_at(body: bytes, at: int) -> tuple[int, int]:
    """Return the varint that begins there, and where it ends."""
    number = shift = 0
    while at < len(body) and shift < 63:
        byte = body[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at
    raise ValueError("a varint without its end, or beyond 63 bits")
