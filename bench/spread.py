"""Medians, spreads and ratios of repeated runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """The median of some runs, and the least and greatest of them."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Ratio:
    """How A compares with B over alternating pairs of runs."""

    of_medians: float
    pairwise: Spread


def spread(values: Sequence[float]) -> Spread:
    """Return median and range.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0, runs=3)
    """
    return Spread(median(values), min(values), max(values), len(values))


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return A over B; the i-th of both ran next to each other.

    >>> ratio([2.0, 4.0], [1.0, 2.0]).of_medians
    2.0
    """
    return Ratio(median(a) / median(b), spread([x / y for x, y in zip(a, b, strict=True)]))
