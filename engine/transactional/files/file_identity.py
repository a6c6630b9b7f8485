"""Identifies a file by its inode and a digest of its head, independent of its name (TX-7).

A renamed file keeps both its inode and its head. If the system reuses an inode for another file, the new file has a different head, or is
too short.
"""

import os
import stat
from hashlib import blake2b
from types import TracebackType
from typing import Final, NamedTuple

from engine.errors import FatalError

HEAD_BYTES: Final = 1024
"""Largest head of a file, in bytes, that is compared to recognize it."""


class Position(NamedTuple):
    """Metadata of one file in a batch: the file, and the range of its bytes."""

    inode: int
    name: str
    """Path of the file when it was found first."""
    path: str
    """Newest path of the file. Relative to the folder, like `name`."""
    start: int
    end: int
    """The offset after the last byte."""
    head_bytes: int
    head: bytes
    """Digest of the first `head_bytes` bytes. `head_bytes` <= `end`."""


class OpenFile:
    """A regular file, open for reading by offset. Close it, or use it in a `with`."""

    def __init__(self, descriptor: int, path: str) -> None:
        """descriptor: an open file. path: relative to the folder. Raises OSError."""
        status = os.fstat(descriptor)
        self._descriptor = descriptor
        self.path = path
        self.inode = status.st_ino
        self.size = status.st_size

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes, fewer only at the end of the file. Raises OSError."""
        data = os.pread(self._descriptor, count, offset)
        while len(data) < count:
            more = os.pread(self._descriptor, count - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def head(self, count: int) -> bytes:
        """Return the digest of the first `count` bytes."""
        return blake2b(self.read(0, count), digest_size=8).digest()

    def fault(self, position: Position) -> str | None:
        """Return the reason why this is not the file of a position, None if it is."""
        if self.size < position.end:
            return f"it has {self.size:,} bytes, and had {position.end:,} at least"
        if position.head_bytes and self.head(position.head_bytes) != position.head:
            return f"its first {position.head_bytes:,} bytes are not those that were read"
        return None

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def open_file(folder: str, path: str) -> OpenFile | None:
    """Open a regular file. Return None if there is none of this name. Raises FatalError if it may not be read, else OSError."""
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
    """Return the metadata of a batch. previous: metadata of the previous batch of this file."""
    head_bytes = min(HEAD_BYTES, end)
    known = previous is not None and previous.head_bytes == head_bytes
    head = previous.head if known and previous is not None else file.head(head_bytes)
    return Position(file.inode, file.path if previous is None else previous.name, file.path, start, end, head_bytes, head)
