"""Which file it is, whatever it is called now: its inode, and a digest of its head (TX-7).

A file that is renamed keeps both. An inode that is given to another file after a deletion comes with another head, or is too short.
"""

import os
import stat
from hashlib import blake2b
from types import TracebackType
from typing import Final, NamedTuple

from engine.errors import FatalError

HEAD_BYTES: Final = 1024
"""Of what has been read of a file, its first bytes are looked at again: so many at most."""


class Position(NamedTuple):
    """The metadata of a batch of one file: which bytes of which file it is."""

    inode: int
    name: str
    """What the file was called when it was found first."""
    path: str
    """What it was called last. Below the folder, as `name` is."""
    start: int
    end: int
    """The offset behind the last byte."""
    head_bytes: int
    head: bytes
    """The digest of its first `head_bytes` bytes, all of them before `end`."""


class OpenFile:
    """A regular file that is open for reading, by offset. To be closed, or used in a `with`."""

    def __init__(self, descriptor: int, path: str) -> None:
        """Take a file descriptor, and what the file is called below its folder; raises OSError."""
        status = os.fstat(descriptor)
        self._descriptor = descriptor
        self.path = path
        self.inode = status.st_ino
        self.size = status.st_size

    def read(self, offset: int, count: int) -> bytes:
        """Return up to so many bytes; fewer only at the end of the file. Raises OSError."""
        data = os.pread(self._descriptor, count, offset)
        while len(data) < count:
            more = os.pread(self._descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def head(self, count: int) -> bytes:
        """Return the digest of its first bytes."""
        return blake2b(self.read(0, count), digest_size=8).digest()

    def fault(self, position: Position) -> str | None:
        """Return why this is not the file of a position, with all that it had then; None where it is."""
        if self.size < position.end:
            return f"it has {self.size:,} bytes, and had {position.end:,} at least"
        if position.head_bytes and self.head(position.head_bytes) != position.head:
            return f"its first {position.head_bytes:,} bytes are not those that were read"
        return None

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def open_file(folder: str, path: str) -> OpenFile | None:
    """Open a regular file; None where there is none of this name. Raises OSError."""
    try:
        descriptor = os.open(os.path.join(folder, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        where = os.path.join(folder, path)
        raise FatalError(f"file {where!r} may not be read", hint="Let it be read, or take a pattern that leaves it out.") from None
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return OpenFile(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def position_of(file: OpenFile, previous: Position | None, start: int, end: int) -> Position:
    """Return the metadata of a batch, behind that of the batch before it in this file."""
    head_bytes = min(HEAD_BYTES, end)
    known = previous is not None and previous.head_bytes == head_bytes
    head = previous.head if known and previous is not None else file.head(head_bytes)
    return Position(file.inode, file.path if previous is None else previous.name, file.path, start, end, head_bytes, head)
