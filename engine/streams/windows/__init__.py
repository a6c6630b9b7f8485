"""Windows of a flow as plain objects: what they are, what they keep in the state of a task, and what they give out."""

from collections.abc import Callable
from typing import Any

from engine.streams.times import FIRST
from engine.streams.windows.aggregates import Aggregate, collect, count, max_by, max_of, mean, min_of, reduce, sum_of
from engine.streams.windows.keyed import Namespace, NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.panes import TimeWindows
from engine.streams.windows.results import Late, Windowed
from engine.streams.windows.revised_panes import RevisedTimeWindows
from engine.streams.windows.revised_sessions import RevisedSessionWindows
from engine.streams.windows.sessions import SessionWindows
from engine.streams.windows.specs import Calendar, Session, Sliding, calendar, session, sliding, tumbling

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


def _same(value: Any) -> Any:
    return value


def open_keeper(
    state: NamespacedState,
    spec: Sliding | Calendar | Session,
    aggregate: Aggregate[Any, Any, Any],
    *,
    progress: tuple[int, int] = (FIRST, FIRST),
    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (_same, _same),
    allowed_us: int = 0,
    early: bool = False,
) -> TimeWindows | SessionWindows:
    """Return the keeper of the windows of one task, over the state that the task has.

    allowed_us: how long windows are kept behind their end, for late rows. early: give results of open windows, too. With either, the
    results are `Revised`, and the keeper has `updates`.
    """
    if allowed_us or early:
        if isinstance(spec, Session):
            return RevisedSessionWindows(state, spec, aggregate, progress=progress, codec=codec, allowed_us=allowed_us, early=early)
        return RevisedTimeWindows(state, spec, aggregate, progress=progress, codec=codec, allowed_us=allowed_us, early=early)
    if isinstance(spec, Session):
        return SessionWindows(state, spec, aggregate, progress=progress, codec=codec)
    return TimeWindows(state, spec, aggregate, progress=progress, codec=codec)
