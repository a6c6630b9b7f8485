"""Turns the bytes of a file into records of CSV, by Python's `csv` module (FI-1)."""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from engine.errors import FatalError
from engine.files.formats import RowFormat, decoded_lines
from engine.files.rows import BEGINNING_BYTES, BadRow, Beginning, Chunk, Rows
from engine.files.settings import FileSettings


class CsvFormat(RowFormat):
    """Each record is a row. A field in quotes may have line ends in it. Blank lines are no rows."""

    def __init__(self, settings: FileSettings, fields: Sequence[str]) -> None:
        super().__init__(settings, fields)
        self.needs_beginning = settings.header

    def _rows(self, chunk: Chunk, beginning: Beginning | None) -> Rows:
        if beginning is not None and beginning.header is None:
            beginning.header = self._read_header(chunk, beginning.data)
            if beginning.header is None:
                return Rows(chunk, [], [], [], 0)
        header: Header | None = None if beginning is None else beginning.header
        columns, take = (header.columns, header.take) if header is not None else (len(self.fields), None)
        first = header.lines if header is not None and chunk.offset == 0 else 0
        lines, errors = self._texts(chunk)
        limit = csv.field_size_limit(len(chunk.data))  # `max_line_bytes` is ours; that of the program is for its own files
        try:
            rows = None if errors or b'"' in chunk.data else self._plain_rows(chunk, lines, first, columns)
            if rows is None:
                rows = self._any_rows(chunk, lines, errors, first, columns)
        finally:
            csv.field_size_limit(limit)
        if take is not None:
            rows.values = list(map(take, rows.values))
        return rows

    def _plain_rows(self, chunk: Chunk, lines: list[str], first: int, columns: int) -> Rows | None:
        """Return the rows of lines without quotes, or None if they are not all good."""
        try:
            records = list(csv.reader(lines[first:] if first else lines, delimiter=self.settings.delimiter))
        except csv.Error:
            return None
        if set(map(len, records)) - {columns}:
            return None
        return Rows(chunk, records, range(first, len(lines)), range(first + 1, len(lines) + 1), len(lines))

    def _any_rows(self, chunk: Chunk, lines: list[str], errors: list[str | None], first: int, columns: int) -> Rows:
        values: list[Any] = []
        begins: list[int] = []
        ends: list[int] = []
        rows = Rows(chunk, values, begins, ends, first)
        offsets = chunk.line_offsets() if len(chunk.data) > self.settings.max_line_bytes else None
        for begin, end, record, fault in self._records(chunk, lines, first):
            error = fault or next(filter(None, errors[begin:end]), None)
            size = offsets[end] - offsets[begin] if offsets else 0
            if error is None and size > self.settings.max_line_bytes:
                error = f"it has {size:,} bytes, and max_line_bytes is {self.settings.max_line_bytes:,}"
            if error is None and record and len(record) != columns:
                error = f"it has {len(record)} field{'s' * (len(record) != 1)} instead of {columns}"
            if error is not None:
                rows.bad.append(BadRow(len(values), begin, end, error, chunk.raw(begin, end)))
            elif record:
                values.append(record)
                begins.append(begin)
                ends.append(end)
            rows.lines = end
        return rows

    def _records(self, chunk: Chunk, lines: list[str], first: int) -> Iterator[tuple[int, int, list[str], str | None]]:
        """Yield each complete record with its lines and its error. Blank lines are empty records."""
        begin = first
        while begin < len(lines):
            is_over: list[bool] = []
            reader = csv.reader(chain((f"{line}\n" for line in lines[begin:]), _noting(is_over)), delimiter=self.settings.delimiter)
            start = begin
            while not is_over:
                record, error = _next_record(reader)
                if record is None:
                    return
                end = start + reader.line_num
                if is_over and error is None:  # the lines ended inside quotes
                    if not chunk.at_end and chunk.offset + len(chunk.data) - chunk.offset_of(begin) <= self.settings.max_line_bytes:
                        return
                    where = "the file" if chunk.at_end else f"{self.settings.max_line_bytes:,} bytes"
                    error, end = f"it opens a quote that is not closed before the end of {where}", begin + 1
                yield begin, end, record, error
                begin = end

    def _read_header(self, chunk: Chunk, data: bytes) -> "Header | None":
        """Return the header of a file. None if its end was not written yet."""
        header = header_in(data, self.settings, at_end=chunk.at_end)
        if header is not None:
            return Header(len(header[0]), header[1], _picker(header[0], self.fields, chunk.name))
        if chunk.at_end or len(data) >= BEGINNING_BYTES:
            raise FatalError(
                f"file {chunk.name!r} has no header: its first record does not end within {min(len(data), BEGINNING_BYTES):,} bytes",
                hint="Correct the file, or write header=False and fields=(...).",
            )
        return None


class Header(NamedTuple):
    """The first record of a file."""

    columns: int
    lines: int
    """Lines of the file up to its end, with blank ones before."""
    take: Callable[[list[str]], Any] | None
    """Picks the fields of the spout out of a record. None if they are all, in this order."""


def header_in(data: bytes, settings: FileSettings, *, at_end: bool) -> tuple[list[str], int] | None:
    """Return the columns that the beginning of a file names, and the lines up to their end. None if their end is missing."""
    if not at_end:
        data = data[: data.rfind(b"\n") + 1]
    is_over: list[bool] = []
    texts = decoded_lines(data, settings)
    reader = csv.reader(chain((f"{text}\n" for text in texts), _noting(is_over)), delimiter=settings.delimiter)
    while not is_over:
        record, error = _next_record(reader)
        if record is None:
            break
        if error is None and record and not is_over:
            return record, reader.line_num
    return None


def _next_record(reader: Any) -> tuple[list[str] | None, str | None]:
    try:
        return next(reader, None), None
    except csv.Error as error:
        return [], f"it is not valid CSV: {error}"


def _noting(is_over: list[bool]) -> Iterator[str]:
    """Yield nothing, and note that the lines before are over."""
    is_over.append(True)
    yield from ()


def _picker(columns: list[str], fields: Sequence[str], name: str) -> Callable[[list[str]], Any] | None:
    """Return the function that takes the fields out of a record. Raises FatalError if the header lacks one."""
    missing = [field for field in fields if field not in columns]
    twice = [field for field in fields if columns.count(field) > 1]
    if missing or twice:
        what = f"has no column {missing[0]!r}" if missing else f"has several columns {twice[0]!r}"
        raise FatalError(
            f"file {name!r} {what} in its header (it has: {', '.join(columns)})",
            hint="Correct the header or fields=(...). If the files have no header, write header=False.",
        )
    if columns == list(fields):
        return None
    if len(fields) == 1:
        index = columns.index(fields[0])
        return lambda record: (record[index],)
    return itemgetter(*(columns.index(field) for field in fields))
