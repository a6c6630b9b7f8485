"""Metrics that user code makes by `self.context.counter(name, **labels)`, `gauge(...)` and `histogram(...)`.

The metrics belong to a task, not to an instance, so a restarted task continues its counts.
"""

import math
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from engine.errors import UsageError
from engine.metrics.value_histogram import Distribution, ValueHistogram, measured_number
from engine.names import is_writable, plain_text
from engine.safe_text import safe_repr, safe_str

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]

ENGINE_PREFIX: Final = "stormcell_"
"""Prefix of the engine's own metrics. Metrics of user code must not have it."""

ENGINE_LABELS: Final = frozenset({"topology", "component", "task", "le", "quantile"})
"""Labels that the export adds. Metrics of user code must not have them."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SUFFIXES: Final[dict[MetricKind, tuple[str, ...]]] = {
    "counter": ("_total",),
    "gauge": (),
    "histogram": ("_bucket", "_count", "_sum"),
}


class TaskLabels(NamedTuple):
    """Labels of the task that owns a metric."""

    component_id: str
    task_id: int


class Counter:
    """A count that only grows. Several threads may call `add`, because the GIL keeps its addition atomic."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1, /) -> None:
        """Add `amount` to the count. Raises UsageError unless it is a finite number of at least 0."""
        number = amount if type(amount) is int else measured_number(amount)  # saves a call, because many bolts count each tuple
        if number is None or not 0 <= number <= sys.float_info.max:
            raise UsageError(f"a counter cannot add {safe_repr(amount)}", hint="Add a finite number of at least 0, or use a gauge.")
        try:
            self.value += number
        except OverflowError:  # an int that no float can hold, and a fraction
            self.value = math.inf

    def read(self) -> float:
        """Return the count."""
        return self.value

    def take(self) -> float:
        """Return the count since the last `take`, for the metrics of another process."""
        taken = self.value
        if math.isinf(taken):  # too large for a float, and infinity less infinity would be no number
            self.value = 0
        else:
            self.value -= taken  # another thread may have added to it meanwhile
        return taken

    def merge(self, taken: float) -> None:
        """Add what a counter of another process returned from `take`."""
        try:
            self.value += taken
        except OverflowError:
            self.value = math.inf


class Gauge:
    """A value that goes up and down, and is 0 before the first `set`."""

    __slots__ = ("_taken", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self._taken: float | None = None

    def set(self, value: float, /) -> None:
        """Replace the value. Raises UsageError unless it is a number."""
        number = measured_number(value)
        try:
            self.value = float(number)  # type: ignore[arg-type]
        except (TypeError, OverflowError):  # it is no number, or too large for a float
            raise UsageError(f"a gauge cannot be set to {safe_repr(value)}", hint="Set it to a number.") from None

    def read(self) -> float:
        """Return the value."""
        return self.value

    def take(self) -> float | None:
        """Return the value if it has changed since the last `take`, else None."""
        value = self.value
        if value == self._taken:
            return None
        self._taken = value
        return value

    def merge(self, taken: float | None) -> None:
        """Set what a gauge of another process returned from `take`."""
        if taken is not None:
            self.value = taken


class UserMetric(NamedTuple):
    """One metric of one task at one moment. The value of a histogram is a `Distribution`."""

    name: str
    kind: MetricKind
    labels: TaskLabels
    value: float | Distribution
    own_labels: Mapping[str, str]
    """Labels that the component gave to the metric, such as the partition.

    All metrics of one name have the same labels, in the same order.
    """


class MetricChange(NamedTuple):
    """Change of one metric in another process. `taken` is the result of the metric's `take`."""

    name: str
    kind: MetricKind
    labels: dict[str, str]
    taken: Any


_CLASSES: Final[dict[MetricKind, type[Any]]] = {"counter": Counter, "gauge": Gauge, "histogram": ValueHistogram}


class _Declared(NamedTuple):
    """Kind and labels of a name, as the first use of the name declares them."""

    number: int
    """Number of names declared before."""
    name: str
    kind: MetricKind
    label_names: tuple[str, ...]


class UserMetrics:
    """All metrics of user code in one run.

    The number of metrics is bounded only by the names, label values and tasks that the components use. `drop_metric` removes metrics. The
    first use of a name fixes its kind and its label names for the whole run.
    """

    def __init__(self) -> None:
        self._declared: dict[str, _Declared] = {}
        self._exported: dict[str, str] = {}
        """The metric of each name that the export uses for a family or a sample."""
        self._metrics: dict[tuple[str, TaskLabels, tuple[str, ...]], Any] = {}
        """Metrics by name, task, and the values of their own labels in the declared order."""
        self._shown: set[tuple[str, TaskLabels, tuple[str, ...]]] = set()
        """Metrics that `take_changes` has returned at least once."""

    def counter(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> Counter:
        """Return the task's counter with this name and labels. The first call creates it. Raises UsageError for a wrong name or label."""
        found: Counter = self._metric(name, "counter", task, labels, Counter)
        return found

    def gauge(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> Gauge:
        """Return the task's gauge with this name and labels. The first call creates it. Raises UsageError for a wrong name or label."""
        found: Gauge = self._metric(name, "gauge", task, labels, Gauge)
        return found

    def histogram(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> ValueHistogram:
        """Return the task's histogram with this name and labels. The first call creates it. Raises UsageError for a wrong name or label."""
        found: ValueHistogram = self._metric(name, "histogram", task, labels, ValueHistogram)
        return found

    def drop_metric(self, name: str, task: TaskLabels, labels: Mapping[str, str]) -> None:
        """Remove the task's metrics with this name and these labels. No effect if there are none.

        Works like `remove` and `remove_by_labels` of prometheus_client. Raises UsageError for labels that this name does not have.
        """
        if not isinstance(cast(object, name), str):
            text = f"drop_metric() needs the name of a metric, not {safe_repr(name)}"
            raise UsageError(text, hint="Write drop_metric('lag', partition='3').")
        declared = self._declared.get(name)
        if declared is None:
            return
        if not labels.keys() <= set(declared.label_names):
            raise _other_labels(name, declared, labels)
        _check_label_values(labels, f"{declared.kind} {name!r}")
        if len(labels) == len(declared.label_names):
            self._metrics.pop((name, task, _values(declared, labels)), None)
            return
        wanted = [(declared.label_names.index(label), value) for label, value in labels.items()]
        for key in list(self._metrics):
            if key[0] == name and key[1] == task and all(key[2][place] == value for place, value in wanted):
                self._metrics.pop(key, None)

    def read(self) -> tuple[UserMetric, ...]:
        """Return the current metrics. The metrics are sorted by the first use of their names, then by task, then by labels."""
        declared = self._declared
        found = sorted(self._metrics.items(), key=lambda item: (declared[item[0][0]].number, item[0][1].task_id, item[0][2]))
        return tuple(
            UserMetric(name, declared[name].kind, task, metric.read(), dict(zip(declared[name].label_names, values, strict=True)))
            for (name, task, values), metric in found
        )

    def take_changes(self) -> list["MetricChange"]:
        """Return what has changed since the last call, for `apply_changes` in another process. Each metric is in the first result."""
        changes = []
        for key, metric in list(self._metrics.items()):
            taken = metric.take()
            if taken or (taken is not None and key not in self._shown):
                declared = self._declared[key[0]]
                changes.append(MetricChange(key[0], declared.kind, dict(zip(declared.label_names, key[2], strict=True)), taken))
        self._shown = set(self._metrics)
        return changes

    def apply_changes(self, task: TaskLabels, changes: Iterable["MetricChange"]) -> None:
        """Apply the changes of a task in another process. Raises UsageError for a name that another component uses differently."""
        for change in changes:
            self._metric(change.name, change.kind, task, change.labels, _CLASSES[change.kind]).merge(change.taken)

    def _metric(self, name: str, kind: MetricKind, task: TaskLabels, labels: Mapping[str, str], make: type) -> Any:
        if not labels and isinstance(name, str):  # fast path: components that ask for the metric for each tuple
            known = self._metrics.get((name, task, ()))
            if known.__class__ is make:
                return known
        declared = self._declared.get(name) if isinstance(cast(object, name), str) else None
        if declared is None or declared.kind != kind:
            declared = self._declare(name, kind, labels)
        if labels or declared.label_names:
            if labels.keys() != set(declared.label_names):
                raise _other_labels(name, declared, labels)
            _check_label_values(labels, f"{kind} {name!r}")
        key = (declared.name, task, _values(declared, labels))
        metric = self._metrics.get(key)
        return self._metrics.setdefault(key, make()) if metric is None else metric

    def _declare(self, name: str, kind: MetricKind, labels: Mapping[str, str]) -> _Declared:
        """Check and store a new name and its labels."""
        _check_name(name, kind)
        name = plain_text(name)
        metric = f"{kind} {name!r}"
        known = self._declared.get(name)
        if known is not None and known.kind != kind:
            raise UsageError(f"{name!r} is a {known.kind} already, so it cannot be a {kind}", hint=f"Give the {kind} another name.")
        _check_label_names(labels, metric)
        _check_label_values(labels, metric)
        exported = [name, *(name + suffix for suffix in _SUFFIXES[kind])]
        for one in exported:
            if self._exported.get(one, metric) != metric:
                hint = "Rename one of them."
                raise UsageError(f"{metric} and {self._exported[one]} would both be exported as {one!r}", hint=hint)
        self._exported |= dict.fromkeys(exported, metric)
        return self._declared.setdefault(name, _Declared(len(self._declared), name, kind, tuple(map(plain_text, labels))))


def _values(declared: _Declared, labels: Mapping[str, str]) -> tuple[str, ...]:
    values = [labels[name] for name in declared.label_names]
    return tuple([value if type(value) is str else plain_text(value) for value in values])


def _other_labels(name: str, declared: _Declared, given: Iterable[str]) -> UsageError:
    text = f"{declared.kind} {name!r} has {_listed(declared.label_names)}, but was called with {_listed(tuple(given))}"
    return UsageError(text, hint="All metrics of one name have the same labels. Use these labels, or another name.")


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return "no labels"
    return f"the label{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


# Names and labels that OpenMetrics can write and Prometheus can tell apart.


def _check_name(name: object, kind: MetricKind) -> None:
    """Raise UsageError for a name that cannot be exported."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a {kind} must be a string, not {safe_repr(name)}", hint=f"Write {kind}('words_seen').")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{kind} {name!r}: a name consists of letters, digits and '_', and does not begin with a digit",
            hint=f"Write {_exportable(name, 'words_seen')!r}.",
        )
    if name.startswith(ENGINE_PREFIX):
        raise UsageError(f"{kind} {name!r}: the prefix {ENGINE_PREFIX!r} is reserved for the engine", hint="Remove the prefix.")
    if kind == "counter" and name.endswith("_total"):
        plain = name.removesuffix("_total") or "items"
        raise UsageError(f"counter {name!r}: the export appends '_total' to the name of a counter", hint=f"Write {plain!r}.")


def _check_label_names(names: Iterable[str], metric: str) -> None:
    """Raise UsageError for a label that cannot be exported. `metric` is named in the error."""
    for name in names:
        if not _NAME.fullmatch(name):
            text = f"{metric}: the label {name!r} must consist of letters, digits and '_', and not begin with a digit"
            raise UsageError(text, hint=f"Write {_exportable(name, 'queue')!r}.")
        if name.startswith("__"):
            raise UsageError(f"{metric}: the label {name!r} begins with '__', which is reserved for Prometheus", hint="Remove the prefix.")
        if name in ENGINE_LABELS:
            raise UsageError(
                f"{metric}: the label {name!r} is reserved for the engine", hint=f"Give the label another name, such as 'the_{name}'."
            )


def _check_label_values(labels: Mapping[str, str], metric: str) -> None:
    """Raise UsageError for a value that is not a string, or that UTF-8 cannot encode."""
    for name, value in labels.items():
        if not isinstance(cast(object, value), str):
            hint = f"Write {name}='{safe_str(value)}'." if isinstance(cast(object, value), int) else "Pass a string."
            raise UsageError(f"{metric}: the label {name!r} must be a string, not {safe_repr(value)}", hint=hint)
        if not is_writable(value):
            raise UsageError(f"{metric}: the label {name!r} is {value!r}, which UTF-8 cannot encode", hint="Replace the lone surrogate.")


def _exportable(name: str, otherwise: str) -> str:
    """Return the nearest name that can be exported."""
    plain = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_") or otherwise
    return f"_{plain}" if plain[0].isdigit() else plain
