"""The metrics that a user's components keep: `self.context.counter(name)`, `gauge(name)`, `histogram(name)`.

They belong to a run and a task, not to an instance: a task that is restarted goes on counting.
"""

import re
import sys
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from engine.errors import UsageError
from engine.metrics.value_histogram import Distribution, ValueHistogram

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]

ENGINE_PREFIX: Final = "stormcell_"
"""How the engine's own families begin; no user's may."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
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
        number = None
        if not isinstance(cast(object, value), (str, bytes)):  # which float() would read
            with suppress(TypeError, ValueError, OverflowError):
                number = float(value)
        if number is None:
            raise UsageError(f"a gauge cannot be set to {value!r}", hint="Set a number.")
        self.value = number

    def read(self) -> float:
        """Return the value."""
        return self.value


class UserMetric(NamedTuple):
    """One metric of one task at one moment; a histogram's value is a `Distribution`."""

    name: str
    kind: MetricKind
    labels: TaskLabels
    value: float | Distribution


class UserMetrics:
    """All metrics of the users of one run. They are as many as the names that the components use, times their tasks."""

    def __init__(self) -> None:
        self._kinds: dict[str, MetricKind] = {}
        self._taken: dict[str, str] = {}
        """Every name that the export gives to a sample or a family, and whose it is."""
        self._metrics: dict[tuple[str, TaskLabels], Any] = {}

    def counter(self, name: str, labels: TaskLabels) -> Counter:
        """Return the task's counter of this name, made at the first call; UsageError for a name that cannot be."""
        found: Counter = self._metric(name, "counter", labels, Counter)
        return found

    def gauge(self, name: str, labels: TaskLabels) -> Gauge:
        """Return the task's gauge of this name, made at the first call; UsageError for a name that cannot be."""
        found: Gauge = self._metric(name, "gauge", labels, Gauge)
        return found

    def histogram(self, name: str, labels: TaskLabels) -> ValueHistogram:
        """Return the task's histogram of this name, made at the first call; UsageError for a name that cannot be."""
        found: ValueHistogram = self._metric(name, "histogram", labels, ValueHistogram)
        return found

    def read(self) -> tuple[UserMetric, ...]:
        """Return every metric as it is now, by name and then by task."""
        found = sorted(self._metrics.items(), key=lambda item: (item[0][0], item[0][1].task_id))
        return tuple(UserMetric(name, self._kinds[name], labels, metric.read()) for (name, labels), metric in found)

    def _metric(self, name: str, kind: MetricKind, labels: TaskLabels, make: type) -> Any:
        key = (name, labels)
        if self._kinds.get(name) != kind:
            self._register(name, kind)
        metric = self._metrics.get(key)
        return self._metrics.setdefault(key, make()) if metric is None else metric

    def _register(self, name: str, kind: MetricKind) -> None:
        """Note a new name, after judging it."""
        _check_spelling(name, kind)
        if name.startswith(ENGINE_PREFIX):
            raise UsageError(f"{kind} {name!r}: names that begin with {ENGINE_PREFIX!r} are the engine's own", hint="Leave the prefix out.")
        if name in self._kinds:
            other = self._kinds[name]
            raise UsageError(f"{name!r} is a {other} already, and cannot be a {kind} too", hint=f"Give the {kind} another name.")
        if kind == "counter" and name.endswith("_total"):
            plain = name.removesuffix("_total") or "items"
            raise UsageError(f"counter {name!r}: '_total' is added to a counter's name where it is exported", hint=f"Write {plain!r}.")
        exported = [name, *(name + suffix for suffix in _SUFFIXES[kind])]
        for one in exported:
            if one in self._taken:
                hint = "Give one of the two another name."
                raise UsageError(f"{kind} {name!r} and {self._taken[one]} would both be exported as {one!r}", hint=hint)
        self._kinds[name] = kind
        self._taken |= dict.fromkeys(exported, f"{kind} {name!r}")


def _check_spelling(name: object, kind: MetricKind) -> None:
    if not isinstance(name, str):
        raise UsageError(f"the name of a {kind} must be a text, not {name!r}", hint=f"Write {kind}('words_seen').")
    if not _NAME.fullmatch(name):
        plain = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_") or "words_seen"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        raise UsageError(f"{kind} {name!r}: a name has letters, digits and '_' only, and no digit first", hint=f"Write {plain!r}.")
