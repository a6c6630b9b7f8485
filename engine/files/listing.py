"""Lists the input files of several paths and patterns (FI-2)."""

import glob
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from engine.errors import FatalError
from engine.files.folder import Folder

Identity: TypeAlias = tuple[int, int]
"""Device and inode of a file."""


class Found(NamedTuple):
    """A file that was listed."""

    path: str
    """Absolute path."""
    name: str
    """Path as the user wrote it, for errors and positions."""
    identity: Identity
    size: int


class Listing:
    """Paths, folders and patterns, as absolute paths: another working folder later has no effect."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = [(path, os.path.abspath(path)) for path in paths]

    def files(self) -> dict[Identity, Found]:
        """Return the files in the order of the paths, and those of one path by name. A file with several names comes once."""
        files: dict[Identity, Found] = {}
        for given, path in self._paths:
            for found in _found(given, path):
                files.setdefault(found.identity, found)
        return files

    def missing(self) -> list[tuple[str, str]]:
        """Return the paths without a file, each with the reason."""
        return [(given, _why_missing(path)) for given, path in self._paths if not _found(given, path)]


def files_beside(name: str) -> list[Found]:
    """Return the files whose names begin with the name of a file, as those of a rotated file do."""
    return _found(f"{glob.escape(name)}*", f"{glob.escape(os.path.abspath(name))}*")


def require_files(listing: Listing) -> None:
    """Raise FatalError if a path has no file."""
    missing = listing.missing()
    if missing:
        texts = "; ".join(f"{path!r}: {why}" for path, why in missing)
        raise FatalError(f"there is no input: {texts}", hint="Correct the path, or write follow=True to wait for the files.")


def _found(given: str, path: str) -> list[Found]:
    folder = Folder.of(path)
    files = []
    for file in folder.files():
        absolute = os.path.join(folder.path, file.path)
        name = given if absolute == path else absolute if os.path.isabs(given) else os.path.relpath(absolute)
        files.append(Found(absolute, name, (file.device, file.inode), file.size))
    return sorted(files)


def _why_missing(path: str) -> str:
    if glob.has_magic(path):
        return "no file matches the pattern"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "the file does not exist"
    return "the folder has no files" if stat.S_ISDIR(mode) else "it is not a regular file"
