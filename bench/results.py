"""What was measured, ready for a table, for JSON and for the report."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.benchmark import Benchmark, Figure
from bench.child import Reading
from bench.spread import Ratio, Spread, ratio, spread


@dataclass(frozen=True)
class Measured:
    """The figures of one benchmark over its runs."""

    group: str
    name: str
    figures: tuple[tuple[Figure, Spread], ...]

    def median(self, key: str) -> float | None:
        """Return the median of a figure, or None where it was not measured."""
        return next((found.median for figure, found in self.figures if figure.key == key), None)


@dataclass(frozen=True)
class Pairing:
    """The engine beside one peer, doing the same work in turn: nanoseconds per unit, and the ratio of these times."""

    work: str
    unit: str
    peer: str
    note: str
    own_ns: Spread
    peer_ns: Spread
    time: Ratio
    """Own time over the peer's: below 1 the engine is faster."""

    @property
    def speed(self) -> float:
        """Return own rate over the peer's, of medians: above 1 the engine is faster."""
        return 1 / self.time.of_medians


@dataclass(frozen=True)
class Missing:
    """What was not measured, and why."""

    group: str
    name: str
    reason: str


@dataclass(frozen=True)
class Results:
    """Everything that one invocation measured."""

    measured: tuple[Measured, ...] = ()
    pairings: tuple[Pairing, ...] = ()
    missing: tuple[Missing, ...] = ()

    def __add__(self, other: "Results") -> "Results":
        return Results(self.measured + other.measured, self.pairings + other.pairings, self.missing + other.missing)

    def find(self, name: str) -> Measured | None:
        """Return what was measured under this name."""
        return next((item for item in self.measured if item.name == name), None)

    def pairing(self, work: str, peer: str) -> Pairing | None:
        """Return the engine beside this peer in this work."""
        return next((item for item in self.pairings if (item.work, item.peer) == (work, peer)), None)

    def as_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)


def measured(benchmark: Benchmark, readings: Sequence[Reading]) -> Measured:
    """Summarise the runs of one benchmark; a figure that a run could not take is left out."""
    taken = [figure for figure in benchmark.figures if all(figure.key in reading for reading in readings)]
    figures = tuple((figure, spread([reading[figure.key] for reading in readings])) for figure in taken)
    return Measured(benchmark.group, benchmark.name, figures)


def paired(work: tuple[str, str], peer: tuple[str, str], own: Sequence[Reading], other: Sequence[Reading]) -> Pairing:
    """Summarise alternating runs of the engine and of a peer; `work` is (name, unit), `peer` is (name, note)."""
    own_ns, peer_ns = [reading["ns"] for reading in own], [reading["ns"] for reading in other]
    return Pairing(*work, *peer, spread(own_ns), spread(peer_ns), ratio(own_ns, peer_ns))
