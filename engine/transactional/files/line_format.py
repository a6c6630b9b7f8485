"""From the bytes of whole lines to tuples."""

import codecs
import contextlib
from collections.abc import Sequence
from itertools import accumulate, repeat
from typing import Any, Final

from engine.errors import FatalError, UsageError

FIELDS: Final = ("line", "file", "offset")
_WHOLE: Final = ("utf-8", "ascii", "iso8859-1")
"""Encodings in which a piece of several lines can be decoded at once, since no faulty line reaches into the next."""


class LineFormat:
    """What a tuple has of a line, and how its bytes become text.

    >>> LineFormat(("line", "offset"), "utf-8", "strict").rows(b"to\\nbe\\n", 7, "hamlet.txt")
    [('to', 7), ('be', 10)]
    """

    def __init__(self, fields: Sequence[str], encoding: str | None, errors: str) -> None:
        """Take names of FIELDS, and an encoding with its handling of errors; without one lines are bytes. Raises UsageError."""
        self.fields = tuple([fields] if isinstance(fields, str) else fields)
        if not self.fields or len(set(self.fields)) != len(self.fields) or not set(self.fields) <= set(FIELDS):
            raise UsageError(f"the fields of a line are {fields!r}", hint=f"Take one or more of {', '.join(map(repr, FIELDS))}, each once.")
        self._encoding = None if encoding is None else _checked_encoding(encoding)
        self._errors = errors
        if encoding is not None:
            _check_errors(errors)

    def rows(self, data: bytes, offset: int, name: str) -> list[tuple[Any, ...]]:
        """Return a tuple for each line of whole lines that stand at an offset of a file; raise FatalError for what is no text."""
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
        elif self._encoding in _WHOLE:
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
                f"file {name!r}: the byte 0x{data[error.start]:02x} at offset {offset + error.start:,} is no {self._encoding}",
                hint='Say how it is encoded, encoding="latin-1", or what becomes of such bytes, errors="replace"; or take lines as bytes, '
                "encoding=None.",
            ) from None


def _checked_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        newline = "\n".encode(name)
    except (LookupError, TypeError):
        raise UsageError(f"{encoding!r} is no encoding", hint='Such as "utf-8" or "latin-1"; None: lines are bytes.') from None
    if newline != b"\n":
        raise UsageError(
            f"lines of {encoding!r} do not end with the byte 0x0a", hint="Take lines as bytes, encoding=None, or convert the files."
        )
    return name


def _check_errors(errors: str) -> None:
    try:
        with contextlib.suppress(UnicodeDecodeError):
            b"\xff".decode("ascii", errors)
    except (LookupError, TypeError):
        raise UsageError(f"errors is {errors!r}", hint='Such as "strict", "replace" or "surrogateescape".') from None
