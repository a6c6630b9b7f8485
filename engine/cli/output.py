"""Standard output and error where they cannot be written: a reader who is gone, a full disk, a descriptor that is closed."""

import os
import sys
from typing import TextIO


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
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)  # there is no other place to tell it


def tell_lost(error: OSError) -> None:
    """Say that output is lost, and why."""
    tell(f"Error: the output cannot be written: {error.strerror}\nFix: Send it to where there is room.")


def discard_unwritten() -> OSError | None:
    """Let go of what a stream cannot write, so that the flush at exit does not fail again; return why, None where all is written."""
    lost: OSError | None = None
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
