"""What a benchmark is: a child process, and the figures that its line of JSON holds."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.child import Child


@dataclass(frozen=True)
class Figure:
    """One number of a reading."""

    key: str
    label: str
    unit: str


@dataclass(frozen=True)
class Benchmark:
    """One thing that is measured by running its child again and again."""

    group: str
    name: str
    summary: str
    figures: tuple[Figure, ...]
    child: Callable[[bool], Child]
    """Called with True for a run that only shows that it works."""


NANOSECONDS = Figure("ns", "time per unit", "ns")
PER_SECOND = Figure("per_second", "rate", "/s")
