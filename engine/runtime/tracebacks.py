"""Tracebacks for people: the frames of the user's code; those of libraries and of the engine are folded into a line each (SV-5)."""

import traceback
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from engine.errors import EngineBug, EngineError
from engine.raised import ENGINE, Frames, headline, members_of, owners_of

MOST_CAUSES: Final = 10


def user_traceback(error: BaseException, *, full: bool = False, causes: int = MOST_CAUSES) -> str:
    """Return the traceback of an error, of what it holds, and of its causes; empty where there is none.

    Leaves out the engine's frames at its top, and, where the engine refused a call, those below that call. full: fold no frame.
    """
    text = _listed(list(traceback.extract_tb(error.__traceback__)), full=full, refused=_is_refusal(error))
    if not causes or isinstance(error, EngineError):
        return text
    text += _members(error, full=full, causes=causes)
    cause, link = error.__cause__, "the cause of"
    if cause is None:
        cause, link = _handled(error), "while that was handled"
    if cause is None or cause.__traceback__ is None:
        return text
    return f"{user_traceback(cause, full=full, causes=causes - 1)}{headline(cause)}\n{link}:\n{text}"


def _members(error: BaseException, *, full: bool, causes: int) -> str:
    """Return what a group of exceptions holds: the frames there are the user's, and the cause."""
    members, more = members_of(error)
    told = []
    for number, member in enumerate(members, 1):
        lines = f"{user_traceback(member, full=full, causes=causes // 2)}{headline(member)}".splitlines()
        told.append(f"  sub-exception {number} of {len(members) + more:,}:\n" + "".join(f"    {line}\n" for line in lines))
    return "".join(told) + (f"  and {more:,} more sub-exceptions\n" if more else "")


def _handled(error: BaseException) -> BaseException | None:
    """Return what was being handled by other code than the engine's, which calls a component while it handles an earlier error, too."""
    handled = None if error.__suppress_context__ else error.__context__
    frames = [] if handled is None else traceback.extract_tb(handled.__traceback__)
    return handled if frames and owners_of(frames)[0] != ENGINE else None  # its first frame is the one that caught it


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, EngineError) and not isinstance(error, EngineBug)


def _listed(frames: Frames, *, full: bool, refused: bool) -> str:
    if full:
        return "".join(traceback.format_list(frames))
    owners = owners_of(frames)
    first = next((index for index, owner in enumerate(owners) if owner != ENGINE), None)
    if first is None:
        return ""
    last = max(index for index, owner in enumerate(owners) if owner != ENGINE) + 1 if refused else len(frames)
    shown = range(first, last)
    if None not in owners[first:last]:  # no user's frame: the one that raised says most
        return "".join((*_folded(frames, owners, shown[:-1]), *traceback.format_list(frames[last - 1 : last])))
    return "".join(_folded(frames, owners, shown))


def _folded(frames: Frames, owners: Sequence[str | None], shown: Sequence[int]) -> Iterator[str]:
    """Yield the user's frames as they are, and a line for each row of others."""
    for is_users, group in groupby(shown, key=lambda index: owners[index] is None):
        indices = list(group)
        if is_users:
            yield from traceback.format_list([frames[index] for index in indices])
        else:
            names = dict.fromkeys(str(owners[index]) for index in indices)
            yield f"  ... {len(indices)} frame{'s' * (len(indices) > 1)} of {', '.join(names)}\n"
