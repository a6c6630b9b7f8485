"""Standard streams that misbehave, and components that print all the same."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.hostile.misdeeds import Misdeed


def prints(misdeed: Misdeed, number: int, component: Any) -> None:
    """Print a line to each stream, and some text without a line end. The error of a stream is the component's own affair."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            print(f"row {number}\nand more", end="", file=stream, flush=True)


@contextmanager
def standard_streams(stream: Any) -> Iterator[None]:
    """Replace both standard streams. A handler of the program logs to standard error."""
    handler = logging.StreamHandler(stream)
    before, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), stream, stream
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        sys.stdout, sys.stderr = before


@contextmanager
def hostile_streams(misdeed: Misdeed) -> Iterator[None]:
    """Let a stream of the program raise, block or return nonsense, whatever is asked of it."""

    class Stream:
        encoding = "utf-8"
        write = flush = isatty = fileno = misdeed

    with standard_streams(Stream()):
        yield


@contextmanager
def unreadable_streams(misdeed: Misdeed) -> Iterator[None]:
    """Let a stream refuse every text, and be hostile about its own encoding."""

    class Stream:
        encoding = property(lambda self: misdeed())
        flush = isatty = fileno = misdeed

        def write(self, text: str) -> int:
            raise UnicodeEncodeError("ascii", text, 0, 1, "always")

    with standard_streams(Stream()):
        yield


@contextmanager
def closed_streams(misdeed: Misdeed) -> Iterator[None]:
    with open("/dev/null", "w") as closed:
        pass
    with standard_streams(closed):
        yield


@contextmanager
def full_streams(misdeed: Misdeed) -> Iterator[None]:
    """Write to a device on which there is never any space."""
    full = open("/dev/full", "w", buffering=1)  # noqa: SIM115 - its close raises
    try:
        with standard_streams(full):
            yield
    finally:
        with suppress(OSError):  # its buffer cannot be written
            full.close()


@contextmanager
def no_streams(misdeed: Misdeed) -> Iterator[None]:
    """Have no streams, like pythonw and some services."""
    with standard_streams(None):
        yield
