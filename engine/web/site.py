"""The parts that all routes of one application share."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Scope

from engine.errors import UsageError
from engine.names import did_you_mean
from engine.runtime.run import Run
from engine.topology import Topology
from engine.web.access import Access
from engine.web.read_budget import ReadBudget
from engine.web.sampler import Sampler


def keep_connection(scope: Scope) -> None:
    """Leave a connection to the server that has mounted the application."""


@dataclass(slots=True)
class Site:
    """One run, and how it may be read and steered."""

    run: Run
    access: Access
    budget: ReadBudget
    sampler: Sampler
    inlets: frozenset[str]
    """Inlets that HTTP may call."""
    logger: logging.Logger
    """The logger whose level can be changed."""
    drop_connection: Callable[[Scope], None] = keep_connection
    background: set[Any] = field(default_factory=set)
    """Asyncio tasks of drains and stops. A reference keeps them alive."""


def checked_inlets(topology: Topology, inlets: Iterable[str]) -> frozenset[str]:
    """Return the ids of callable inlets. Raise UsageError if the topology has no such spout."""
    spouts = [spec.component_id for spec in topology.spouts]
    for inlet in (names := tuple(inlets)):
        if inlet not in spouts:
            raise UsageError(
                f"the topology {topology.name!r} has no inlet {inlet!r} that could be called", hint=did_you_mean(inlet, spouts)
            )
    return frozenset(names)


def level_name(logger: logging.Logger) -> str:
    """Return the name of the level that a logger has or inherits."""
    return logging.getLevelName(logger.getEffectiveLevel())
