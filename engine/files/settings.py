"""Settings of a `FileSpout`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypedDict

from engine.config import setting
from engine.config.validated import set_frozen, validated
from engine.errors import UsageError
from engine.files.encodings import check_errors, checked_encoding

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
FileFormat: TypeAlias = Literal["lines", "jsonl", "csv"]
PLACE_FIELDS: Final = ("file", "offset", "line_number")
BAD_STREAM: Final = "bad"
BAD_FIELDS: Final = ("file", "line_number", "error", "raw")
PIECE_BYTES: Final = 128 * 1024
"""Bytes of a file that are parsed at once: about 2 ms of JSON (BP-4)."""


class FileOptions(TypedDict, total=False):
    """Further settings of a `FileSpout`. `FileSettings` describes them."""

    follow: bool
    add_fields: str | Sequence[str]
    header: bool
    delimiter: str
    encoding: str | None
    errors: str
    max_line_bytes: int
    max_in_flight: int
    max_retries: int | None
    on_bad: Literal["fail", "skip", "divert"]
    on_lost: Literal["fail", "skip"]


@validated
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """All settings of a `FileSpout`. ConfigError names all faults at once."""

    paths: tuple[str, ...]
    """Files, folders (their files that are not hidden) and `glob` patterns, also with `**`."""
    format: Literal["lines", "jsonl", "csv"] = setting(
        "lines", help="What a row is: a line, a JSON value on a line of its own, or a record of CSV."
    )
    fields: tuple[str, ...] = ()
    """Names of the fields. lines: one name, `line` by default. jsonl: the keys to take; by default one field `record` with the whole
    value. csv: the columns to take; by default those of the header of the first file."""
    follow: bool = setting(False, help="Whether the spout waits for new rows and new files, or ends when it has read all files.")
    add_fields: tuple[str, ...] = ()
    """Fields to add to each row: `file`, `offset` (of its first byte in the content) and `line_number` (of its first line, from 1)."""
    header: bool = setting(True, help="csv: whether the first record of each file has the names of its columns.")
    delimiter: str = ","
    """csv: the character between two fields."""
    encoding: str | None = setting("utf-8", help="Encoding of the files. none: the lines are bytes.")
    errors: str = setting("strict", help="Treatment of bytes that cannot be decoded, as in `bytes.decode`. strict: the row is bad.")
    max_line_bytes: int = setting(2**20, minimum=PIECE_BYTES, help="Largest length of a row in bytes. A longer row is bad.")
    max_in_flight: int = setting(100_000, minimum=1, help="Rows of a task that are open or wait for a retry, at which reading pauses.")
    max_retries: int | None = setting(None, minimum=0, help="Retries of a failed row until it is given up and reported. none: no limit.")
    on_bad: Literal["fail", "skip", "divert"] = setting(
        "fail", help="Reaction to a bad row: end the run, skip it and report it, or emit it on the stream `bad`."
    )
    on_lost: Literal["fail", "skip"] = setting(
        "fail", help="Reaction to a position whose file is gone or changed: end the run, or report it and read what is there."
    )

    def _faults(self) -> Iterator[str]:
        yield from self._path_faults()
        yield from self._field_faults()
        if self.encoding is None and self.format != "lines":
            yield f'encoding=None is for format="lines", whose lines are then bytes. Name the encoding of the {self.format} files.'
        try:
            check_errors(self.errors)
            if self.encoding is not None:
                set_frozen(self, "encoding", checked_encoding(self.encoding))
        except UsageError as error:
            yield f"{error.message}. {error.hint}"
        given: object = self.delimiter
        if not isinstance(given, str) or len(given) != 1 or given in '\r\n"':
            yield f"delimiter is {self.delimiter!r}. It is one character, and neither a quote nor a line end."

    def _path_faults(self) -> Iterator[str]:
        paths = _many(self.paths)
        if not paths or not all(isinstance(path, (str, os.PathLike)) and os.fspath(path) for path in paths):
            yield f'paths is {self.paths!r}. Write a path, a pattern such as "logs/*.log", or a list of them.'
            return
        set_frozen(self, "paths", tuple(os.fspath(path) for path in paths))

    def _field_faults(self) -> Iterator[str]:
        for name in ("fields", "add_fields"):
            names = _many(getattr(self, name))
            if not all(isinstance(each, str) and each for each in names) or len(set(names)) != len(names):
                yield f"{name} is {getattr(self, name)!r}. Write one or more different names."
                return
            set_frozen(self, name, tuple(names))
        if not set(self.add_fields) <= set(PLACE_FIELDS):
            yield f"add_fields is {self.add_fields!r}. Write one or more of {', '.join(map(repr, PLACE_FIELDS))}."
        if self.format == "lines" and len(self.fields) > 1:
            yield f"fields is {self.fields!r}, but a line is one field. Write one name, or add_fields for its file and offset."
        if self.format == "csv" and not self.header and not self.fields:
            yield "fields is missing: without a header the columns have no names. Write fields=(...) with a name for each column."
        if set(self.fields) & set(self.add_fields):
            yield f"fields and add_fields have {', '.join(map(repr, sorted(set(self.fields) & set(self.add_fields))))} in common."


def _many(value: Any) -> list[Any]:
    """Return a list of one path or name, or of several."""
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
        return [value]
    return list(value)
