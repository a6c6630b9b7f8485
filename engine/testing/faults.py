"""Faults of a test run, as data, and the injector that makes them happen.

    finished = run_topology(topology, faults=[
        KillTask("count", task_index=1, at_secs=3),
        KillTask(ACKER, at_call=100, of="split"),
        RaiseError("count", at_call=7),
        DropTuple("split", "count", number=4),
        DelayTuple("split", "count", number=range(10, 20), secs=2.5),
    ])

Calls and tuples are numbered from 1, over all tasks of a component and all their instances. The engine itself has no code for faults:
`FaultInjector` wraps methods of the instances that the topology's factories create.
"""

import asyncio
import copy
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from engine.api import call_kind
from engine.errors import UsageError
from engine.maybe_await import maybe_await
from engine.names import ACKER_COMPONENT, did_you_mean
from engine.runtime.run import Run
from engine.topology import InstanceFactory, Topology

ACKER: Final = ACKER_COMPONENT
"""The component id of the ackers, for `KillTask`."""

Numbers: TypeAlias = int | Container[int]
"""One number or several: `3`, `{3, 5}`, `range(10, 20)`."""
Method: TypeAlias = tuple[str, str]
"""(component id, name of the method)."""
Link: TypeAlias = tuple[str, str]
"""(source, target), both component ids."""


class InjectedError(Exception):
    """The default error of `RaiseError`."""


@dataclass(frozen=True, slots=True)
class KillTask:
    """Kill the instance of a task at a time, or at the n-th call of a component.

    The instance dies as if it had raised an exception. A killed acker loses its trees. A task that runs a call, or a burst of plain calls,
    dies when it next yields to the loop.
    """

    component_id: str
    task_index: int = 0
    at_secs: float | None = None
    """Seconds since the start of the run."""
    at_call: Numbers | None = None
    of: str | None = None
    """Component whose calls (`execute`, `next_tuple`) are counted. Default: the killed component. An acker has no calls."""


@dataclass(frozen=True, slots=True)
class RaiseError:
    """Raise in the n-th call of a component's method, instead of running it."""

    component_id: str
    at_call: Numbers
    method: str | None = None
    """Default: `execute` of a bolt, `next_tuple` of a spout. Also possible: `open`, `prepare`, `ack`, `fail`, …"""
    error: Exception | type[Exception] = InjectedError


@dataclass(frozen=True, slots=True)
class DropTuple:
    """Lose the n-th tuple from one component to another. No task settles it, so its trees time out (ACK-8)."""

    source: str
    target: str
    number: Numbers


@dataclass(frozen=True, slots=True)
class DelayTuple:
    """Deliver the n-th tuple from one component to another late. Later tuples at the same task wait (GRP-4).

    With `concurrency`, the tuple occupies one of the concurrent calls. The delayed tuple counts as being processed, so its timeout is not
    refreshed (ACK-8).
    """

    source: str
    target: str
    number: Numbers
    secs: float


Fault: TypeAlias = KillTask | RaiseError | DropTuple | DelayTuple


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault that happened."""

    fault: Fault
    task_id: int
    secs: float
    """Seconds since the start of the run."""


class FaultInjector:
    """Inject faults into one run: run its `topology`, inside `attached(run)`.

        injector = FaultInjector(topology, [RaiseError("count", at_call=3)])
        run = engine.run(injector.topology)
        with injector.attached(run):
            async with run:
                await run.completed()

    `strikes` lists the faults that happened. Raises UsageError for a fault that can never happen. `run_topology(..., faults=[...])`
    does all of this.
    """

    def __init__(self, topology: Topology, faults: Iterable[Fault]) -> None:
        self.strikes: Final[list[Strike]] = []
        self._timed: list[KillTask] = []
        self._kills: defaultdict[Method, list[KillTask]] = defaultdict(list)
        self._raises: defaultdict[Method, list[RaiseError]] = defaultdict(list)
        self._on_links: defaultdict[Link, list[DropTuple | DelayTuple]] = defaultdict(list)
        self._calls: Counter[Method] = Counter()
        self._tuples: Counter[Link] = Counter()
        self._run: Run | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._started_at = 0.0
        if not isinstance(faults, Iterable):
            raise UsageError(f"faults must be a list of faults, not {faults!r}", hint="Write faults=[KillTask('count', at_secs=3)].")
        for fault in faults:
            _check_fault(fault, topology)
            self._schedule(fault, topology)
        wrapped = {*self._kills, *self._raises, *((target, "execute") for _, target in self._on_links)}
        specs = dict(topology.components)
        for component_id in {owner for owner, _ in wrapped}:
            spec, methods = specs[component_id], tuple(sorted(method for owner, method in wrapped if owner == component_id))
            specs[component_id] = replace(spec, factory=_FaultyFactory(component_id, spec.factory, methods, self))
        self.topology: Final = replace(topology, components=MappingProxyType(specs))

    def _schedule(self, fault: Fault, topology: Topology) -> None:
        if isinstance(fault, RaiseError):
            self._raises[fault.component_id, fault.method or _main_method(topology, fault.component_id)].append(fault)
        elif isinstance(fault, (DropTuple, DelayTuple)):
            self._on_links[fault.source, fault.target].append(fault)
        elif fault.at_secs is not None:
            self._timed.append(fault)
        else:
            counted = fault.of or fault.component_id
            self._kills[counted, _main_method(topology, counted)].append(fault)

    def _check_ackers(self, ackers: int) -> None:
        for fault in (*self._timed, *(kill for kills in self._kills.values() for kill in kills)):
            if fault.component_id == ACKER and not 0 <= fault.task_index < ackers:
                raise UsageError(f"{fault}: the run has no such acker", hint=f"Its acker_executors is {ackers}.")

    @contextmanager
    def attached(self, run: Run) -> Iterator[None]:
        """Inject into this run until the block ends. Enter the block before the run, because the times of faults count from here.

        Raises UsageError for a fault of an acker task that the run does not have.
        """
        self._check_ackers(run.config.acker_executors)
        self._run = run
        self._loop = loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._started_at = loop.time()
        timers = [loop.call_later(fault.at_secs or 0.0, self._kill, fault) for fault in self._timed]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            self._run = None

    # Called by the wrapped methods.

    def begin_call(self, called: Method, task_id: int, args: tuple[Any, ...]) -> DropTuple | DelayTuple | None:
        """Count a call. Kill a task or raise an error if that is due. Return the fault of the input."""
        self._calls[called] += 1
        number = self._calls[called]
        for kill in self._kills[called]:
            if _is_hit(kill.at_call, number):
                self._kill(kill)
        for fault in self._raises[called]:
            if _is_hit(fault.at_call, number):
                self._add_strike(fault, task_id)
                given = fault.error
                raise given.with_traceback(None) if isinstance(given, Exception) else given(f"call {number} of {called[0]}.{called[1]}()")
        component_id, method = called
        return self._fault_of_input(component_id, task_id, args[0]) if method == "execute" else None

    def _fault_of_input(self, component_id: str, task_id: int, tup: Any) -> DropTuple | DelayTuple | None:
        """Count an input of a component and return its fault."""
        link = (tup.source_component, component_id)
        self._tuples[link] += 1
        for fault in self._on_links[link]:
            if _is_hit(fault.number, self._tuples[link]):
                self._add_strike(fault, task_id)
                return fault
        return None

    def lose(self, task_id: int, tup: Any) -> None:
        """Make a task lose an input."""
        if self._run is not None:
            self._run.lose_tuple(task_id, tup)

    def _kill(self, fault: KillTask) -> None:
        run, loop = self._run, self._loop
        if run is None or loop is None or run.state not in ("starting", "running", "draining"):
            return
        task_id = run.task_ids(fault.component_id)[fault.task_index]
        self._add_strike(fault, task_id)
        if threading.get_ident() == self._thread:
            run.kill_task(task_id)
        else:
            loop.call_soon_threadsafe(run.kill_task, task_id)

    def _add_strike(self, fault: Fault, task_id: int) -> None:
        secs = 0.0 if self._loop is None else self._loop.time() - self._started_at
        self.strikes.append(Strike(fault, task_id, secs))


@dataclass(frozen=True, slots=True)
class _FaultyFactory:
    component_id: str
    inner: InstanceFactory
    methods: tuple[str, ...]
    injector: FaultInjector

    def create(self) -> Any:
        instance = self.inner.create()
        for method in self.methods:
            setattr(instance, method, _faulty(self.injector, (self.component_id, method), instance))
        return instance

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the factory alone, because the calls in a child process cannot be counted here."""
        return copy.copy, (self.inner,)


def _faulty(injector: FaultInjector, called: Method, instance: Any) -> Callable[..., Any]:
    """Wrap a method of an instance. A `def` stays a `def`, because the engine calls the two kinds differently."""
    original = getattr(instance, called[1])

    def plain(*args: Any) -> Any:
        fault = injector.begin_call(called, instance.context.task_id, args)
        if isinstance(fault, DropTuple):
            injector.lose(instance.context.task_id, args[0])
            return None
        return original(*args) if fault is None else _late(fault.secs, original, args)

    async def awaited(*args: Any) -> Any:
        return await maybe_await(plain(*args))

    return awaited if call_kind(original).is_async else plain


async def _late(secs: float, original: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    await asyncio.sleep(secs)
    return await maybe_await(original(*args))


def _is_hit(numbers: Numbers | None, number: int) -> bool:
    """Tell whether the n-th call or tuple is among these."""
    if numbers is None:
        return False
    return number == numbers if isinstance(numbers, int) else number in numbers


def _main_method(topology: Topology, component_id: str) -> str:
    """Return the method that the engine calls for each step of a component's work."""
    return "next_tuple" if topology.components[component_id].kind == "spout" else "execute"


# Checks before the run.


def _check_fault(fault: Fault, topology: Topology) -> None:
    """Raise UsageError for a fault that can never happen in this topology."""
    if not isinstance(fault, Fault):
        raise UsageError(f"{fault!r} is not a fault", hint="Pass a list of faults: faults=[KillTask('count', at_secs=3)].")
    if isinstance(fault, KillTask):
        _check_kill(fault, topology)
    elif isinstance(fault, RaiseError):
        _check_component(fault, fault.component_id, topology)
    else:
        _check_component(fault, fault.target, topology)
        spec = topology.components[fault.target]
        sources = sorted({subscription.source for subscription in spec.subscriptions})
        if fault.source not in sources:
            hint = f"It subscribes to: {', '.join(sources) or 'nothing'}."
            raise UsageError(f"{fault}: {fault.target!r} does not subscribe to {fault.source!r}", hint=hint)
        if spec.settings.threads:
            hint = "Drop or delay the tuple at a component before or behind it."
            raise UsageError(f"{fault}: {fault.target!r} runs in threads, and a tuple there cannot be dropped or delayed", hint=hint)


def _check_kill(fault: KillTask, topology: Topology) -> None:
    if (fault.at_secs is None) == (fault.at_call is None):
        hint = "Write KillTask('count', at_secs=3) or KillTask('count', at_call=100)."
        raise UsageError(f"{fault}: give either at_secs or at_call", hint=hint)
    if fault.component_id != ACKER:
        _check_component(fault, fault.component_id, topology)
        tasks = topology.components[fault.component_id].parallelism
        if not 0 <= fault.task_index < tasks:
            raise UsageError(f"{fault}: {fault.component_id!r} has no such task", hint=f"Its task_index goes from 0 to {tasks - 1}.")
    if fault.at_call is None:
        return
    counted = fault.of or fault.component_id
    if counted == ACKER:
        raise UsageError(f"{fault}: an acker has no calls to count", hint="Name a component with of='split', or give at_secs.")
    _check_component(fault, counted, topology)


def _check_component(fault: Fault, component_id: str, topology: Topology) -> None:
    if component_id not in topology.components:
        raise UsageError(f"{fault}: the topology has no component {component_id!r}", hint=did_you_mean(component_id, topology.components))
