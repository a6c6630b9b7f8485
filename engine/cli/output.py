"""Standard output and error where they cannot be written: a reader who is gone, a full disk, a descriptor that is closed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO


@dataclass(frozen=True, slots=True)
class _Kept:
    """A standard stream as it was when the command began."""

    name: str
    number: int
    stream: TextIO
    descriptor: int
    """A duplicate, for who closes the stream itself."""


_KEPT: Final[list[_Kept]] = []
"""Those of the command that runs."""


@contextmanager
def kept() -> Iterator[None]:
    """Remember standard output and error for `restore`, as long as a command runs."""
    before = _KEPT[:]
    _KEPT[:] = [_Kept(name, number, getattr(sys, name), os.dup(number)) for name, number in (("stdout", 1), ("stderr", 2))]
    try:
        yield
    finally:
        for each in _KEPT:
            os.close(each.descriptor)
        _KEPT[:] = before


def restore() -> None:
    """Put back standard output and error where user code has closed them, or replaced them by what cannot be written."""
    for each in _KEPT:
        try:
            os.fstat(each.number)
        except OSError:
            os.dup2(each.descriptor, each.number)
        if not _is_writable(getattr(sys, each.name)):
            usable = _is_writable(each.stream)
            setattr(sys, each.name, each.stream if usable else os.fdopen(os.dup(each.descriptor), "w", encoding="utf-8", buffering=1))


def standard_output() -> TextIO:
    """Return standard output, put back where user code took it away."""
    restore()
    return sys.stdout


def standard_error() -> TextIO:
    """Return standard error, put back where user code took it away."""
    restore()
    return sys.stderr


def _is_writable(stream: TextIO) -> bool:
    """Tell whether a stream takes text; what the system refuses, such as a full disk, is told where it is written."""
    try:
        stream.flush()
        stream.write("")
    except OSError:
        return True
    except Exception:  # noqa: BLE001 - the stream may be any object of the user's
        return False
    return not getattr(stream, "closed", False)


def write_line(text: str, stream: TextIO) -> None:
    """Write a line at once; raise BrokenPipeError where that cannot be, whatever the reason: nobody will read it."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(stream)
        tell_lost(error)
        raise BrokenPipeError(error.errno, error.strerror) from error


def tell(text: str) -> None:
    """Write a line to standard error, if that can be."""
    try:
        print(text, file=standard_error(), flush=True)
    except OSError:
        _discard(sys.stderr)  # there is no other place to tell it


def tell_lost(error: OSError) -> None:
    """Say that output is lost, and why."""
    tell(f"Error: the output cannot be written: {error.strerror}\nFix: Send it to where there is room.")


def discard_unwritten() -> OSError | None:
    """Let go of what a stream cannot write, so that the flush at exit does not fail again; return why, None where all is written."""
    lost: OSError | None = None
    restore()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            lost = lost or error
            _discard(stream)
    return lost


def open_missing() -> None:
    """Have descriptors 0 to 2 lead to nowhere where they are closed, so that no file or socket of the program gets their number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free: this one
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
