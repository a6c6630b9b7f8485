"""Tracebacks for people: the frames of the user's code; those of libraries and of the engine are folded into a line each (SV-5)."""

import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias

from engine.errors import EngineBug, EngineError

MOST_CAUSES: Final = 10
ENGINE: Final = "the engine"
STANDARD_LIBRARY: Final = "the standard library"

_Frames: TypeAlias = Sequence[traceback.FrameSummary]
_ROOT: Final = Path(__file__).resolve().parents[2].as_posix()
_OWN_FOLDERS: Final = (f"{_ROOT}/engine/", f"{_ROOT}/spark_bridge/", f"{_ROOT}/_native/", "_native/")
_SITE_FOLDERS: Final = ("/site-packages/", "/dist-packages/")
_STANDARD_FOLDERS: Final = (*(f"{Path(sysconfig.get_path(name)).as_posix()}/" for name in ("stdlib", "platstdlib")), "<frozen ")


def user_traceback(error: BaseException, *, full: bool = False, causes: int = MOST_CAUSES) -> str:
    """Return the traceback of an error and of its causes, empty where there is none.

    Leaves out the engine's frames at its top, and, where the engine refused a call, those below that call. full: fold no frame.
    """
    text = _listed(list(traceback.extract_tb(error.__traceback__)), full=full, refused=_is_refusal(error))
    cause = error.__cause__
    if causes and cause is not None and cause.__traceback__ is not None and not isinstance(error, EngineError):
        told = "".join(traceback.format_exception_only(type(cause), cause)).rstrip()
        text = f"{user_traceback(cause, full=full, causes=causes - 1)}{told}\nthe cause of:\n{text}"
    return text


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, EngineError) and not isinstance(error, EngineBug)


def _listed(frames: _Frames, *, full: bool, refused: bool) -> str:
    if full:
        return "".join(traceback.format_list(frames))
    owners = _owners(frames)
    first = next((index for index, owner in enumerate(owners) if owner != ENGINE), None)
    if first is None:
        return ""
    last = max(index for index, owner in enumerate(owners) if owner != ENGINE) + 1 if refused else len(frames)
    shown = range(first, last)
    if None not in owners[first:last]:  # no user's frame: the one that raised says most
        return "".join((*_folded(frames, owners, shown[:-1]), *traceback.format_list(frames[last - 1 : last])))
    return "".join(_folded(frames, owners, shown))


def _folded(frames: _Frames, owners: Sequence[str | None], shown: Sequence[int]) -> Iterator[str]:
    """Yield the user's frames as they are, and a line for each row of others."""
    for is_users, group in groupby(shown, key=lambda index: owners[index] is None):
        indices = list(group)
        if is_users:
            yield from traceback.format_list([frames[index] for index in indices])
        else:
            names = dict.fromkeys(str(owners[index]) for index in indices)
            yield f"  ... {len(indices)} frame{'s' * (len(indices) > 1)} of {', '.join(names)}\n"


def _owners(frames: _Frames) -> list[str | None]:
    """Name the library that each frame belongs to; None for the user's.

    The engine calls the user's code only, so the first frame outside the engine and the standard library is the user's, wherever it is
    installed; with it all of its package.
    """
    paths = [frame.filename.replace("\\", "/") for frame in frames]
    owners = [_library_of(path) for path in paths]
    users = next((path for path, owner in zip(paths, owners, strict=True) if owner not in (ENGINE, STANDARD_LIBRARY)), None)
    package = None if users is None else _package_of(users)
    return [None if package is not None and _package_of(path) == package else owner for path, owner in zip(paths, owners, strict=True)]


def _library_of(path: str) -> str | None:
    if path.startswith(_OWN_FOLDERS):
        return ENGINE
    package = _package_of(path)
    if package is not None:
        return package
    return STANDARD_LIBRARY if path.startswith(_STANDARD_FOLDERS) else None


def _package_of(path: str) -> str | None:
    """Return the name of the installed package that a file belongs to; None for one that is not installed."""
    for folder in _SITE_FOLDERS:
        _, found, inside = path.rpartition(folder)
        if found:
            return inside.partition("/")[0].removesuffix(".py")
    return None
