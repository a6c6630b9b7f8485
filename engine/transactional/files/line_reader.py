"""Whole lines of a file, in bounded pieces.

Read on the loop: a piece of 256 KiB that the system has in memory takes less than a turn of the loop may, and a thread would be waited for
longer than that (engine.in_thread says why).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.errors import FatalError
from engine.transactional.files.file_identity import OpenFile

PIECE_BYTES: Final = 256 * 1024
_LEAST_BYTES: Final = 4 * 1024
_USUAL_LINE_BYTES: Final = 128
"""A guess: the first piece of a batch whose lines are counted need not be larger."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may have of one file, and how long a line may be."""

    lines: int
    bytes: int
    """Of whole lines; a line that is longer is a batch of its own."""
    line_bytes: int
    """PIECE_BYTES at least."""


class Piece(NamedTuple):
    """Whole lines, and where they stand."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind them."""
        return self.offset + len(self.data)


def new_lines(file: OpenFile, start: int, limits: Limits, *, to_the_end: bool) -> Iterator[Piece]:
    """Yield the next lines of a file, as many as a batch may have; one that has no end yet only `to_the_end`. Raises FatalError."""
    offset, lines, room = start, limits.lines, limits.bytes
    count = min(max(lines * _USUAL_LINE_BYTES, _LEAST_BYTES), PIECE_BYTES)
    while lines and room and offset < file.size:
        data = _read(file, offset, min(count, room, file.size - offset))
        if not (to_the_end and offset + len(data) == file.size):
            data = data[: data.rfind(b"\n") + 1] or _one_line(file, offset, data, file.size, limits.line_bytes)
            if not (to_the_end or data.endswith(b"\n")) or (len(data) > room and offset > start):
                return
        found = data.count(b"\n")
        if found > lines:
            data = data[: len(data) - len(data.split(b"\n", lines)[-1])]
        yield Piece(offset, data)
        offset += len(data)
        lines -= min(found, lines)
        room = max(room - len(data), 0)
        count = PIECE_BYTES


def same_lines(file: OpenFile, start: int, end: int) -> Iterator[Piece]:
    """Yield the lines of a batch again. Raises FatalError."""
    offset = start
    while offset < end:
        data = _read(file, offset, min(PIECE_BYTES, end - offset))
        if offset + len(data) < end:
            data = data[: data.rfind(b"\n") + 1] or _one_line(file, offset, data, end, end)
        yield Piece(offset, data)
        offset += len(data)


def end_of_last_line(file: OpenFile, start: int, longest: int) -> int:
    """Return the offset behind the last complete line that begins at `start` or behind it; the end of the file where it is too long."""
    end = file.size
    while end > start:
        begin = max(start, end - PIECE_BYTES)
        found = file.read(begin, end - begin).rfind(b"\n") + 1
        if found:
            return begin + found
        if file.size - begin > longest:
            return file.size  # reading it will tell
        end = begin
    return start


def _one_line(file: OpenFile, offset: int, data: bytes, end: int, longest: int) -> bytes:
    """Return the line that begins with data, up to its end or that of what may be read. Raises FatalError where it is too long."""
    pieces, length = [data], len(data)
    while offset + length < end and not pieces[-1].endswith(b"\n"):
        more = _read(file, offset + length, min(PIECE_BYTES, end - offset - length))
        pieces.append(more[: more.find(b"\n") + 1] or more)
        length += len(pieces[-1])
        if length - pieces[-1].endswith(b"\n") > longest:
            raise FatalError(
                f"file {file.path!r}: the line at offset {offset:,} has more than {longest:,} bytes",
                hint="Raise max_line_bytes, if it is a line.",
            )
    return b"".join(pieces)


def _read(file: OpenFile, offset: int, count: int) -> bytes:
    data = file.read(offset, count)
    if len(data) < count:
        raise FatalError(
            f"file {file.path!r} ends at offset {offset + len(data):,}, and had {offset + count:,} bytes a moment ago: it was cut off",
            hint="Rotate it by renaming it (logrotate: `create`, not `copytruncate`): what is cut off can be read by nobody.",
        )
    return data
