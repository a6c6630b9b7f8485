"""Rows that a format has made of the bytes of a file, and the place of each."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

BEGINNING_BYTES: Final = 64 * 1024
"""Bytes of a file in which its header must end."""


@dataclass(slots=True)
class Beginning:
    """The first bytes of a file, for a format that cannot read later rows without them."""

    data: bytes = b""
    header: Any = None
    """What the format has found there."""


@dataclass(slots=True)
class Chunk:
    """Bytes of a file that are parsed at once. They begin at the beginning of a row."""

    name: str
    """Name of the file, for error texts and the field `file`."""
    data: bytes
    offset: int
    """Offset of the first byte in the content of the file."""
    lines_before: int
    """Lines of the file before the first byte."""
    at_end: bool
    """True if the file ends behind the last byte, so that a row without a line end is complete."""

    _split: list[bytes] = field(init=False, default_factory=list)
    """The lines, once one of them was asked for."""

    def _lines(self) -> list[bytes]:
        if not self._split:
            self._split = self.data.split(b"\n")
        return self._split

    def offset_of(self, lines: int) -> int:
        """Return the offset in the content behind so many lines of the chunk."""
        is_all = lines >= self.data.count(b"\n") + (not self.data.endswith(b"\n"))  # the usual case, without a list of lines
        all_lines = [] if is_all else self._lines()
        if lines >= len(all_lines):
            return self.offset + len(self.data)
        return self.offset + sum(map(len, all_lines[:lines])) + lines

    def line_offsets(self) -> list[int]:
        """Return the offset of each line."""
        return list(accumulate((len(line) + 1 for line in self._lines()), initial=self.offset))

    def raw(self, begin: int, end: int) -> bytes:
        """Return the bytes of some lines, without the last line end."""
        return b"\n".join(self._lines()[begin:end]).removesuffix(b"\r")


class BadRow(NamedTuple):
    """A row that cannot be read."""

    rows_before: int
    """Number of good rows of the chunk that are before it."""
    begin: int
    """Lines of the chunk before it."""
    end: int
    """Lines of the chunk up to its end."""
    error: str
    raw: bytes


@dataclass(slots=True)
class Rows:
    """Rows of a chunk, in order."""

    chunk: Chunk
    values: list[Any]
    """The values of each good row."""
    begins: Sequence[int]
    """For each good row, the lines of the chunk before it."""
    ends: Sequence[int]
    """For each good row, the lines of the chunk up to its end."""
    lines: int
    """Lines of the chunk that are in these rows. Later ones belong to a row whose end is not read."""
    bad: deque[BadRow] = field(default_factory=deque)

    def number_of(self, begin: int) -> int:
        """Return the line number of a row in its file, from 1."""
        return self.chunk.lines_before + begin + 1
