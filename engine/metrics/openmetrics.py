"""Metric families, and their text in OpenMetrics 1.0, which Prometheus scrapes.

Families and samples are named tuples, because dataclasses would make the import of this module slower.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Content-Type of an HTTP response with this text."""

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

FamilyKind: TypeAlias = Literal["counter", "gauge", "histogram", "summary", "stateset"]
T = TypeVar("T")


class Sample(NamedTuple):
    """One value of a family. `suffix`, such as `_total` or `_bucket`, is appended to the family's name."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All samples of one metric. `unit` is the last word of the name (`seconds` of `busy_seconds`), or empty."""

    name: str
    kind: FamilyKind
    help: str
    samples: tuple[Sample, ...]
    unit: str = ""


class Measure(NamedTuple, Generic[T]):
    """A family with one sample for each object that has the value."""

    name: str
    kind: FamilyKind
    unit: str
    help: str
    read: Callable[[T], float | None]

    def family(self, prefix: str, objects: Iterable[tuple[Mapping[str, str], T]]) -> Family:
        """Return the family of these objects with their labels. Skip objects without the value."""
        suffix = "_total" if self.kind == "counter" else ""
        values = ((labels, self.read(each)) for labels, each in objects)
        samples = tuple(Sample(labels, value, suffix) for labels, value in values if value is not None)
        return Family(f"{prefix}{self.name}", self.kind, self.help, samples, self.unit)


def stateset(name: str, help: str, objects: Iterable[tuple[Mapping[str, str], str]], states: Iterable[str]) -> Family:
    """Return a StateSet family. The current state of each object has the value 1, and all other states have 0."""
    known = tuple(states)
    samples = (Sample({**labels, name: state}, float(state == now)) for labels, now in objects for state in known)
    return Family(name, "stateset", help, tuple(samples))


def secs_of_ms(ms: float | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if ms is None else ms / 1000


def render(families: Iterable[Family]) -> str:
    """Return the text of the families, in their order, with `# EOF` at the end. Skip families without samples.

    >>> print(render([Family("words", "counter", "Words seen.", (Sample({"task": "3"}, 7, "_total"),))]), end="")
    # TYPE words counter
    # HELP words Words seen.
    words_total{task="3"} 7
    # EOF
    """
    lines = [line for family in families if family.samples for line in _lines(family)]
    return "\n".join([*lines, "# EOF", ""])


def number_text(value: float) -> str:
    """Return a number in the format of OpenMetrics: `7`, `0.25`, `1e+30`, `+Inf`, `NaN`."""
    try:
        number = float(value)
    except OverflowError:  # a counter may hold an int that no float can hold
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _lines(family: Family) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {family.help.translate(_ESCAPES)}"
    for sample in family.samples:
        yield _sample(family.name, sample)


def _sample(name: str, sample: Sample) -> str:
    return f"{name}{sample.suffix}{_labels(sample.labels)} {number_text(sample.value)}"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels.items()) + "}"
