"""Content of one file by offset, plain or gzip, and the fingerprint that recognizes it (FI-5)."""

import zlib
from hashlib import blake2b
from typing import ClassVar, Final, Protocol

from engine.errors import FatalError
from engine.files.regular_file import OpenFile

EDGE_BYTES: Final = 512
"""Largest number of bytes at the beginning, and before an offset, that a fingerprint covers."""
GZIP_MAGIC: Final = b"\x1f\x8b"
_RAW_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 1024 * 1024
"""Largest number of bytes that one step decompresses, while reading skips to an offset."""
_GZIP_FORMAT: Final = zlib.MAX_WBITS | 16


class Content(Protocol):
    """Bytes of one open file. For gzip these are the decompressed bytes."""

    is_compressed: ClassVar[bool]
    is_cut: bool
    """At the end of the content: True if the file ends in the middle of its compressed data."""

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes, fewer only at the end. Raises OSError, and FatalError for damaged compressed data."""

    def size(self) -> int:
        """Return the current size of the file on disk."""

    def unread(self, offset: int) -> int:
        """Return the bytes on disk behind an offset of the content."""

    def has_name(self) -> bool:
        """Return whether the file still has a name somewhere."""

    def close(self) -> None:
        """Close the file."""


def open_content(file: OpenFile) -> Content:
    """Return the content of a file. Its first two bytes decide, or the name of a file that is shorter.

    Raises FatalError, and closes the file, if its name says gzip and its bytes do not.
    """
    magic = file.read(0, len(GZIP_MAGIC))
    if magic == GZIP_MAGIC or (len(magic) < len(GZIP_MAGIC) and file.path.endswith(".gz")):
        return GzipContent(file)
    if file.path.endswith(".gz"):
        file.close()
        raise FatalError(f"file {file.path!r} is not compressed by gzip", hint="Rename it, if it is plain text.")
    return PlainContent(file)


class PlainContent:
    """Bytes of a plain file."""

    is_compressed: ClassVar[bool] = False
    is_cut = False

    def __init__(self, file: OpenFile) -> None:
        self._file = file

    def read(self, offset: int, count: int) -> bytes:
        return self._file.read(offset, count)

    def size(self) -> int:
        return self._file.size_now()

    def unread(self, offset: int) -> int:
        return max(self.size() - offset, 0)

    def has_name(self) -> bool:
        return self._file.has_name()

    def close(self) -> None:
        self._file.close()


class GzipContent:
    """Decompressed bytes of a gzip file, which may have several members.

    Reading forward is cheap. To read at a lower offset than the last one, the file is decompressed from its beginning.
    """

    is_compressed: ClassVar[bool] = True

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._restart()

    def _restart(self) -> None:
        self.is_cut = False
        self._raw_offset = 0
        self._raw = b""
        """Compressed bytes that were read and not decompressed."""
        self._member = zlib.decompressobj(_GZIP_FORMAT)
        self._holds_more = False
        """True if the decompressor may have more bytes without more input."""
        self._start = 0
        """Offset of `_data` in the content."""
        self._data = b""

    def read(self, offset: int, count: int) -> bytes:
        if offset < self._start:
            self._restart()
        while self._start + len(self._data) < offset + count:
            self._drop_before(offset)
            more = self._decompress(min(offset + count - self._start - len(self._data), _MOST_BYTES))
            if more is None:
                break
            self._data += more
        self._drop_before(offset)
        return self._data[:count]

    def _drop_before(self, offset: int) -> None:
        gone = min(offset - self._start, len(self._data))
        self._data = self._data[gone:]
        self._start += gone

    def _decompress(self, count: int) -> bytes | None:
        """Return up to `count` of the next bytes, perhaps none. None at the end of the file."""
        if not self._raw and not self._holds_more:
            self._raw = self._file.read(self._raw_offset, _RAW_BYTES)
            self._raw_offset += len(self._raw)
            if not self._raw:
                return None
        if not self.is_cut:  # between two members there may be zeros, as the padding of a tape
            self._raw = self._raw.lstrip(b"\0")
            if not self._raw:
                return b""
            self._member = zlib.decompressobj(_GZIP_FORMAT)
        try:
            data = self._member.decompress(self._raw, count)
        except zlib.error as error:
            raise FatalError(
                f"file {self._file.path!r} is damaged: its content cannot be decompressed behind {self._start + len(self._data):,} bytes "
                f"({error})",
                hint="Restore the file, or leave it out of the paths.",
            ) from None
        self.is_cut = not self._member.eof
        self._raw = self._member.unconsumed_tail if self.is_cut else self._member.unused_data
        self._holds_more = self.is_cut and len(data) == count
        return data

    def size(self) -> int:
        return self._file.size_now()

    def unread(self, offset: int) -> int:
        """Return the compressed bytes that were not read."""
        return max(self.size() - self._raw_offset + len(self._raw), 0)

    def has_name(self) -> bool:
        return self._file.has_name()

    def close(self) -> None:
        self._file.close()


def fingerprint(head: bytes, tail: bytes) -> str:
    """Return the fingerprint of a content up to an offset. head, tail: its first and its last bytes, up to EDGE_BYTES.

    >>> fingerprint(b"to be", b"to be") == fingerprint(b"to be", b"to bo")
    False
    """
    return blake2b(head + tail, digest_size=8).hexdigest()


def edges_at(content: Content, offset: int) -> tuple[bytes, bytes] | None:
    """Return the first bytes of a content and those before an offset, or None if the content is shorter."""
    count = min(offset, EDGE_BYTES)
    head = content.read(0, count)
    tail = content.read(offset - count, count)
    return (head, tail) if len(head) == len(tail) == count else None
