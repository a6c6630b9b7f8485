"""What to tell about a file that cannot be read."""

import os
import stat
from pathlib import Path

from engine.names import nearest

_LISTED_FILES = 8
_SHOWN_CHARACTERS = 200


def why_unreadable(path: Path, suffix: str) -> tuple[str, str] | None:
    """Return what is wrong with a path that should be a file with this suffix, and the fix; None when nothing is."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _why_missing(path, suffix)
    except OSError as error:
        return f"{_shown(path)} cannot be read: {error.strerror}", "Check the path."
    if stat.S_ISDIR(mode):
        return f"{path} is a folder", f"Name a file in it. {_files_in(path, suffix)}"
    if path.suffix != suffix:
        return f"{path} is not a {suffix} file", f"Name a file that ends in {suffix}."
    if not stat.S_ISREG(mode):
        return f"{path} is no regular file", "A pipe or a device may never end: write what it holds into a file."
    return None


def _why_missing(path: Path, suffix: str) -> tuple[str, str]:
    if path.is_symlink():
        return f"{path} is a link to {os.readlink(path)}, which does not exist", "Check where it leads."
    folder = path.parent
    if not folder.is_dir():
        return f"{path} does not exist, nor does its folder {folder}", "Check the path."
    near = nearest(path.name, (entry.name for entry in folder.iterdir() if entry.suffix == suffix))
    return f"{path} does not exist", f"Did you mean {folder / near}?" if near else _files_in(folder, suffix)


def _shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _files_in(folder: Path, suffix: str) -> str:
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == suffix)
    if not names:
        return f"There is no {suffix} file in {folder.resolve()}."
    more = f" and {len(names) - _LISTED_FILES} more" if len(names) > _LISTED_FILES else ""
    return f"There is {', '.join(names[:_LISTED_FILES])}{more}."
