"""Opens regular files, and reads them by offset."""

import os
import stat
from types import TracebackType

from engine.errors import FatalError


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

    def size_now(self) -> int:
        """Return the current size. `size` is that of the opening."""
        return os.fstat(self._descriptor).st_size

    def has_name(self) -> bool:
        """Return whether the file was not deleted."""
        return os.fstat(self._descriptor).st_nlink > 0

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
