"""Makes faults happen: wraps the methods of the instances that a topology's factories make, and kills tasks at their time."""

import asyncio
import inspect
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from engine.cluster.local_cluster import Run
from engine.errors import UsageError
from engine.testing.faults import DelayTuple, DropTuple, Fault, KillTask, RaiseError, Strike, check_fault, is_hit, main_method
from engine.topology import InstanceFactory, Topology, call_kind

Method: TypeAlias = tuple[str, str]
"""(component id, name of the method)."""
Link: TypeAlias = tuple[str, str]
"""(source, target), by component id."""


class FaultInjector:
    """The faults of one run: `topology` is the one to run, and `attached(run)` has to hold around it.

        injector = FaultInjector(topology, [RaiseError("count", at_call=3)])
        run = engine.run(injector.topology)
        with injector.attached(run):
            async with run:
                await run.completed()

    What struck stands in `strikes`. Raises UsageError for a fault that can never strike. `run_topology(..., faults=[...])`
    does all this.
    """

    def __init__(self, topology: Topology, faults: Iterable[Fault]) -> None:
        self.strikes: Final[list[Strike]] = []
        self._timed: list[KillTask] = []
        self._kills: defaultdict[Method, list[KillTask]] = defaultdict(list)
        self._raises: defaultdict[Method, list[RaiseError]] = defaultdict(list)
        self._on_the_way: defaultdict[Link, list[DropTuple | DelayTuple]] = defaultdict(list)
        self._calls: Counter[Method] = Counter()
        self._tuples: Counter[Link] = Counter()
        self._run: Run | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._began = 0.0
        if not isinstance(faults, Iterable):
            raise UsageError(f"faults must be a list of faults, not {faults!r}", hint="Write faults=[KillTask('count', at_secs=3)].")
        for fault in faults:
            check_fault(fault, topology)
            self._sort_in(fault, topology)
        wrapped = {*self._kills, *self._raises, *((target, "execute") for _, target in self._on_the_way)}
        specs = dict(topology.components)
        for component_id in {owner for owner, _ in wrapped}:
            spec, methods = specs[component_id], tuple(sorted(method for owner, method in wrapped if owner == component_id))
            specs[component_id] = replace(spec, factory=_FaultyFactory(component_id, spec.factory, methods, self))
        self.topology: Final = replace(topology, components=MappingProxyType(specs))

    def _sort_in(self, fault: Fault, topology: Topology) -> None:
        if isinstance(fault, RaiseError):
            self._raises[fault.component_id, fault.method or main_method(topology, fault.component_id)].append(fault)
        elif isinstance(fault, (DropTuple, DelayTuple)):
            self._on_the_way[fault.source, fault.target].append(fault)
        elif fault.at_secs is not None:
            self._timed.append(fault)
        else:
            counted = fault.of or fault.component_id
            self._kills[counted, main_method(topology, counted)].append(fault)

    @contextmanager
    def attached(self, run: Run) -> Iterator[None]:
        """Strike this run, which is not entered yet, until the block ends; times count from here."""
        self._run = run
        self._loop = loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._began = loop.time()
        timers = [loop.call_later(fault.at_secs or 0.0, self._kill, fault) for fault in self._timed]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            self._run = None

    # What the wrapped methods ask

    def begin_call(self, called: Method, task_id: int, args: tuple[Any, ...]) -> DropTuple | DelayTuple | None:
        """Count a call; kill and raise what is due; return what becomes of its input."""
        self._calls[called] += 1
        number = self._calls[called]
        for kill in self._kills[called]:
            if is_hit(kill.at_call, number):
                self._kill(kill)
        for fault in self._raises[called]:
            if is_hit(fault.at_call, number):
                self._note(fault, task_id)
                given = fault.error
                raise given.with_traceback(None) if isinstance(given, Exception) else given(f"call {number} of {called[0]}.{called[1]}()")
        component_id, method = called
        return self._meet(component_id, task_id, args[0]) if method == "execute" else None

    def _meet(self, component_id: str, task_id: int, tup: Any) -> DropTuple | DelayTuple | None:
        """Count a tuple that came to a component; return its fault."""
        link = (tup.source_component, component_id)
        self._tuples[link] += 1
        for fault in self._on_the_way[link]:
            if is_hit(fault.number, self._tuples[link]):
                self._note(fault, task_id)
                return fault
        return None

    def lose(self, task_id: int, tup: Any) -> None:
        """Have a task lose an input."""
        if self._run is not None:
            self._run.lose_tuple(task_id, tup)

    def _kill(self, fault: KillTask) -> None:
        run, loop = self._run, self._loop
        if run is None or loop is None or run.state not in ("starting", "running", "draining"):
            return
        task_id = run.task_ids(fault.component_id)[fault.task_index]
        self._note(fault, task_id)
        if threading.get_ident() == self._thread:
            run.kill_task(task_id)
        else:
            loop.call_soon_threadsafe(run.kill_task, task_id)

    def _note(self, fault: Fault, task_id: int) -> None:
        secs = 0.0 if self._loop is None else self._loop.time() - self._began
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


def _faulty(injector: FaultInjector, called: Method, instance: Any) -> Callable[..., Any]:
    """An instance's method with faults; of the same kind, `def` or `async def`, for the engine asks."""
    original = getattr(instance, called[1])

    def plain(*args: Any) -> Any:
        fault = injector.begin_call(called, instance.context.task_id, args)
        if isinstance(fault, DropTuple):
            injector.lose(instance.context.task_id, args[0])
            return None
        return original(*args) if fault is None else _late(fault.secs, original, args)

    async def awaited(*args: Any) -> Any:
        result = plain(*args)
        return await result if inspect.isawaitable(result) else result

    return awaited if call_kind(original).is_async else plain


async def _late(secs: float, original: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    await asyncio.sleep(secs)
    result = original(*args)
    return await result if inspect.isawaitable(result) else result
