"""Reads a snapshot back from the dict of `Snapshot.to_dict`, to show a run that is in another process.

Reads what the views of the command line show. Fields that this version does not know are left out. Missing ones have their default.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

from engine.control import SnapshotEntry
from engine.metrics import Distribution, TaskLabels, UserMetric
from engine.runtime.error_report import ErrorReport
from engine.runtime.failure_snapshot import FailureSnapshot
from engine.runtime.snapshot import ComponentSnapshot, EdgeSnapshot, Snapshot, TaskSnapshot
from engine.undone import Undone
from engine.waits import LongWait

_T = TypeVar("_T")
_NUMBERS: Final = frozenset({"inf", "-inf", "nan"})
"""Texts that `to_dict` writes for numbers that JSON does not have."""


@dataclass(frozen=True, slots=True)
class _UnknownEntry(SnapshotEntry):
    """Entry of a feature that is not known here. Keeps its JSON, and the line that the feature has written for the views."""

    name: str
    value: Any
    line: str | None

    def to_json(self) -> Any:
        return self.value

    def text(self) -> str | None:
        return self.line


def snapshot_from_dict(values: Mapping[str, Any], entries: Iterable[type[SnapshotEntry]] = ()) -> Snapshot:
    """Return the snapshot of a result of `Snapshot.to_dict`. Raise ValueError if it is none.

    entries: classes of the features' entries. Entries of other features keep their JSON as their value, and their line.
    """
    try:
        return Snapshot(
            topology_name=values["topology"],
            state=values["state"],
            uptime_secs=values["uptime_secs"],
            components={component_id: _component(component_id, each) for component_id, each in values["components"].items()},
            errors=tuple(map(_error, values["errors"])),
            user_metrics=tuple(map(_metric, values["user_metrics"])),
            edges=tuple(_known(EdgeSnapshot, each) for each in values.get("edges", ())),
            failures=tuple(_failure(each) for each in values.get("failures", ())),
            loop_cpu_secs=values.get("loop_cpu_secs"),
            undone=None if values.get("undone") is None else _known(Undone, values["undone"]),
            entries=tuple(_entries(values, entries)),
            waits=tuple(_known(LongWait, each) for each in values.get("waits", ())),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the values are no snapshot: {type(error).__name__}: {error}") from error


_OWN_KEYS: Final = frozenset(
    {
        *("topology", "state", "uptime_secs", "components", "errors", "user_metrics"),
        *("edges", "failures", "loop_cpu_secs", "undone", "waits", "texts"),
    }
)


def _entries(values: Mapping[str, Any], kinds: Iterable[type[SnapshotEntry]]) -> Iterable[SnapshotEntry]:
    by_name, texts = {kind.name: kind for kind in kinds}, values.get("texts", {})
    for name, value in values.items():
        if name not in _OWN_KEYS:
            yield by_name[name].from_json(value) if name in by_name else _UnknownEntry(name, value, texts.get(name))


def _component(component_id: str, values: Mapping[str, Any]) -> ComponentSnapshot:
    tasks = tuple(_known(TaskSnapshot, task) for task in values["tasks"])
    return ComponentSnapshot(component_id, values["kind"], tasks, values.get("complete_p50_ms"), values.get("complete_p99_ms"))


def _known(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """Return an object of a dataclass. Fields that it does not have are left out. Fields may be dataclasses themselves."""
    types = _field_types(cast(Any, kind))
    return kind(**{name: _field_value(types[name], value) for name, value in values.items() if name in types})


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind)}


def _field_value(annotation: Any, value: Any) -> Any:
    """Return the value of a field from its JSON."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Mapping):
        nested = next((each for each in (annotation, *get_args(annotation)) if is_dataclass(each)), None)
        return value if nested is None else _known(cast(Any, nested), value)
    return value if annotation is str else _number(value)  # a component may have the name "inf"


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and value in _NUMBERS else value


def _error(values: Mapping[str, Any]) -> ErrorReport:
    return ErrorReport(
        component_id=values["component"],
        task_id=values["task"],
        wall=datetime.fromisoformat(values["time"]).timestamp(),
        text=values["error"],
        tuple_text=values["tuple"],
        traceback=values["traceback"],
        next_step=values["next_step"],
    )


def _failure(values: Mapping[str, Any]) -> FailureSnapshot:
    return FailureSnapshot(
        wall=datetime.fromisoformat(values["time"]).timestamp(),
        component_id=values["component"],
        task_id=values["task"],
        message_id=values["message_id"],
        reason=values["reason"],
        failed_component=values["failed_component"],
        failed_task=values["failed_task"],
        error=values["error"],
    )


def _metric(values: Mapping[str, Any]) -> UserMetric:
    """Return a user metric. A histogram has no buckets, because `to_dict` leaves them out."""
    value: float | Distribution
    if "value" in values:
        value = _number(values["value"])
    else:
        shown = {name: _number(values[name]) for name in ("count", "total", "minimum", "maximum", "p50", "p99")}
        value = Distribution(**shown, doublings=())
    return UserMetric(values["name"], values["kind"], TaskLabels(values["component"], values["task"]), value, values["labels"])
