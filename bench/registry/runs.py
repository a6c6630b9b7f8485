"""Makers of runs and figures, for all groups of the registry."""

from collections.abc import Mapping
from typing import Any, Final

from bench.work import Argument, Figure, Run


def new_run(
    function: str, quick: Mapping[str, Argument], *, package: str = "", prepare: str = "", timeout_secs: float = 180, **arguments: Any
) -> Run:
    """Return a run. `quick` holds the arguments that differ in a small run."""
    return Run(function, arguments, quick, package, prepare, timeout_secs)


def new_figures(unit: str, **labels: str) -> tuple[Figure, ...]:
    """Return a figure for each key of a reading."""
    return tuple(Figure(key, label, unit) for key, label in labels.items())


def new_percentiles(label: str, *shares: str) -> tuple[Figure, ...]:
    """Return figures in milliseconds for shares such as "p50"."""
    return tuple(Figure(f"{share}_ms", f"{label}, {share.replace('p999', 'p99.9')}", "ms") for share in shares)


NS: Final = new_figures("ns", ns="time per unit")
PER_SECOND: Final = new_figures("/s", per_second="rate")
SERVERS: Final = ("redis", "postgres", "zookeeper")
"""Stores that are servers."""


def servers_of(store: str) -> tuple[str, ...]:
    """Return the servers that a work with this store needs."""
    return (store,) if store in SERVERS else ()
