"""Data classes of the registry (figures, runs, peers, works)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Argument = str | int | float | bool


@dataclass(frozen=True)
class Figure:
    """One number of a reading."""

    key: str
    label: str
    unit: str


@dataclass(frozen=True)
class Run:
    """One measured run, which calls a function in its own process."""

    function: str
    """The function as `module:name`. It returns its figures by key."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    quick: Mapping[str, Argument] = field(default_factory=dict)
    """Arguments that differ in a small run."""
    package: str = ""
    """Package of a Python peer as `environment/package`. Its environment runs the function."""
    prepare: str = ""
    """Function that is called once before the first run, with the run's `records`."""
    timeout_secs: float = 180.0

    def sized(self, *, quick: bool) -> Mapping[str, Argument]:
        """Return the arguments of a full or of a small run."""
        return {**self.arguments, **(self.quick if quick else {})}


@dataclass(frozen=True)
class Peer:
    """Other software, or an alternative method, that does the same work."""

    name: str
    note: str
    run: Run
    needs: tuple[str, ...] = ()
    """Names in `bench.needs`."""


@dataclass(frozen=True)
class Sweep:
    """Settings to try. The best point of each alternative is compared with the work's own run."""

    ways: Mapping[str, Mapping[str, Run]]
    """Runs of each alternative, by the point's name."""
    compared: tuple[Figure, ...]
    """Figures whose ratios are computed. If empty, the points are only shown."""
    rate_loss: float = 0.0
    """The best point has the lowest p99 of all points whose rate is at most this share below the maximum."""
    again: bool = False
    """Whether own run and best point run again in turn, because the maximum of many rates is partly luck."""


@dataclass(frozen=True)
class Work:
    """One measurement, which runs alone, in turn with peers, or as a sweep."""

    group: str
    name: str
    summary: str
    run: Run
    figures: tuple[Figure, ...] = ()
    """Figures to show. Beside a peer, nanoseconds per unit are compared even if no figure is shown."""
    unit: str = "tuple"
    peers: tuple[Peer, ...] = ()
    needs: tuple[str, ...] = ()
    """Names in `bench.needs`."""
    own_name: str = "stormcell"
    without: Run | None = None
    """The same work without the part that a peer does. The difference of both times in a round is compared with the peer as `…-share`."""
    sweep: Sweep | None = None
    once: bool = False
    """Whether one round is enough, because every run gives the same figures."""
    only_by_name: bool = False
    """Whether the work is measured only if its name is given."""
