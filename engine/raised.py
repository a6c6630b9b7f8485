"""Formats errors of user code, with the lines that raised them."""

import asyncio
import contextlib
import os
import traceback
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from engine.errors import EngineError, FatalError, with_hint
from engine.safe_text import safe_str

_T = TypeVar("_T")

ENGINE: Final = "the engine"
STANDARD_LIBRARY: Final = "the standard library"
MOST_PLACES: Final = 3
MOST_MEMBERS: Final = 3
"""Largest number of errors of a group that a text names."""
PROGRAMS_END_HINT: Final = "Raise a subclass of Exception, or FatalError to end the run. A BaseException would end the program."

Frames: TypeAlias = Sequence[traceback.FrameSummary]
_ROOT: Final = Path(__file__).resolve().parents[1].as_posix()
_OWN_FOLDERS: Final = (f"{_ROOT}/engine/", f"{_ROOT}/spark_bridge/", f"{_ROOT}/_native/", "_native/", "<string>")
_SITE_FOLDERS: Final = ("/site-packages/", "/dist-packages/")
_STANDARD_FOLDERS: Final = (f"{Path(os.__file__).parent.as_posix()}/", "<frozen ", "uvloop/")


def own_text(error: BaseException) -> str:
    """Return the text of an error, with the texts of a group's members. Never raise, even if `__str__` of the error raises."""
    text = safe_str(error)
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {_members_text(error)}"
    return text


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, even if its class replaces `add_note`. An error whose `__notes__` is no list gets none."""
    with contextlib.suppress(Exception):
        BaseException.add_note(error, note)


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error. Empty if its class does something of its own with them."""
    try:
        notes: object = getattr(error, "__notes__", None)
    except Exception:  # noqa: BLE001 - a property of user code
        return []
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def frames_of(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error. Empty if their source cannot be found because of a module loader of user code."""
    try:
        return list(traceback.extract_tb(error.__traceback__))
    except Exception:  # noqa: BLE001 - a loader of user code
        return []


def headline(error: BaseException) -> str:
    """Return `KeyError: 'usd'`, or only `TimeoutError` if the error has no text."""
    return f"{type(error).__name__}: {own_text(error)}".rstrip(": ")


def _members_text(group: BaseExceptionGroup[BaseException]) -> str:
    shown, more = members_of(group)
    texts = [headline(each) for each in shown]
    return "; ".join((*texts, f"and {more:,} more") if more else texts)


def members_of(error: BaseException) -> tuple[list[BaseException], int]:
    """Return the first members of a group, including nested groups, and the number of the others. Empty for an error that is no group."""
    left = list(reversed(error.exceptions)) if isinstance(error, BaseExceptionGroup) else []
    found: list[BaseException] = []
    count = 0
    while left:
        member = left.pop()
        if isinstance(member, BaseExceptionGroup):
            left.extend(reversed(member.exceptions))
        else:
            count += 1
            if len(found) < MOST_MEMBERS:
                found.append(member)
    return found, count - len(found)


def raised_text(error: BaseException) -> str:
    """Return `KeyError: 'usd' (flow.py:4, from flow.py:6)`. The innermost line is first. Without user code the text names libraries."""
    said = with_hint(error.message, error.hint).rstrip(".") if isinstance(error, EngineError) else own_text(error)
    text = f"{type(error).__name__}: {said}".rstrip(": ")
    places = user_places(error)
    return f"{text} ({', from '.join(places)})" if places else text


async def without_exits(work: Awaitable[_T]) -> _T:
    """Await work of a component. Turn a BaseException into a FatalError, which ends the run but not the program."""
    try:
        return await work
    except (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise FatalError(f"raised {raised_text(error)}, which is not an Exception", hint=PROGRAMS_END_HINT) from error


def is_of_user_code(error: BaseException) -> bool:
    """Tell whether the traceback of an error has a line of user code."""
    return any(_library_of(frame.filename.replace("\\", "/")) is None for frame in frames_of(error))


def user_places(error: BaseException) -> list[str]:
    """Return the last lines of user code in a traceback, innermost first. Without user code return lines of libraries. May be empty."""
    frames = frames_of(error)
    owners = [_library_of(frame.filename.replace("\\", "/")) for frame in frames]
    users = [frame for frame, owner in zip(frames, owners, strict=True) if owner is None]
    others = [frame for frame, owner in zip(frames, owners, strict=True) if owner != ENGINE]
    return [f"{frame.filename}:{frame.lineno}" for frame in reversed((users or others)[-MOST_PLACES:])]


def owners_of(frames: Frames) -> list[str | None]:
    """Return the library of each frame, None for user code.

    The engine calls only user code. So the first frame outside the engine and the standard library is user code. If this frame belongs
    to an installed package, all frames of the package count as user code.
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
    """Return the installed package that a file belongs to, None for a file that is not installed."""
    for folder in _SITE_FOLDERS:
        _, found, inside = path.rpartition(folder)
        if found:
            return inside.partition("/")[0].removesuffix(".py")
    return None
