"""Results of an invocation, with medians and ranges of repeated runs and ratios of alternating pairs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.process import Reading
from bench.work import Figure, Peer, Work


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of some runs."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Ratio:
    """A divided by B, in alternating pairs of runs."""

    of_medians: float
    pairwise: Spread


@dataclass(frozen=True)
class Measured:
    """Figures of one work, or of one contender in it."""

    group: str
    name: str
    figures: tuple[tuple[Figure, Spread], ...]


@dataclass(frozen=True)
class Pairing:
    """Nanoseconds per unit of the engine and of one peer, in alternating runs of the same work."""

    work: str
    unit: str
    peer: str
    note: str
    own_ns: Spread
    peer_ns: Spread
    time: Ratio
    """Own time divided by the peer's. Below 1 the engine is faster."""

    @property
    def speed(self) -> float:
        """Return own median rate divided by the peer's. Above 1 the engine is faster."""
        return 1 / self.time.of_medians


@dataclass(frozen=True)
class Missing:
    """A work or a peer that was not measured."""

    group: str
    name: str
    reason: str
    absent_peer: bool = False
    """True if a peer is not installed. This does not fail the invocation."""


@dataclass(frozen=True)
class Results:
    """All results of one invocation."""

    measured: tuple[Measured, ...] = ()
    pairings: tuple[Pairing, ...] = ()
    missing: tuple[Missing, ...] = ()

    def __add__(self, other: "Results") -> "Results":
        missing = tuple(dict.fromkeys(self.missing + other.missing))
        return Results(self.measured + other.measured, self.pairings + other.pairings, missing)

    def find(self, name: str) -> Measured | None:
        """Return the figures with this name."""
        return next((item for item in self.measured if item.name == name), None)

    def pairing(self, work: str, peer: str) -> Pairing | None:
        """Return the engine beside this peer in this work."""
        return next((item for item in self.pairings if (item.work, item.peer) == (work, peer)), None)

    def as_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)


def spread(values: Sequence[float]) -> Spread:
    """Return median and range.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0, runs=3)
    """
    return Spread(median(values), min(values), max(values), len(values))


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return A divided by B. The i-th runs of both are neighbours in time.

    >>> ratio([2.0, 4.0], [1.0, 2.0]).of_medians
    2.0
    """
    return Ratio(median(a) / median(b), spread([x / y for x, y in zip(a, b, strict=True)]))


def measured(group: str, name: str, figures: Sequence[Figure], readings: Sequence[Reading]) -> Measured:
    """Summarise runs. A figure that is missing in some run is left out."""
    taken = [figure for figure in figures if all(figure.key in reading for reading in readings)]
    return Measured(group, name, tuple((figure, spread([reading[figure.key] for reading in readings])) for figure in taken))


def paired(work: Work, peer: Peer, own_ns: Sequence[float], peer_ns: Sequence[float], suffix: str = "") -> Pairing:
    """Summarise alternating runs of the engine and of a peer."""
    return Pairing(work.name + suffix, work.unit, peer.name, peer.note, spread(own_ns), spread(peer_ns), ratio(own_ns, peer_ns))
