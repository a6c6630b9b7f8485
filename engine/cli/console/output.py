"""Writes to standard output and standard error, and handles failed writes.

A reader may close the pipe, a disk may be full, and user code may close or replace the streams. Standard error is a display: a failed write
never raises, and ends nothing. Standard output is a product: a failed write ends the command.
"""

import logging
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, Final, TextIO

from engine.cli.console.streams import (
    ProductFile,
    display_file_of,
    display_stream,
    display_stream_for,
    escape_missing_characters,
    product_file_of,
    product_stream_for,
)
from engine.errors import EngineBug, EngineError
from engine.json_text import json_text


class OutputLost(EngineError):
    """Raised if standard output cannot be written, for example on a full disk."""

    exit_status = 2

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be written: {error.strerror}", hint="Send the output to a place with free space.")


@dataclass(frozen=True, slots=True)
class _KeptStream:
    """A standard stream at the start of the command."""

    name: str
    number: int
    stream: TextIO
    descriptor: int
    """Duplicate of the descriptor. The duplicate stays open if user code closes the stream."""
    product: ProductFile | None
    """The file of standard output, which remembers its errors."""


_KEPT: Final[list[_KeptStream]] = []
"""The streams of the running command."""


@contextmanager
def keep_streams() -> Iterator[None]:
    """Prepare standard output and standard error for a command, and remember them for `restore_streams` while it runs.

    Standard error never raises meanwhile. Standard output escapes the characters that its encoding lacks, and waits for its reader.
    """
    open_missing_descriptors()
    has_waited = os.get_blocking(1)
    before, (out, err) = _KEPT[:], (sys.stdout, sys.stderr)
    display, product = display_stream_for(err), product_stream_for(out)
    errors = escape_missing_characters(product)
    sys.stdout, sys.stderr = product, display
    _KEPT[:] = [
        _KeptStream("stdout", 1, product, os.dup(1), product_file_of(product)),
        _KeptStream("stderr", 2, display, os.dup(2), None),
    ]
    _wait_for_readers()
    try:
        yield
    finally:
        os.set_blocking(_KEPT[0].descriptor, has_waited)
        for each in _KEPT:
            os.close(each.descriptor)
        _KEPT[:] = before
        if sys.stderr is display:
            sys.stderr = err
        if errors is not None and isinstance(product, TextIOWrapper) and not product.closed:
            product.reconfigure(errors=errors)
        if sys.stdout is product is not out:
            sys.stdout = out
            if not product.closed:
                product.flush()


def restore_streams() -> None:
    """Repair standard output and standard error if user code closed them or replaced them with an unusable object."""
    _wait_for_readers()
    for each in _KEPT:
        try:
            os.fstat(each.number)
        except OSError:
            os.dup2(each.descriptor, each.number)
        if not _is_writable(getattr(sys, each.name)):
            setattr(sys, each.name, each.stream if _is_writable(each.stream) else _reopened(each))


def _wait_for_readers() -> None:
    """Let writes to standard output wait for a slow reader.

    Another process that has the same pipe, such as the parent, may have made it non-blocking. Then Python drops what does not fit into it.
    """
    for each in _KEPT:
        if each.name == "stdout":
            os.set_blocking(each.descriptor, True)


def _reopened(kept: _KeptStream) -> TextIO:
    """Return a new stream to the place of a stream that user code has closed."""
    descriptor = os.dup(kept.descriptor)
    return display_stream(descriptor) if kept.name == "stderr" else os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)


def standard_output() -> TextIO:
    """Return a usable standard output."""
    restore_streams()
    return sys.stdout


def standard_error() -> TextIO:
    """Return a usable standard error."""
    restore_streams()
    return sys.stderr


def _is_writable(stream: TextIO) -> bool:
    """Tell whether a stream accepts text. A stream on a full disk counts as writable, because the write itself reports this error."""
    try:
        stream.flush()
        stream.write("")
    except OSError:
        return True
    except Exception:  # noqa: BLE001 - user code may have put any object here
        return False
    return not getattr(stream, "closed", False)


def write_line(text: str) -> None:
    """Write and flush one line to standard output, or several. Raise BrokenPipeError if its reader has gone, else OutputLost."""
    stream = standard_output()
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        take_output_error()
        _discard(stream)
        raise OutputLost(error) from error


def take_output_error() -> OSError | None:
    """Return the first error of standard output, also if user code has caught it. None if there is none, or it is taken already."""
    product = _KEPT[0].product if _KEPT else None
    return None if product is None else product.take_error()


def write_json_event(event: str, **values: Any) -> None:
    """Write one event of `--json` to standard output: a JSON object on a line."""
    write_line(json_text({"event": event, **values}))


def write_last_event(write: Callable[[], object]) -> None:
    """Write the event of a refusal. A failure is only shown, because the caller ends the command with the error of the refusal."""
    try:
        write()
    except BrokenPipeError:
        discard_unwritten()
    except OutputLost as error:
        show_error(error)


def print_to_stderr(text: str) -> None:
    """Write a line to standard error. Never raise, because standard error is a display."""
    try:
        print(text, file=standard_error(), flush=True)
    except OSError:  # of a stream that user code has put there
        for each in _KEPT:
            if each.name == "stderr":
                print(text, file=each.stream, flush=True)


def format_losses(formatter: logging.Formatter) -> None:
    """Set the format of the line that tells how many lines of standard error are lost."""
    display = display_file_of(sys.stderr)
    if display is not None:
        display.formatter = formatter


def reader_has_gone() -> bool:
    """Tell whether standard output is a pipe or a socket that nobody reads any more."""
    poll = select.poll()
    poll.register(1, 0)  # errors are always polled for
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def show_error(error: EngineError) -> None:
    """Write an error to standard error, in colours on a terminal."""
    colors = standard_error().isatty() and "NO_COLOR" not in os.environ
    text = error_text(error)
    if colors:
        text = text.replace("Error:", "\x1b[1;31mError:\x1b[0m", 1).replace("\nFix:", "\n\x1b[1;32mFix:\x1b[0m")
    print_to_stderr(text)


def error_text(error: EngineError) -> str:
    """Return `Error: …`, the notes, and `Fix: …` if the error has a hint. Only a bug of the engine shows its traceback."""
    lines = [f"Error: {error.message}", *(f"  {note}" for note in getattr(error, "__notes__", ()))]
    if isinstance(error, EngineBug):
        lines.append("".join(traceback.format_exception(error)).rstrip())
    if error.hint:
        lines.append(f"Fix: {error.hint}")
    return "\n".join(lines)


def error_fields(error: EngineError) -> dict[str, Any]:
    """Return an error as plain values for JSON."""
    faults = getattr(error, "faults", None)
    shown = {"type": type(error).__name__, "message": error.message, "hint": error.hint, "notes": getattr(error, "__notes__", [])}
    return shown if faults is None else {**shown, "faults": list(faults)}


def discard_unwritten() -> OSError | None:
    """Flush both streams. Discard buffered text that cannot be written, so that the flush at exit does not fail again.

    Return the error of standard output, or None if all of its text is written. An error that is told already counts as none.
    """
    lost: OSError | None = None
    restore_streams()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if stream is sys.stdout and not _is_product(stream):
                lost = error
            _discard(stream)
    return lost or take_output_error()


def _is_product(stream: TextIO) -> bool:
    """Tell whether this is the standard output of the command, and not a stream with which user code has replaced it."""
    return bool(_KEPT) and _KEPT[0].product is not None and _KEPT[0].product is product_file_of(stream)


def open_missing_descriptors() -> None:
    """Open descriptors 0 to 2 on /dev/null if they are closed. Otherwise a file or socket of the program would get one of these numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # open() takes the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _discard(stream: TextIO) -> None:
    with suppress(OSError):  # of a stream of user code that has no descriptor
        descriptor, nowhere = stream.fileno(), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
