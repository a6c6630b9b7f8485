"""Snapshot of the watermarks of a run, and its entry in the run's snapshot (ET-6)."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, runtime_checkable

from engine.control import SnapshotEntry, json_number
from engine.event_time import END_OF_TIME, NO_WATERMARK, Mark
from engine.event_time.holder import time_text
from engine.metrics import Family
from engine.metrics.openmetrics import Measure

STANDS_SECS: Final = 5.0
"""A watermark that has not risen for this time stands, and the views say who holds it."""


@runtime_checkable
class KeepsWindows(Protocol):
    """A bolt with windows. The views show what it says of them."""

    open_windows: int
    """Sessions that are open, or panes of time windows that have rows."""
    late_rows: int
    """Rows that came when all their windows were closed."""


@dataclass(frozen=True, slots=True)
class TaskEventTime:
    """The watermark of one task."""

    task_id: int
    watermark: int | None
    """Microseconds since 1970. None: there is none yet, or it is at the end of time."""
    is_idle: bool
    held_rows: int = 0
    """Failed rows that hold it. 0 for a bolt."""
    open_windows: int | None = None
    """Sessions that are open, or panes of time windows that have rows. None: the task keeps no windows."""
    late_rows: int | None = None
    """Rows that came when all their windows were closed."""


@dataclass(frozen=True, slots=True)
class ComponentEventTime:
    """The watermark of one component: that of its slowest task."""

    component_id: str
    watermark: int | None
    """Microseconds since 1970. None: there is none yet, or it is at the end of time."""
    has_ended: bool
    """True at the end of time: the sources are exhausted, and all rows are settled."""
    is_idle: bool
    """True if all its tasks are idle, so nobody waits for them."""
    lag_secs: float | None
    """How far the watermark is behind the clock. None without a watermark."""
    stood_secs: float
    """Seconds since it has risen."""
    holder: str | None
    """Who holds it, and why. None at the end of time."""
    time: str | None
    """The watermark for a person, in UTC."""
    tasks: tuple[TaskEventTime, ...]

    @property
    def held_rows(self) -> int:
        """Failed rows that hold the watermark."""
        return sum(task.held_rows for task in self.tasks)

    @property
    def open_windows(self) -> int:
        """Windows that are open, as its tasks count them."""
        return sum(task.open_windows or 0 for task in self.tasks)

    @property
    def late_rows(self) -> int:
        """Rows that came when all their windows were closed."""
        return sum(task.late_rows or 0 for task in self.tasks)

    @property
    def stands(self) -> bool:
        """True if it has not risen for some seconds, and somebody waits for it."""
        return self.stood_secs >= STANDS_SECS and not self.has_ended and not self.is_idle


class EventTimeEntry(SnapshotEntry):
    """Watermarks in a snapshot: one ComponentEventTime for each component with a watermark."""

    name = "event_time"
    value: tuple[ComponentEventTime, ...]

    def __init__(self, value: tuple[ComponentEventTime, ...]) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return a list with the fields of each component."""
        return [{**asdict(each), "lag_secs": json_number(each.lag_secs), "stood_secs": json_number(each.stood_secs)} for each in self.value]

    @classmethod
    def from_json(cls, value: Any) -> "EventTimeEntry":
        """Return the entry of a result of `to_json`."""
        return cls(tuple(ComponentEventTime(**{**each, "tasks": tuple(TaskEventTime(**task) for task in each["tasks"])}) for each in value))

    def text(self) -> str | None:
        """Return the watermark that is farthest behind, who holds it if it stands, and how many windows are open and rows were late."""
        going_on = [each for each in self.value if not each.has_ended]
        if not going_on:
            return None
        standing = [each for each in going_on if each.stands]
        worst = max(standing or going_on, key=lambda each: (each.stood_secs if standing else 0.0, _behind(each)))
        about = f"event time {worst.component_id} {'has no watermark yet' if worst.time is None else worst.time}"
        if worst.lag_secs is not None:
            about += f" · {abs(worst.lag_secs):,.0f} s {'behind' if worst.lag_secs >= 0 else 'ahead of'} the clock"
        if opened := sum(each.open_windows for each in self.value):
            about += f" · {opened:,} windows open"
        if late := sum(each.late_rows for each in self.value):
            about += f" · {late:,} rows late"
        if worst.is_idle:
            return f"{about} · idle"
        return f"{about} · stands for {worst.stood_secs:,.0f} s: {worst.holder}" if worst.stands else about

    def families(self, topology_name: str) -> Iterator[Family]:
        """Yield the families of `stormcell_watermark_…`."""
        components = [({"topology": topology_name, "component": each.component_id}, each) for each in self.value]
        tasks = [({**labels, "task": str(task.task_id)}, task) for labels, each in components for task in each.tasks]
        yield from (measure.family("stormcell_watermark_", components) for measure in _OF_COMPONENTS)
        yield from (measure.family("stormcell_watermark_", tasks) for measure in _OF_TASKS)


def _behind(each: ComponentEventTime) -> float:
    return float("inf") if each.lag_secs is None else each.lag_secs


def of_component(
    component_id: str, tasks: Iterable[TaskEventTime], mark: Mark, *, stood_secs: float, holder: str | None, wall_us: int
) -> ComponentEventTime:
    """Return the watermark of a component. mark, holder: of its slowest task."""
    watermark = shown_watermark(mark)
    return ComponentEventTime(
        component_id=component_id,
        watermark=watermark,
        has_ended=mark.watermark == END_OF_TIME,
        is_idle=not mark.is_active,
        lag_secs=None if watermark is None else (wall_us - watermark) / 1_000_000,
        stood_secs=stood_secs,
        holder=holder,
        time=None if watermark is None else time_text(watermark, wall_us),
        tasks=tuple(tasks),
    )


def shown_watermark(mark: Mark) -> int | None:
    """Return the watermark of a mark. None: there is none yet, or it is at the end of time."""
    return None if mark.watermark in (NO_WATERMARK, END_OF_TIME) else mark.watermark


_OF_COMPONENTS: Final[tuple[Measure[ComponentEventTime], ...]] = (
    Measure("lag_seconds", "gauge", "seconds", "How far the watermark is behind the clock.", lambda each: each.lag_secs),
    Measure("stood_seconds", "gauge", "seconds", "Time since the watermark has risen.", lambda each: each.stood_secs),
    Measure("idle", "gauge", "", "1 if nobody waits for the component, because its sources are idle.", lambda each: each.is_idle),
    Measure("held_rows", "gauge", "rows", "Failed rows that hold the watermark.", lambda each: each.held_rows),
)
_OF_TASKS: Final[tuple[Measure[TaskEventTime], ...]] = (
    Measure(
        "timestamp_seconds",
        "gauge",
        "seconds",
        "The watermark of the task, in seconds since 1970.",
        lambda task: None if task.watermark is None else task.watermark / 1_000_000,
    ),
    Measure("open_windows", "gauge", "windows", "Sessions that are open, or panes of time windows.", lambda task: task.open_windows),
)
