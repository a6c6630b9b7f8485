"""Decides who holds a watermark: the task and the reason for which W does not rise (ET-1, ET-3). Plain computation."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from engine.event_time.instants import datetime_of
from engine.event_time.source_clock import PartitionView, SourceClock
from engine.event_time.watermark import END_OF_TIME, NO_WATERMARK, Mark, holders_of
from engine.safe_text import safe_repr

DAY_US: Final = 86_400_000_000
LONGEST_NAME: Final = 60


class TaskView(NamedTuple):
    """One task, as far as its watermark is concerned."""

    name: str
    sent: Mark
    """The last mark that it has sent to the tasks behind."""
    why: str
    """Reason for which a source stands, or what is in front of the marks that a bolt has not acted on yet."""
    arrived: Mapping[int, Mark] = MappingProxyType({})
    """The marks that the task has noted, by source task. Empty for a source."""
    owes: bool = False
    """True if the task has noted a watermark that it has not passed on."""


class Holders:
    """The holders of all tasks at one moment. Each task is looked at once."""

    def __init__(self, view_of: Callable[[int], TaskView]) -> None:
        self._make_view = view_of
        self._views: dict[int, TaskView] = {}
        self._known: dict[int, str | None] = {}

    def view_of(self, task: int) -> TaskView:
        """Return the view of a task."""
        view = self._views.get(task)
        if view is None:
            view = self._views[task] = self._make_view(task)
        return view

    def holder(self, task: int) -> str | None:
        """Return who holds the watermark of a task, and why. None: the watermark is at the end of time."""
        path: list[int] = []
        while task not in self._known:
            path.append(task)
            step = self._step(task)
            if not isinstance(step, int):
                self._known[task] = step
                break
            task = step
        found = self._known[task]
        self._known.update(dict.fromkeys(path, found))
        return found

    def _step(self, task: int) -> int | str | None:
        """Return the task in front that holds this one, or the reason if the task itself holds."""
        view = self.view_of(task)
        if view.sent.watermark == END_OF_TIME:
            return None
        here = f"{view.name}: {view.why}"
        if not view.arrived or view.owes:
            return here
        in_front = holders_of(view.arrived)
        if any(self.view_of(source).sent != view.arrived[source] for source in in_front):
            return here
        return in_front[0] if in_front else None


def source_reason(
    clock: SourceClock, now: float, wall_us: int, oldest_open: float | None, is_open: Callable[[int], bool], owing: str | None
) -> str:
    """Return the reason for which the watermark of a source task stands.

    now: of the run's clock. oldest_open, is_open: as for `SourceClock.take_due`. owing: the bolt task with the oldest unsettled input.
    """
    if not clock.has_records or not clock.settings.wait_for_acks:
        return _partitions_reason(clock, now, wall_us)
    held = clock.oldest_held()
    if held is not None and (oldest_open is None or held[1].emitted_at <= oldest_open):
        key, row = held
        left = max(clock.settings.hold_secs - (now - row.failed_at), 0.0)
        does = "was sent again, and is not acked" if row.root and is_open(row.root) else "waits to be sent again"
        return f"row {_short(key)} has failed, and {does} (W passes it in {left:.0f} s)"
    if oldest_open is None:
        return "its rows are settled, and the watermark is about to leave"
    longest = "" if owing is None else f"; the oldest input that is not settled is at {owing}"
    return f"a row of {now - oldest_open:.0f} s ago is not acked{longest}"


def _partitions_reason(clock: SourceClock, now: float, wall_us: int) -> str:
    partitions = clock.partitions
    if not partitions:
        return "no partition is assigned to it"
    active = {name: view for name, view in partitions.items() if not clock.is_idle(now, name)}
    if not active:
        return "idle, because it is read to its end" if _are_known(partitions.values()) else "idle, because it has had no row for a while"
    name, slowest = min(active.items(), key=lambda item: item[1].greatest)
    if not slowest.is_known:
        return "its partitions are not known yet"
    who = "the source" if name is None else f"partition {_short(name)}"
    has = "has had no row" if slowest.greatest == NO_WATERMARK else f"has come to {time_text(slowest.greatest, wall_us)}"
    furthest = max(view.greatest for view in partitions.values())
    others = f", while others have come to {time_text(furthest, wall_us)}" if furthest > slowest.greatest else ""
    idle_in = clock.idle_in(now, name)
    end = ", and is not read to its end" if idle_in is None else f", and is idle in {idle_in:.0f} s"
    return f"{who} {has}{others}{end}"


def _are_known(views: Iterable[PartitionView]) -> bool:
    return all(view.caught_up for view in views)


def _short(value: object) -> str:
    return safe_repr(value, LONGEST_NAME)


def time_text(micros: int, wall_us: int) -> str:
    """Return a time in UTC. The date is left out if it is that of the clock.

    >>> time_text(43_385_000_000, 50_000_000_000), time_text(43_385_000_000, 10**15)
    ('12:03:05', '1970-01-01 12:03:05')
    """
    time = datetime_of(micros)
    return f"{time:%H:%M:%S}" if micros // DAY_US == wall_us // DAY_US else f"{time:%Y-%m-%d %H:%M:%S}"
