"""A distribution of any numbers, in logarithmic buckets: eight to each doubling, so a quantile is within 1/8 of the truth.

A value v > 0 is `fraction · 2^exponent` with fraction in (1/2, 1], which eight buckets share evenly; their edges are
exact in a float. A negative value is kept in the bucket of its mirror image, zero by itself. So there are at most
34,000 buckets, of which only those that hold something take memory.
"""

import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from engine.errors import UsageError

_PARTS: Final = 8
"""Buckets to a doubling."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram held at one moment; the quantiles and extremes are None where it held nothing."""

    count: int
    total: float
    minimum: float | None
    maximum: float | None
    p50: float | None
    p99: float | None
    doublings: tuple[tuple[float, int], ...]
    """(edge, number of values at or below it) at the powers of two around the values, ascending."""


class ValueHistogram:
    """Counts values. `record` may come from several threads: each step of it is one bytecode that the GIL keeps whole."""

    __slots__ = ("_above", "_below", "_maximum", "_minimum", "_total", "_zeros")

    def __init__(self) -> None:
        self._above: defaultdict[int, int] = defaultdict(int)
        self._below: defaultdict[int, int] = defaultdict(int)
        self._zeros = 0
        self._total = 0.0
        self._minimum = math.inf
        self._maximum = -math.inf

    def record(self, value: float, /) -> None:
        """Count one value; UsageError for what is no finite number."""
        try:
            fits = -sys.float_info.max <= value <= sys.float_info.max
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise UsageError(f"a histogram cannot record {value!r}", hint="Record finite numbers only.")
        value = float(value)
        if value > 0:
            self._above[_bucket(value)] += 1
        elif value < 0:
            self._below[_mirrored_bucket(-value)] += 1
        else:
            self._zeros += 1
        self._total += value
        if value < self._minimum:
            self._minimum = value
        if value > self._maximum:
            self._maximum = value

    def read(self) -> Distribution:
        """Return what is held now."""
        below = sorted(self._below.items(), reverse=True)  # sorted() copies in one step, whatever other threads record
        counts = [(-_lower_edge(bucket), count) for bucket, count in below]
        counts += [(0.0, self._zeros)] if self._zeros else []
        counts += [(_upper_edge(bucket), count) for bucket, count in sorted(self._above.items())]
        number = sum(count for _, count in counts)
        if not number:
            return Distribution(0, 0.0, None, None, None, None, ())
        low, high = self._minimum, self._maximum
        p50, p99 = (min(max(_quantile(counts, share * number), low), high) for share in (0.5, 0.99))
        return Distribution(number, self._total, low, high, p50, p99, _doublings(counts))


def _bucket(value: float) -> int:
    """Return the bucket of a positive value; buckets hold their upper edge."""
    fraction, exponent = math.frexp(value)
    return exponent * _PARTS + math.ceil((fraction - 0.5) * 2 * _PARTS)


def _mirrored_bucket(magnitude: float) -> int:
    """Return the bucket of a negative value's magnitude; these hold their lower edge, which mirrored is the upper one."""
    fraction, exponent = math.frexp(magnitude)
    return exponent * _PARTS + math.floor((fraction - 0.5) * 2 * _PARTS) + 1


def _upper_edge(bucket: int) -> float:
    exponent, part = divmod(bucket - 1, _PARTS)
    try:
        return math.ldexp(0.5 + (part + 1) / (2 * _PARTS), exponent)
    except OverflowError:
        return math.inf


def _lower_edge(bucket: int) -> float:
    return _upper_edge(bucket - 1)


def _quantile(counts: list[tuple[float, int]], wanted: float) -> float:
    """Return the edge at or below which `wanted` of the values lie."""
    seen = 0
    for edge, count in counts:
        seen += count
        if seen >= wanted:
            return edge
    return counts[-1][0]


def _doublings(counts: list[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Return the cumulative counts at powers of two (and zero) alone: few, and the same edges for every histogram.

    Both edges of each doubling that holds something are there, so that a reader who interpolates does it within one.
    """
    found: dict[float, int] = {}
    seen = 0
    for edge, count in counts:
        upper = _doubling_at_or_above(edge)
        if upper not in found and upper != 0:
            found.setdefault(upper / 2 if upper > 0 else upper * 2, seen)
        seen += count
        found[upper] = seen
    return tuple(found.items())


def _doubling_at_or_above(edge: float) -> float:
    """Return the least of …, -2, -1, -1/2, …, 0, …, 1/2, 1, 2, … that is not below an edge."""
    if edge == 0 or math.isinf(edge):
        return edge
    fraction, exponent = math.frexp(abs(edge))
    if edge < 0:
        return -math.ldexp(0.5, exponent)
    return abs(edge) if fraction == 0.5 else (math.ldexp(1.0, exponent) if exponent < 1024 else math.inf)
