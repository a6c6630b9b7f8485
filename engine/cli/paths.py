"""What to tell about a file that cannot be read."""

from pathlib import Path

from engine.names import nearest

_LISTED_FILES = 8


def why_unreadable(path: Path, suffix: str) -> tuple[str, str] | None:
    """Return what is wrong with a path that should be a file with this suffix, and the fix; None when nothing is."""
    if path.is_dir():
        return f"{path} is a folder", f"Name a file in it. {_files_in(path, suffix)}"
    if not path.exists():
        return _why_missing(path, suffix)
    if path.suffix != suffix:
        return f"{path} is not a {suffix} file", f"Name a file that ends in {suffix}."
    return None


def _why_missing(path: Path, suffix: str) -> tuple[str, str]:
    folder = path.parent
    if not folder.is_dir():
        return f"{path} does not exist, nor does its folder {folder}", "Check the path."
    near = nearest(path.name, (entry.name for entry in folder.iterdir() if entry.suffix == suffix))
    return f"{path} does not exist", f"Did you mean {folder / near}?" if near else _files_in(folder, suffix)


def _files_in(folder: Path, suffix: str) -> str:
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix == suffix)
    if not names:
        return f"There is no {suffix} file in {folder.resolve()}."
    more = f" and {len(names) - _LISTED_FILES} more" if len(names) > _LISTED_FILES else ""
    return f"There is {', '.join(names[:_LISTED_FILES])}{more}."
