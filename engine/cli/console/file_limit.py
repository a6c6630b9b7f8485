"""The limit of open files of this process (`ulimit -n`), and the error if it is too low."""

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from engine.cli.console.output import show_error
from engine.errors import EngineError


class TooFewFiles(EngineError):
    """Raised if the process needs more open files than its limit allows."""

    exit_status = 2

    def __init__(self) -> None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        text = f"this process may have no more than {limit} open files, which are too few"
        super().__init__(text, hint="Raise the limit: ulimit -n 1024.")


def require_files(number: int) -> None:
    """Raise TooFewFiles unless the process can open so many more files."""
    with as_too_few_files(), ExitStack() as opened:
        for _ in range(number):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))


@contextmanager
def end_without_files() -> Iterator[None]:
    """If the process runs out of files, show this error and end the process."""
    try:
        with as_too_few_files():
            yield
    except TooFewFiles as error:
        show_error(error)
        sys.exit(error.exit_status)


@contextmanager
def as_too_few_files() -> Iterator[None]:
    """Raise TooFewFiles in place of the OSError of the system."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise TooFewFiles from error
