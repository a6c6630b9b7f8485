"""Files and sockets that a process which this process forks must not keep.

A bolt may fork, for example by a `ProcessPoolExecutor` of the context "fork". The forked process has all descriptors of the run, and may
outlive it. Then it would hold the lock of the state and the port of the page for as long as it lives. So the forked process closes them.

SQLite files are not among them. SQLite keeps its own books of descriptors and locks, and its locks are not inherited. A connection whose
descriptor was closed under it might take the locks of another file, and remove the log of the run. Connections to servers are not among
them either, because the clients do not tell their sockets. The servers release what such a connection holds after their own timeouts.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from weakref import WeakSet


class HasFileno(Protocol):
    """A file or a socket. `fileno` may raise ValueError or return -1 when it is closed."""

    def fileno(self) -> int: ...


_T = TypeVar("_T", bound=HasFileno)
_FILES: Final[WeakSet[HasFileno]] = WeakSet()
_OPENING: Final = threading.RLock()
"""Held while a file is opened and noted. A fork waits for it, so no forked process gets a file that is not noted."""


def open_unshared(open_file: Callable[[], _T]) -> _T:
    """Open a file or socket that forked processes close."""
    with _OPENING:
        file = open_file()
        _FILES.add(file)
    return file


def unshare(*files: HasFileno) -> None:
    """Let forked processes close these open files or sockets."""
    with _OPENING:
        _FILES.update(files)


def _close_all() -> None:
    """Close the files in a forked process. Their numbers stay in use, because their objects still close them.

    Nothing is told to the other end, and no lock is released: the run goes on with both.
    """
    _OPENING.release()
    numbers = [number for file in list(_FILES) if (number := _number_of(file)) >= 0]
    _FILES.clear()
    if numbers:
        null = os.open(os.devnull, os.O_RDWR)
        for number in numbers:
            os.dup2(null, number, inheritable=False)
        os.close(null)


def _number_of(file: HasFileno) -> int:
    try:
        return file.fileno()
    except (ValueError, OSError):
        return -1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_close_all)
