"""Reader of a commit's metadata, in the format that `acked_set` describes: the model of tests/kafka/test_acked_set.py.

The result is a plain list of offsets, without runs and without integers of a thousand bits.
"""

import base64
import zlib


class AckedSetReader:
    """Reads the bytes from first to last."""

    def __init__(self, metadata: str) -> None:
        mark, self.version, self.topology, coded = metadata.split(":")
        assert mark == "stormcell"
        assert self.version in ("1", "2")
        body = base64.b64decode(coded)
        self.left = list(body if self.version == "1" else zlib.decompress(body))
        self.base = self.varint()
        self.offsets: list[int] = []
        at = self.base
        while self.left:
            at += self.varint()
            length = self.varint()
            at = self.run(at, length) if length else self.bitmap(at, self.left.pop(0))

    def varint(self) -> int:
        number = factor = 0
        while True:
            byte = self.left.pop(0)
            number += byte % 128 * 128**factor
            factor += 1
            if byte < 128:
                return number

    def run(self, at: int, length: int) -> int:
        self.offsets += range(at, at + length)
        return at + length

    def bitmap(self, at: int, size: int) -> int:
        assert self.version == "2"
        assert 1 <= size <= 127
        for place in range(size * 8):
            if self.left[place // 8] // 2 ** (place % 8) % 2:
                self.offsets.append(at + place)
        del self.left[:size]
        return self.offsets[-1] + 1


def offsets_that_fit(base: int, runs: list[int], room: int) -> int:
    """Number of offsets that fit into version 1, which spends one byte on each begun seven bits of a number."""
    used, before, held = size_of(base), base, 0
    for start, stop in zip(runs[::2], runs[1::2], strict=True):
        used += size_of(start - before) + size_of(stop - start)
        if used > room:
            return held
        before, held = stop, held + stop - start
    return held


def size_of(number: int) -> int:
    """Size of a varint in bytes."""
    return max(1, (number.bit_length() + 6) // 7)
