"""The metrics that a user's components keep: `self.context.counter(name, **labels)`, `gauge(...)`, `histogram(...)`.

They belong to a run and a task, not to an instance: a task that is restarted goes on counting.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from engine.errors import UsageError
from engine.metrics.metric_names import MetricKind, check_label_names, check_label_values, check_name
from engine.metrics.value_histogram import Distribution, ValueHistogram

_SUFFIXES: Final[dict[MetricKind, tuple[str, ...]]] = {
    "counter": ("_total",),
    "gauge": (),
    "histogram": ("_bucket", "_count", "_sum"),
}


class TaskLabels(NamedTuple):
    """Whose metric it is."""

    component_id: str
    task_id: int


class Counter:
    """A count that only grows. `add` may come from several threads: the GIL keeps its one addition whole."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1, /) -> None:
        """Count `amount` more; UsageError for less than nothing, or for what is no finite number."""
        try:
            fits = 0 <= amount <= sys.float_info.max
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise UsageError(f"a counter cannot count {amount!r} more", hint="Add what is 0 or more, or use a gauge.")
        self.value += amount

    def read(self) -> float:
        """Return the count."""
        return self.value


class Gauge:
    """A value that goes up and down; 0 before the first `set`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float, /) -> None:
        """Replace the value; UsageError for what is no number."""
        try:
            if isinstance(cast(object, value), (str, bytes)):
                raise TypeError  # float() would read it
            self.value = float(value)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"a gauge cannot be set to {value!r}", hint="Set a number.") from None

    def read(self) -> float:
        """Return the value."""
        return self.value


class UserMetric(NamedTuple):
    """One metric of one task at one moment; a histogram's value is a `Distribution`."""

    name: str
    kind: MetricKind
    labels: TaskLabels
    value: float | Distribution
    own_labels: Mapping[str, str]
    """Those that the component gave it, such as the partition; of one name they are always the same ones, in the same order."""


class _Declared(NamedTuple):
    """What the first use of a name settles for all others."""

    number: int
    """How many names there were before."""
    kind: MetricKind
    label_names: tuple[str, ...]


class UserMetrics:
    """All metrics of the users of one run.

    They are as many as the names that the components use, times the labels given to each, times the tasks that do; what a
    task drops is gone. A name and its label names are settled by the first use for the whole run.
    """

    def __init__(self) -> None:
        self._declared: dict[str, _Declared] = {}
        self._taken: dict[str, str] = {}
        """Every name that the export gives to a sample or a family, and whose it is."""
        self._metrics: dict[tuple[str, TaskLabels, tuple[str, ...]], Any] = {}
        """By name, task, and the values of the own labels in the order of the declared names."""

    def counter(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> Counter:
        """Return the task's counter of this name and labels, made at the first call; UsageError for what cannot be."""
        found: Counter = self._metric(name, "counter", task, labels, Counter)
        return found

    def gauge(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> Gauge:
        """Return the task's gauge of this name and labels, made at the first call; UsageError for what cannot be."""
        found: Gauge = self._metric(name, "gauge", task, labels, Gauge)
        return found

    def histogram(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> ValueHistogram:
        """Return the task's histogram of this name and labels, made at the first call; UsageError for what cannot be."""
        found: ValueHistogram = self._metric(name, "histogram", task, labels, ValueHistogram)
        return found

    def drop(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> None:
        """Forget the task's metrics of this name that have these labels; there may be none.

        As `remove` and `remove_by_labels` of prometheus_client. UsageError for labels that no metric of this name has.
        """
        if not isinstance(cast(object, name), str):
            text = f"drop_metric() was given {name!r}, which is no name of a metric"
            raise UsageError(text, hint="Give it the name, and the labels by keyword: drop_metric('lag', partition='3').")
        declared = self._declared.get(name)
        if declared is None:
            return
        if not labels.keys() <= set(declared.label_names):
            raise _other_labels(name, declared, labels)
        check_label_values(labels, f"{declared.kind} {name!r}")
        if len(labels) == len(declared.label_names):
            self._metrics.pop((name, task, _values(declared, labels)), None)
            return
        wanted = [(declared.label_names.index(label), value) for label, value in labels.items()]
        for key in list(self._metrics):
            if key[0] == name and key[1] == task and all(key[2][place] == value for place, value in wanted):
                self._metrics.pop(key, None)

    def read(self) -> tuple[UserMetric, ...]:
        """Return every metric as it is now: by name in the order of their first use, then by task, then by its labels."""
        declared = self._declared
        found = sorted(self._metrics.items(), key=lambda item: (declared[item[0][0]].number, item[0][1].task_id, item[0][2]))
        return tuple(
            UserMetric(name, declared[name].kind, task, metric.read(), dict(zip(declared[name].label_names, values, strict=True)))
            for (name, task, values), metric in found
        )

    def _metric(self, name: str, kind: MetricKind, task: TaskLabels, labels: Mapping[str, str], make: type) -> Any:
        if not labels and isinstance(name, str):  # the way of those who ask anew for each tuple
            known = self._metrics.get((name, task, ()))
            if known.__class__ is make:
                return known
        declared = self._declared.get(name) if isinstance(cast(object, name), str) else None
        if declared is None or declared.kind != kind:
            declared = self._declare(name, kind, labels)
        if labels or declared.label_names:
            if labels.keys() != set(declared.label_names):
                raise _other_labels(name, declared, labels)
            check_label_values(labels, f"{kind} {name!r}")
        key = (name, task, _values(declared, labels))
        metric = self._metrics.get(key)
        return self._metrics.setdefault(key, make()) if metric is None else metric

    def _declare(self, name: str, kind: MetricKind, labels: Mapping[str, str]) -> _Declared:
        """Note a new name, after judging it and its labels."""
        check_name(name, kind)
        metric = f"{kind} {name!r}"
        known = self._declared.get(name)
        if known is not None and known.kind != kind:
            raise UsageError(f"{name!r} is a {known.kind} already, and cannot be a {kind} too", hint=f"Give the {kind} another name.")
        check_label_names(labels, metric)
        check_label_values(labels, metric)
        exported = [name, *(name + suffix for suffix in _SUFFIXES[kind])]
        for one in exported:
            if self._taken.get(one, metric) != metric:
                hint = "Give one of the two another name."
                raise UsageError(f"{metric} and {self._taken[one]} would both be exported as {one!r}", hint=hint)
        self._taken |= dict.fromkeys(exported, metric)
        return self._declared.setdefault(name, _Declared(len(self._declared), kind, tuple(labels)))


def _values(declared: _Declared, labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple([labels[name] for name in declared.label_names])


def _other_labels(name: str, declared: _Declared, given: Iterable[str]) -> UsageError:
    text = f"{declared.kind} {name!r} has {_listed(declared.label_names)}, and was given {_listed(tuple(given))}"
    return UsageError(text, hint="All metrics of one name have the same labels: give these, or take another name.")


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return "no labels"
    return f"the label{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
