"""Lists the input files of a folder or of a pattern."""

import asyncio
import glob
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.errors import FatalError

FILES_PER_TURN: Final = 100
"""Files between two turns of the event loop, about 0.5 ms."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file and its status in the last listing."""

    path: str
    """Relative to the folder."""
    inode: int
    device: int
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, and a pattern of file paths below it.

    >>> Folder.of("logs/app-*.log")
    Folder(path='logs', pattern='app-*.log')
    >>> Folder.of("logs")
    Folder(path='logs', pattern='*')
    """

    path: str
    pattern: str

    @classmethod
    def of(cls, where: str) -> "Folder":
        """where: a file, a folder (its files that are not hidden), or a `glob` pattern, also with `**`."""
        if os.path.isfile(where):
            return cls(os.path.dirname(where) or os.curdir, glob.escape(os.path.basename(where)))
        if not glob.has_magic(where):
            return cls(where, "*")
        parts = where.split(os.sep)
        plain = next(number for number, part in enumerate(parts) if glob.has_magic(part))
        return cls(os.sep.join(parts[:plain]) or (os.sep if where.startswith(os.sep) else os.curdir), os.sep.join(parts[plain:]))

    def absolute(self) -> "Folder":
        """Return the folder under its absolute path. A relative path means another folder in a process with another working folder.

        >>> Folder("logs", "*").absolute().path == os.path.join(os.getcwd(), "logs")
        True
        """
        return Folder(os.path.abspath(self.path), self.pattern)

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return os.path.isdir(self.path)

    async def look(self) -> dict[int, Found]:
        """Return the files by inode. If a file has several names, the first in alphabetical order counts.

        Raises FatalError if files on two file systems have the same inode number.
        """
        files: dict[int, Found] = {}
        for number, found in enumerate(self.files(), 1):
            other = files.get(found.inode)
            if other is not None and other.device != found.device:
                raise FatalError(
                    f"{other.path!r} and {found.path!r} in {self.path!r} have the same inode number {found.inode} on two file systems",
                    hint="Use one spout for each file system.",
                )
            if other is None or found.path < other.path:
                files[found.inode] = found
            if number % FILES_PER_TURN == 0:
                await asyncio.sleep(0)
        return files

    def files(self) -> Iterator[Found]:
        """Yield the regular files, in no order. A file with several names comes under each."""
        for path in glob.iglob(self.pattern, root_dir=self.path, recursive=True):
            try:
                status = os.stat(os.path.join(self.path, path))
            except FileNotFoundError:
                continue  # removed since the listing, or a dangling link
            if stat.S_ISREG(status.st_mode):
                yield Found(path, status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns)
