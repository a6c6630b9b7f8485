"""Checks the encoding of text files."""

import codecs
import contextlib
from typing import Final

from engine.errors import UsageError

DECODED_WHOLE: Final = ("utf-8", "ascii", "iso8859-1")
"""Encodings in which several lines are decoded at once, because an invalid byte never affects the next line."""


def checked_encoding(encoding: str) -> str:
    """Return the normalized name of an encoding whose lines end with the byte 0x0a. Raises UsageError for any other."""
    try:
        name = codecs.lookup(encoding).name
        newline = "\n".encode(name)
    except (LookupError, TypeError):
        raise UsageError(
            f"{encoding!r} is not a known encoding", hint='Use for example "utf-8" or "latin-1". With None lines are bytes.'
        ) from None
    if newline != b"\n":
        raise UsageError(
            f"lines of {encoding!r} do not end with the byte 0x0a", hint="Read lines as bytes with encoding=None, or convert the files."
        )
    return name


def check_errors(errors: str) -> None:
    """Raise UsageError unless `errors` names an error handler of `bytes.decode`."""
    try:
        with contextlib.suppress(UnicodeDecodeError):
            b"\xff".decode("ascii", errors)
    except (LookupError, TypeError):
        raise UsageError(f"errors is {errors!r}", hint='Use for example "strict", "replace" or "surrogateescape".') from None
