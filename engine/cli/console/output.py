"""Writes to standard output and standard error, and handles failed writes.

A reader may close the pipe, a disk may be full, and user code may close or replace the streams.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TextIO

from engine.errors import EngineBug, EngineError
from engine.json_text import json_text


@dataclass(frozen=True, slots=True)
class _KeptStream:
    """A standard stream at the start of the command."""

    name: str
    number: int
    stream: TextIO
    descriptor: int
    """Duplicate of the descriptor. The duplicate stays open if user code closes the stream."""


_KEPT: Final[list[_KeptStream]] = []
"""The streams of the running command."""


@contextmanager
def keep_streams() -> Iterator[None]:
    """Remember standard output and standard error for `restore_streams` while a command runs."""
    before = _KEPT[:]
    _KEPT[:] = [_KeptStream(name, number, getattr(sys, name), os.dup(number)) for name, number in (("stdout", 1), ("stderr", 2))]
    try:
        yield
    finally:
        for each in _KEPT:
            os.close(each.descriptor)
        _KEPT[:] = before


def restore_streams() -> None:
    """Repair standard output and standard error if user code closed them or replaced them with an unusable object."""
    for each in _KEPT:
        try:
            os.fstat(each.number)
        except OSError:
            os.dup2(each.descriptor, each.number)
        if not _is_writable(getattr(sys, each.name)):
            usable = _is_writable(each.stream)
            setattr(sys, each.name, each.stream if usable else os.fdopen(os.dup(each.descriptor), "w", encoding="utf-8", buffering=1))


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


def write_line(text: str, stream: TextIO) -> None:
    """Write and flush one line. Raise BrokenPipeError for any failure, because nobody will read the output."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(stream)
        report_lost_output(error)
        raise BrokenPipeError(error.errno, error.strerror) from error


def write_json_event(event: str, **values: Any) -> None:
    """Write one event of `--json` to standard output: a JSON object on a line."""
    write_line(json_text({"event": event, **values}), standard_output())


def print_to_stderr(text: str) -> None:
    """Write a line to standard error if possible."""
    try:
        print(text, file=standard_error(), flush=True)
    except OSError:
        _discard(sys.stderr)  # there is no other place to report the failure


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


def report_lost_output(error: OSError) -> None:
    """Report on standard error that output is lost, and the reason."""
    print_to_stderr(f"Error: the output cannot be written: {error.strerror}\nFix: Send the output to a place with free space.")


def discard_unwritten() -> OSError | None:
    """Flush both streams. Discard buffered text that cannot be written, so that the flush at exit does not fail again.

    Return the error, or None if all text is written.
    """
    lost: OSError | None = None
    restore_streams()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            lost = lost or error
            _discard(stream)
    return lost


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
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
