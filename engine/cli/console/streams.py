"""Streams of the command line: standard error never fails, standard output forgets no error, and no encoding lacks a character."""

import codecs
import io
import json
import logging
import os
from typing import TYPE_CHECKING, Final, TextIO

from engine.log import PlainFormatter

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ESCAPE: Final = "stormcell.escape"
"""Error handler of an encoding: a character that it lacks is written as JSON escapes it, such as `\\u2013`. So JSON stays JSON."""


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(ESCAPE, _escape)


class DisplayFile(io.RawIOBase):
    """The descriptor of a display, such as standard error. A write never fails, because a display must never end a run.

    Lines that cannot be written, for example on a full disk, are counted. The next text that can be written follows a line with their
    number.
    """

    name = "<stderr>"

    def __init__(self, descriptor: int) -> None:
        self.formatter: logging.Formatter = PlainFormatter()
        """Format of the line that tells how many lines are lost: that of the log, which goes to the same place."""
        self._descriptor = descriptor
        self._lost_lines = 0
        self._why = ""
        self._is_cut = False
        """True if the last text was written in part."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all bytes, or count their lines as lost."""
        text = bytes(data)
        if self._lost_lines and self._put(self._loss_line()):
            self._lost_lines = 0
        if self._lost_lines or not self._put(text):
            self._lost_lines += max(1, text.count(b"\n"))
        return len(text)

    def _put(self, data: bytes) -> bool:
        """Write all bytes. Return False if this is not possible."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            self._why = error.strerror or str(error)
            self._is_cut = self._is_cut or len(rest) < len(data)
            return False
        self._is_cut = False
        return True

    def _loss_line(self) -> bytes:
        """Return the line that tells how many lines are lost. The format is that of the log, which a program may read."""
        lines = "1 line" if self._lost_lines == 1 else f"{self._lost_lines:,} lines"
        text = f"{lines} could not be written to standard error: {self._why}"
        record = logging.LogRecord("engine.cli", logging.WARNING, __file__, 0, text, None, None)
        end_of_cut_line = "\n" if self._is_cut else ""
        return f"{end_of_cut_line}{self.formatter.format(record)}\n".encode(errors="backslashreplace")

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Tell whether the display is a terminal."""
        return os.isatty(self._descriptor)


def display_stream(descriptor: int, encoding: str = "utf-8") -> TextIO:
    """Return a text stream that writes whole lines to a descriptor, which stays open, and never fails."""
    return io.TextIOWrapper(DisplayFile(descriptor), encoding, ESCAPE, line_buffering=True)


def display_stream_for(stream: TextIO) -> TextIO:
    """Return a stream that never fails, to the descriptor of `stream`. Return `stream` itself if a test or a host has replaced it."""
    if not isinstance(stream, io.TextIOWrapper) or isinstance(stream.buffer, DisplayFile):
        return stream
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return stream
    return display_stream(descriptor, stream.encoding)


def display_file_of(stream: TextIO) -> DisplayFile | None:
    """Return the file behind a stream of `display_stream`."""
    file = stream.buffer if isinstance(stream, io.TextIOWrapper) else None
    return file if isinstance(file, DisplayFile) else None


class ProductFile(io.FileIO):
    """The descriptor of standard output. Remembers the first write that failed, because its text is lost.

    User code may catch the error of a `print()`, or have the input replayed, and the next text fits again into the empty buffer.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.name = "<stdout>"
        self._error: OSError | None = None
        self._is_told = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write bytes as the base does."""
        try:
            return super().write(data)
        except OSError as error:
            self._error = self._error or OSError(error.errno, error.strerror)  # a copy without frames
            raise

    def take_error(self) -> OSError | None:
        """Return the first error, or None if there is none. Only one call gets it, because it is told once."""
        if self._error is None or self._is_told:
            return None
        self._is_told = True
        return self._error


def product_stream_for(stream: TextIO) -> TextIO:
    """Return a stream like `stream` whose file is a ProductFile. Return `stream` itself if a test or a host has replaced it."""
    if type(stream) is not io.TextIOWrapper or product_file_of(stream) is not None:
        return stream
    try:
        stream.flush()
        file = ProductFile(stream.fileno())
    except (OSError, ValueError):
        return stream
    buffer = file if stream.write_through else io.BufferedWriter(file)
    is_direct, has_lines = stream.write_through, stream.line_buffering
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, "\n", line_buffering=has_lines, write_through=is_direct)


def product_file_of(stream: TextIO) -> ProductFile | None:
    """Return the file behind a stream of `product_stream_for`."""
    if type(stream) is not io.TextIOWrapper:
        return None
    file = getattr(stream.buffer, "raw", stream.buffer)
    return file if isinstance(file, ProductFile) else None


def escape_missing_characters(stream: TextIO) -> str | None:
    """Let a stream escape characters that its encoding lacks. Return its handler of errors before, None if it stays.

    Python's handler of the C locale stays for UTF-8, because it writes names of files unchanged.
    """
    if not isinstance(stream, io.TextIOWrapper) or stream.errors == ESCAPE:
        return None
    is_utf_8 = codecs.lookup(stream.encoding).name == "utf-8"
    if stream.errors != "strict" and (is_utf_8 or stream.errors != "surrogateescape"):
        return None
    before = stream.errors
    stream.reconfigure(errors=ESCAPE)
    return before
