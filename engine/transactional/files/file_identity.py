"""Identifies a file by its inode and a digest of its head, independent of its name (TX-7).

A renamed file keeps both its inode and its head. If the system reuses an inode for another file, the new file has a different head, or is
too short.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from engine.files.regular_file import OpenFile

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


def head_of(file: OpenFile, count: int) -> bytes:
    """Return the digest of the first `count` bytes."""
    return blake2b(file.read(0, count), digest_size=8).digest()


def fault_of(file: OpenFile, position: Position) -> str | None:
    """Return the reason why this is not the file of a position, None if it is."""
    if file.size < position.end:
        return f"it has {file.size:,} bytes, and had {position.end:,} at least"
    if position.head_bytes and head_of(file, position.head_bytes) != position.head:
        return f"its first {position.head_bytes:,} bytes are not those that were read"
    return None


def position_of(file: OpenFile, previous: Position | None, start: int, end: int) -> Position:
    """Return the metadata of a batch. previous: metadata of the previous batch of this file."""
    head_bytes = min(HEAD_BYTES, end)
    known = previous is not None and previous.head_bytes == head_bytes
    head = previous.head if known and previous is not None else head_of(file, head_bytes)
    return Position(file.inode, file.path if previous is None else previous.name, file.path, start, end, head_bytes, head)
