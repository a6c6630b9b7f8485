"""Turns the bytes of a file into rows: lines, and JSON lines (FI-1). `csv_format` has CSV."""

import contextlib
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from engine.api.fields import short_repr
from engine.files.encodings import DECODED_WHOLE
from engine.files.rows import BadRow, Beginning, Chunk, Rows
from engine.files.settings import FileSettings

BOM: Final = b"\xef\xbb\xbf"


class RowFormat(ABC):
    """Parses chunks of files. An object serves one file after the other, and keeps nothing of them."""

    needs_beginning: bool = False
    """True if the rows behind a position cannot be read without the beginning of the file."""

    def __init__(self, settings: FileSettings, fields: Sequence[str]) -> None:
        """fields: those of a row, without the added ones."""
        self.settings = settings
        self.fields = tuple(fields)

    @property
    def output_fields(self) -> tuple[str, ...]:
        """All fields of a row."""
        return (*self.fields, *self.settings.add_fields)

    def parse(self, chunk: Chunk, beginning: Beginning | None) -> Rows:
        """Return the rows of a chunk. beginning: of the file, if the format needs it."""
        rows = self._rows(chunk, beginning)
        if self.settings.add_fields and rows.values:
            rows.values = list(zip(*self._columns(rows), strict=True))
        return rows

    @abstractmethod
    def _rows(self, chunk: Chunk, beginning: Beginning | None) -> Rows:
        """Return the rows of a chunk, without the added fields."""

    def _columns(self, rows: Rows) -> list[Sequence[Any]]:
        columns: list[Sequence[Any]] = list(zip(*rows.values, strict=True))
        offsets = rows.chunk.line_offsets() if "offset" in self.settings.add_fields else []
        for name in self.settings.add_fields:
            if name == "file":
                columns.append([rows.chunk.name] * len(rows.values))
            elif name == "offset":
                columns.append([offsets[begin] for begin in rows.begins])
            else:
                columns.append([rows.number_of(begin) for begin in rows.begins])
        return columns

    def _texts(self, chunk: Chunk) -> tuple[list[str], list[str | None]]:
        """Return the lines of a chunk as text, and the error of each. The second list is empty if there is no error."""
        data = chunk.data
        if chunk.offset == 0 and self.settings.encoding == "utf-8":
            data = data.removeprefix(BOM)
        encoding = self.settings.encoding
        assert encoding is not None
        if encoding in DECODED_WHOLE:
            with contextlib.suppress(UnicodeDecodeError):
                return _without_last(data.decode(encoding, self.settings.errors).split("\n")), []
        decoded = [_decoded(line, encoding, self.settings.errors) for line in _without_last(data.split(b"\n"))]
        texts, errors = [text for text, _ in decoded], [error for _, error in decoded]
        return texts, errors if any(errors) else []


class LineFormat(RowFormat):
    """Each line is a row with one field."""

    def _rows(self, chunk: Chunk, beginning: Beginning | None) -> Rows:
        lines: list[Any]
        errors: list[str | None] = []
        if self.settings.encoding is None:
            lines = _without_last(chunk.data.split(b"\n"))
            end: Any = b"\r"
        else:
            lines, errors = self._texts(chunk)
            end = "\r"
        if b"\r\n" in chunk.data or chunk.data.endswith(b"\r"):
            lines = [line.removesuffix(end) for line in lines]
        count = len(lines)
        if not errors:
            return Rows(chunk, list(zip(lines)), range(count), range(1, count + 1), count)
        return good_and_bad(chunk, list(zip(lines)), errors)


class JsonLineFormat(RowFormat):
    """Each line is a JSON value. Blank lines are no rows."""

    def __init__(self, settings: FileSettings, fields: Sequence[str]) -> None:
        super().__init__(settings, fields)
        self._keys = settings.fields
        self._take = itemgetter(*self._keys) if len(self._keys) > 1 else None

    def _rows(self, chunk: Chunk, beginning: Beginning | None) -> Rows:
        lines, errors = self._texts(chunk)
        if not errors:
            try:
                values = self._values(list(map(json.loads, lines)))
            except (ValueError, RecursionError, LookupError, TypeError):
                errors = [None] * len(lines)
            else:
                return Rows(chunk, values, range(len(lines)), range(1, len(lines) + 1), len(lines))
        values = []
        for index, line in enumerate(lines):
            value, error = (None, errors[index]) if errors[index] or not line.strip() else self._value(line)
            values.append(value)
            errors[index] = error
        return good_and_bad(
            chunk, values, errors, are_rows=[bool(line.strip()) or bool(error) for line, error in zip(lines, errors, strict=True)]
        )

    def _values(self, parsed: list[Any]) -> list[Any]:
        if not self._keys:
            return list(zip(parsed))
        if set(map(type, parsed)) - {dict}:
            raise TypeError
        if self._take is not None:
            return list(map(self._take, parsed))
        [key] = self._keys
        return [(value[key],) for value in parsed]

    def _value(self, line: str) -> tuple[Any, str | None]:
        """Return the row of a line, or its error."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            return None, f"it is not valid JSON: {error}" if isinstance(error, ValueError) else "its JSON is nested too deeply"
        if not self._keys:
            return (value,), None
        if not isinstance(value, dict):
            return None, f"it is {short_repr(value)}, and not an object with the fields {', '.join(self._keys)}"
        missing = [key for key in self._keys if key not in value]
        if missing:
            return None, f"it has no {', '.join(map(repr, missing))} (it has: {', '.join(value) or 'nothing'})"
        return tuple(value[key] for key in self._keys), None


def good_and_bad(chunk: Chunk, values: list[Any], errors: Sequence[str | None], are_rows: Sequence[bool] | None = None) -> Rows:
    """Return the rows of lines, some of which are bad, and some of which are no rows."""
    bad: deque[BadRow] = deque()
    good = [not error and (are_rows is None or are_rows[index]) for index, error in enumerate(errors)]
    rows_before = 0
    for index, error in enumerate(errors):
        if error:
            bad.append(BadRow(rows_before, index, index + 1, error, chunk.raw(index, index + 1)))
        rows_before += good[index]
    begins = list(compress(range(len(values)), good))
    return Rows(chunk, list(compress(values, good)), begins, [begin + 1 for begin in begins], len(values), bad)


def _decoded(line: bytes, encoding: str, errors: str) -> tuple[str, str | None]:
    """Return a line as text, with the error if it cannot be decoded."""
    try:
        return line.decode(encoding, errors), None
    except UnicodeDecodeError as error:
        text = line.decode("ascii", "surrogateescape")
        return text, f"its byte {error.start + 1:,} (0x{line[error.start]:02x}) is not valid {encoding}"


def _without_last(lines: list[Any]) -> list[Any]:
    """Return split lines without the empty string behind the last line end."""
    if not lines[-1]:
        lines.pop()
    return lines


def decoded_lines(data: bytes, settings: FileSettings) -> list[str]:
    """Return the first lines of a file as text. Bytes that cannot be decoded are escaped."""
    assert settings.encoding is not None
    lines = _without_last(data.removeprefix(BOM if settings.encoding == "utf-8" else b"").split(b"\n"))
    return [_decoded(line, settings.encoding, settings.errors)[0] for line in lines]
