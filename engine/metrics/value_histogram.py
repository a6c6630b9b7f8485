"""Histogram of any numbers with logarithmic buckets. The relative error of a quantile is at most 1/8.

A value v > 0 is `fraction · 2^exponent` with fraction in (1/2, 1]. Eight buckets of equal width divide that range, and a float
represents their edges exactly. Negative values have buckets that mirror the positive ones, and zero has its own. There are at most
34,000 buckets, and only those with values take memory.
"""

import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from engine.errors import UsageError
from engine.plain_numbers import is_bool, plain_number
from engine.safe_text import safe_repr

_PARTS: Final = 8
"""Buckets per power of two."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Contents of a histogram at one moment. Quantiles and extremes are None if it is empty."""

    count: int
    total: float
    minimum: float | None
    maximum: float | None
    p50: float | None
    p99: float | None
    doublings: tuple[tuple[float, int], ...]
    """Pairs (edge, number of values up to this edge), ascending, for the powers of two around the values."""


class ValueHistogram:
    """Counts values in buckets. Several threads may call `record`, because the GIL keeps each update atomic."""

    __slots__ = ("_above", "_below", "_maximum", "_minimum", "_total", "_zeros")

    def __init__(self) -> None:
        self._above: defaultdict[int, int] = defaultdict(int)
        self._below: defaultdict[int, int] = defaultdict(int)
        self._zeros = 0
        self._total = 0.0
        self._minimum = math.inf
        self._maximum = -math.inf

    def record(self, value: float, /) -> None:
        """Add one value. Raises UsageError unless it is a finite number."""
        number = value if type(value) is float else measured_number(value)  # saves a call, because the engine measures each batch so
        if number is None or not -sys.float_info.max <= number <= sys.float_info.max:
            raise UsageError(f"a histogram cannot record {safe_repr(value)}", hint="Record finite numbers only.")
        value = float(number)
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

    def take(self) -> tuple[dict[int, int], dict[int, int], int, float, float, float] | None:
        """Return the values since the last `take`, for `merge` in another process. None if there are none."""
        if not (self._above or self._below or self._zeros):
            return None
        taken = (dict(self._above), dict(self._below), self._zeros, self._total, self._minimum, self._maximum)
        self.__init__()  # type: ignore[misc]
        return taken

    def merge(self, taken: tuple[dict[int, int], dict[int, int], int, float, float, float] | None) -> None:
        """Add the values that a histogram of another process returned from `take`."""
        if taken is None:
            return
        above, below, zeros, total, minimum, maximum = taken
        for mine, theirs in ((self._above, above), (self._below, below)):
            for bucket, count in theirs.items():
                mine[bucket] += count
        self._zeros += zeros
        self._total += total
        self._minimum, self._maximum = min(self._minimum, minimum), max(self._maximum, maximum)

    def read(self) -> Distribution:
        """Return the current contents."""
        below = sorted(self._below.items(), reverse=True)  # sorted() copies in one step, so other threads may record meanwhile
        counts = [(-_lower_edge(bucket), count) for bucket, count in below]
        counts += [(0.0, self._zeros)] if self._zeros else []
        counts += [(_upper_edge(bucket), count) for bucket, count in sorted(self._above.items())]
        number = sum(count for _, count in counts)
        if not number:
            return Distribution(0, 0.0, None, None, None, None, ())
        low, high = self._minimum, self._maximum
        p50, p99 = (min(max(_quantile(counts, share * number), low), high) for share in (0.5, 0.99))
        return Distribution(number, self._total, low, high, p50, p99, _doublings(counts))


def measured_number(value: object) -> int | float | None:
    """Return a number for a metric, and None if it is none. A bool counts as 0 or 1, such as `counter.add(row is None)`."""
    if type(value) is float or type(value) is int:
        return value
    return int(bool(value)) if is_bool(value) else plain_number(value)


def _bucket(value: float) -> int:
    """Return the bucket of a positive value. A bucket includes its upper edge."""
    fraction, exponent = math.frexp(value)
    return exponent * _PARTS + math.ceil((fraction - 0.5) * 2 * _PARTS)


def _mirrored_bucket(magnitude: float) -> int:
    """Return the bucket of a negative value's magnitude.

    This bucket includes its lower edge, which becomes the upper edge of the mirrored bucket.
    """
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
    """Return the first edge with at least `wanted` values at or below it."""
    seen = 0
    for edge, count in counts:
        seen += count
        if seen >= wanted:
            return edge
    return counts[-1][0]


def _doublings(counts: list[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Return cumulative counts at powers of two and zero, so that all histograms have the same few edges.

    Both edges around each value are included, so that a quantile interpolated from them is wrong by at most a factor of 2.
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
    """Return the lowest power of two at or above an edge. Powers below zero are -2, -1, -1/2 and so on; 0 is one, too."""
    if edge == 0 or math.isinf(edge):
        return edge
    fraction, exponent = math.frexp(abs(edge))
    if edge < 0:
        return -math.ldexp(0.5, exponent)
    return abs(edge) if fraction == 0.5 else (math.ldexp(1.0, exponent) if exponent < 1024 else math.inf)
