"""Whole lines of a file in bounded pieces, and their tuples.

Files are read on the event loop, not in a thread. A cached piece of 256 KiB takes less time than a switch to a thread and back
(see engine.in_thread).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

from engine.errors import FatalError, UsageError
from engine.files.encodings import DECODED_WHOLE, check_errors, checked_encoding
from engine.files.regular_file import OpenFile

PIECE_BYTES: Final = 256 * 1024
_LEAST_BYTES: Final = 4 * 1024
_USUAL_LINE_BYTES: Final = 128
"""Guessed length of a line, for the size of the first piece of a batch."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a batch for one file, and of a line."""

    lines: int
    bytes: int
    """Bytes of whole lines. A longer line is a batch of its own."""
    line_bytes: int
    """Largest length of a line. At least PIECE_BYTES."""


class Piece(NamedTuple):
    """Whole lines and their offset."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset after the last line."""
        return self.offset + len(self.data)


def new_lines(file: OpenFile, start: int, limits: Limits, *, to_the_end: bool) -> Iterator[Piece]:
    """Yield the next lines of a file, up to the limits of a batch.

    A last line without a line end is included only with `to_the_end`. Raises FatalError for a line that is too long, or a truncated file.
    """
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
    """Yield the lines of a batch again. Raises FatalError for a truncated file."""
    offset = start
    while offset < end:
        data = _read(file, offset, min(PIECE_BYTES, end - offset))
        if offset + len(data) < end:
            data = data[: data.rfind(b"\n") + 1] or _one_line(file, offset, data, end, end)
        yield Piece(offset, data)
        offset += len(data)


def end_of_last_line(file: OpenFile, start: int, longest: int) -> int:
    """Return the offset after the last complete line from `start` on.

    If a line is longer than `longest`, return the end of the file.
    """
    end = file.size
    while end > start:
        begin = max(start, end - PIECE_BYTES)
        found = file.read(begin, end - begin).rfind(b"\n") + 1
        if found:
            return begin + found
        if file.size - begin > longest:
            return file.size  # reading the line raises the error
        end = begin
    return start


def _one_line(file: OpenFile, offset: int, data: bytes, end: int, longest: int) -> bytes:
    """Return the line that begins with data, up to its line end or to `end`. Raises FatalError if it is too long."""
    pieces, length = [data], len(data)
    while offset + length < end and not pieces[-1].endswith(b"\n"):
        more = _read(file, offset + length, min(PIECE_BYTES, end - offset - length))
        pieces.append(more[: more.find(b"\n") + 1] or more)
        length += len(pieces[-1])
        if length - pieces[-1].endswith(b"\n") > longest:
            raise FatalError(
                f"file {file.path!r}: the line at offset {offset:,} has more than {longest:,} bytes",
                hint="Raise max_line_bytes, or check that this is a text file.",
            )
    return b"".join(pieces)


def _read(file: OpenFile, offset: int, count: int) -> bytes:
    data = file.read(offset, count)
    if len(data) < count:
        raise FatalError(
            f"file {file.path!r} ends at offset {offset + len(data):,}, but had {offset + count:,} bytes before: it was truncated",
            hint="Rotate files by renaming (logrotate: `create`, not `copytruncate`). Truncated bytes are lost.",
        )
    return data


# Tuples

FIELDS: Final = ("line", "file", "offset")


class LineFormat:
    """Fields of the tuple of a line, and the decoding of its bytes.

    >>> LineFormat(("line", "offset"), "utf-8", "strict").rows(b"to\\nbe\\n", 7, "hamlet.txt")
    [('to', 7), ('be', 10)]
    """

    def __init__(self, fields: Sequence[str], encoding: str | None, errors: str) -> None:
        """fields: names out of FIELDS. encoding: None for bytes. errors: as in `bytes.decode`. Raises UsageError."""
        self.fields = tuple([fields] if isinstance(fields, str) else fields)
        if not self.fields or len(set(self.fields)) != len(self.fields) or not set(self.fields) <= set(FIELDS):
            raise UsageError(f"the fields of a line are {fields!r}", hint=f"Use one or more of {', '.join(map(repr, FIELDS))}, each once.")
        self._encoding = None if encoding is None else checked_encoding(encoding)
        self._errors = errors
        if encoding is not None:
            check_errors(errors)

    def rows(self, data: bytes, offset: int, name: str) -> list[tuple[Any, ...]]:
        """Return a tuple for each line of `data`, which begins at an offset of a file. Raises FatalError if decoding fails."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        texts = self._texts(data, lines, offset, name)
        if self.fields == ("line",):
            return list(zip(texts))
        columns: dict[str, Any] = {"line": texts, "file": repeat(name, len(texts))}
        if "offset" in self.fields:
            columns["offset"] = accumulate((len(line) + 1 for line in lines[:-1]), initial=offset)
        return list(zip(*(columns[field] for field in self.fields), strict=False))

    def _texts(self, data: bytes, lines: list[bytes], offset: int, name: str) -> list[Any]:
        texts: list[Any]
        if self._encoding is None:
            texts = lines
        elif self._encoding in DECODED_WHOLE:
            texts = self._text(data, offset, name).split("\n")[: len(lines)]
        else:
            starts = accumulate((len(line) + 1 for line in lines[:-1]), initial=offset)
            texts = [self._text(line, start, name) for line, start in zip(lines, starts, strict=True)]
        if b"\r\n" in data or data.endswith(b"\r"):
            end: Any = b"\r" if self._encoding is None else "\r"
            texts = [text.removesuffix(end) for text in texts]
        return texts

    def _text(self, data: bytes, offset: int, name: str) -> str:
        assert self._encoding is not None
        try:
            return data.decode(self._encoding, self._errors)
        except UnicodeDecodeError as error:
            raise FatalError(
                f"file {name!r}: the byte 0x{data[error.start]:02x} at offset {offset + error.start:,} is not valid {self._encoding}",
                hint='Set the encoding, for example encoding="latin-1", or errors="replace". With encoding=None lines are bytes.',
            ) from None
