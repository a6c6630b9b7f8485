"""Windows of a flow as plain objects: what they are, what they keep in the state of a task, and what they give out."""

from engine.streams.aggregates import Reduction
from engine.streams.times import FIRST
from engine.streams.windows.keyed import Namespace, NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.panes import TimeWindows
from engine.streams.windows.results import Late, Windowed
from engine.streams.windows.revised_panes import RevisedTimeWindows
from engine.streams.windows.revised_sessions import RevisedSessionWindows
from engine.streams.windows.sessions import SessionWindows
from engine.streams.windows.specs import Calendar, Session, Sliding, Updates, calendar, session, sliding, tumbling

__all__ = [
    "Calendar",
    "Late",
    "Lateness",
    "Namespace",
    "NamespacedState",
    "RevisedSessionWindows",
    "RevisedTimeWindows",
    "Session",
    "SessionWindows",
    "Sliding",
    "TimeWindows",
    "Updates",
    "Windowed",
    "calendar",
    "open_keeper",
    "session",
    "sliding",
    "tumbling",
]

def open_keeper(
    state: NamespacedState,
    spec: Sliding | Calendar | Session,
    reduction: Reduction,
    *,
    progress: tuple[int, int] = (FIRST, FIRST),
    updates: Updates | None = None,
) -> TimeWindows | SessionWindows:
    """Return the keeper of the windows of one task, over the state that the task has.

    With updates its results are `Revised`, and it is a `RevisedTimeWindows` or `RevisedSessionWindows`, which has `updates`.
    """
    if updates is not None:
        if isinstance(spec, Session):
            return RevisedSessionWindows(state, spec, reduction, progress=progress, updates=updates)
        return RevisedTimeWindows(state, spec, reduction, progress=progress, updates=updates)
    if isinstance(spec, Session):
        return SessionWindows(state, spec, reduction, progress=progress)
    return TimeWindows(state, spec, reduction, progress=progress)
