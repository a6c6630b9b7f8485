"""Windows of a flow as plain objects: what they are, what they keep in the state of a task, and what they give out."""

from collections.abc import Callable
from typing import Any, Final

from engine.streams.times import FIRST
from engine.streams.windows.aggregates import Aggregate, collect, count, max_by, max_of, mean, min_of, reduce, sum_of
from engine.streams.windows.keyed import Namespace, NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.panes import TimeWindows
from engine.streams.windows.results import Late, Windowed
from engine.streams.windows.revised_panes import RevisedTimeWindows
from engine.streams.windows.revised_sessions import RevisedSessionWindows
from engine.streams.windows.sessions import SessionWindows
from engine.streams.windows.specs import Calendar, Session, Sliding, Updates, calendar, session, sliding, tumbling

__all__ = [
    "Aggregate",
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
    "collect",
    "count",
    "max_by",
    "max_of",
    "mean",
    "min_of",
    "open_keeper",
    "reduce",
    "session",
    "sliding",
    "sum_of",
    "tumbling",
]

_NONE: Final = Updates()


def _same(value: Any) -> Any:
    return value


def open_keeper(
    state: NamespacedState,
    spec: Sliding | Calendar | Session,
    aggregate: Aggregate[Any, Any, Any],
    *,
    progress: tuple[int, int] = (FIRST, FIRST),
    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (_same, _same),
    updates: Updates = _NONE,
) -> TimeWindows | SessionWindows:
    """Return the keeper of the windows of one task, over the state that the task has.

    With updates its results are `Revised`, and it is a `RevisedTimeWindows` or `RevisedSessionWindows`, which has `updates`.
    """
    if updates != _NONE:
        if isinstance(spec, Session):
            return RevisedSessionWindows(state, spec, aggregate, progress=progress, codec=codec, updates=updates)
        return RevisedTimeWindows(state, spec, aggregate, progress=progress, codec=codec, updates=updates)
    if isinstance(spec, Session):
        return SessionWindows(state, spec, aggregate, progress=progress, codec=codec)
    return TimeWindows(state, spec, aggregate, progress=progress, codec=codec)
