"""Faults as data: what goes wrong in a run, and when. `FaultInjector` makes it happen.

    finished = run_topology(topology, faults=[
        KillTask("count", task_index=1, at_secs=3),
        KillTask(ACKER, at_call=100, of="split"),
        RaiseError("count", at_call=7),
        DropTuple("split", "count", number=4),
        DelayTuple("split", "count", number=range(10, 20), secs=2.5),
    ])

Calls and tuples are numbered from 1, over all tasks of a component and all their instances. Nothing in the engine knows of
faults: each instance that a factory makes gets its own method wrapped.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final, TypeAlias

from engine.errors import UsageError
from engine.names import ACKER_COMPONENT, did_you_mean
from engine.topology import Topology

ACKER: Final = ACKER_COMPONENT
"""The component id of the ackers, for `KillTask`."""

Numbers: TypeAlias = int | Container[int]
"""One number, or several: `3`, `{3, 5}`, `range(10, 20)`."""


class InjectedError(Exception):
    """What `RaiseError` raises by default."""


@dataclass(frozen=True, slots=True)
class KillTask:
    """The instance of a task dies as if it had raised (an acker loses its trees): at a time, or at the n-th call of a component.

    A task that is in a call, or in a burst of plain calls, dies when it next gives the loop its turn.
    """

    component_id: str
    task_index: int = 0
    at_secs: float | None = None
    """Seconds since the run began."""
    at_call: Numbers | None = None
    of: str | None = None
    """The component whose calls (`execute`, `next_tuple`) are counted; default: the one that dies. An acker has none."""


@dataclass(frozen=True, slots=True)
class RaiseError:
    """The n-th call of a component's method raises instead of running."""

    component_id: str
    at_call: Numbers
    method: str | None = None
    """Default: `execute` of a bolt, `next_tuple` of a spout. `open`, `prepare`, `ack`, `fail`, … fail as well."""
    error: Exception | type[Exception] = InjectedError


@dataclass(frozen=True, slots=True)
class DropTuple:
    """The n-th tuple from one component to another is lost on its way: nobody settles it, so its trees time out (ACK-8)."""

    source: str
    target: str
    number: Numbers


@dataclass(frozen=True, slots=True)
class DelayTuple:
    """The n-th tuple from one component to another comes so many seconds late, and what is behind it at its task waits (GRP-4).

    With `concurrency`, it takes one place of those. It counts as taken up: it is not refreshed while it is late (ACK-8).
    """

    source: str
    target: str
    number: Numbers
    secs: float


Fault: TypeAlias = KillTask | RaiseError | DropTuple | DelayTuple


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault that came true."""

    fault: Fault
    task_id: int
    secs: float
    """Since the run began."""


def is_hit(numbers: Numbers | None, number: int) -> bool:
    """Tell whether the n-th is meant."""
    if numbers is None:
        return False
    return number == numbers if isinstance(numbers, int) else number in numbers


def main_method(topology: Topology, component_id: str) -> str:
    """The method that a component works by."""
    return "next_tuple" if topology.components[component_id].kind == "spout" else "execute"


def check_fault(fault: Fault, topology: Topology) -> None:
    """Raise UsageError for a fault that can never strike this topology."""
    if not isinstance(fault, Fault):
        raise UsageError(f"{fault!r} is no fault", hint="Pass a list of them: faults=[KillTask('count', at_secs=3)].")
    if isinstance(fault, KillTask):
        _check_kill(fault, topology)
    elif isinstance(fault, RaiseError):
        _check_component(fault, fault.component_id, topology)
    else:
        _check_component(fault, fault.target, topology)
        spec = topology.components[fault.target]
        sources = sorted({subscription.source for subscription in spec.subscriptions})
        if fault.source not in sources:
            hint = f"It takes in from: {', '.join(sources) or 'nobody'}."
            raise UsageError(f"{fault}: {fault.target!r} takes nothing in from {fault.source!r}", hint=hint)
        if spec.settings.threads:
            hint = "Drop or delay a tuple before or behind it."
            raise UsageError(f"{fault}: {fault.target!r} runs in threads, where a tuple cannot be held up", hint=hint)


def _check_kill(fault: KillTask, topology: Topology) -> None:
    if (fault.at_secs is None) == (fault.at_call is None):
        raise UsageError(f"{fault}: give either at_secs or at_call", hint="KillTask('count', at_secs=3) or KillTask('count', at_call=100).")
    if fault.component_id != ACKER:
        _check_component(fault, fault.component_id, topology)
        tasks = topology.components[fault.component_id].parallelism
        if not 0 <= fault.task_index < tasks:
            raise UsageError(f"{fault}: {fault.component_id!r} has no such task", hint=f"Its task_index goes from 0 to {tasks - 1}.")
    if fault.at_call is None:
        return
    counted = fault.of or fault.component_id
    if counted == ACKER:
        raise UsageError(f"{fault}: an acker has no calls to count", hint="Name a component by of='split', or give at_secs.")
    _check_component(fault, counted, topology)


def _check_component(fault: Fault, component_id: str, topology: Topology) -> None:
    if component_id not in topology.components:
        raise UsageError(f"{fault}: the topology has no component {component_id!r}", hint=did_you_mean(component_id, topology.components))
