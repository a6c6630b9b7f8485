"""Latency histograms in a snapshot, with the same edges in every run."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import add, sub
from typing import Final

LATENCY_EDGES_SECS: Final = tuple(2**doubling / 1_000_000 for doubling in range(28))
"""Edges of all latency histograms: 1 µs, 2 µs, 4 µs, … 134 s. They are the same in every run, so that histograms of instances add up."""


@dataclass(frozen=True, slots=True)
class LatencySnapshot:
    """Histogram of a latency with one bucket per doubling."""

    count: int = 0
    total_secs: float = 0.0
    below: tuple[int, ...] = (0,) * len(LATENCY_EDGES_SECS)
    """Number of latencies below each of `LATENCY_EDGES_SECS`, cumulated."""

    @property
    def mean_secs(self) -> float | None:
        """Mean latency. None if there is none."""
        return self.total_secs / self.count if self.count else None

    def __add__(self, other: "LatencySnapshot") -> "LatencySnapshot":
        """Return the histogram of both."""
        below = tuple(map(add, self.below, other.below))
        return LatencySnapshot(self.count + other.count, self.total_secs + other.total_secs, below)

    def since(self, before: "LatencySnapshot") -> "LatencySnapshot":
        """Return the histogram of the latencies after an earlier one."""
        below = tuple(map(sub, self.below, before.below))
        return LatencySnapshot(self.count - before.count, self.total_secs - before.total_secs, below)


def latency_sum(latencies: Iterable[LatencySnapshot | None]) -> LatencySnapshot | None:
    """Return the histogram of all latencies. None if no histogram is known."""
    known = [latency for latency in latencies if latency is not None]
    return sum(known[1:], known[0]) if known else None
