"""Data classes of the registry: figures, runs, peers, works."""

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
    """One measured run: a call of a function in a process of its own."""

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
        """Return the arguments of a whole or of a small run."""
        return {**self.arguments, **(self.quick if quick else {})}


@dataclass(frozen=True)
class Peer:
    """Other software, or another way, that does the same work."""

    name: str
    note: str
    run: Run
    needs: tuple[str, ...] = ()
    """Names in `bench.needs`."""


@dataclass(frozen=True)
class Sweep:
    """Settings to try. The best point of each way is compared with the work's own run."""

    ways: Mapping[str, Mapping[str, Run]]
    """Runs of each way, by the point's name."""
    compared: tuple[Figure, ...]
    """Figures whose ratios are of interest. If there is none, all points are only shown."""
    rate_loss: float = 0.0
    """The best point has the least p99 of all whose rate is at most this share below the greatest rate."""
    again: bool = False
    """Whether own run and best point run once more in turn: the greatest of many rates is partly luck."""


@dataclass(frozen=True)
class Work:
    """One thing to measure: alone, beside peers in turn, or as a sweep."""

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
    """The same work without the part of interest: the difference, per round, is compared as `…-share`."""
    sweep: Sweep | None = None
    once: bool = False
    """Whether one round is enough, because every run gives the same figures."""
    only_by_name: bool = False
    """Whether the work is measured only if its name is given."""
