"""`run_topology`: a whole run in one call, in virtual time. Hours of timeouts take milliseconds, and a seed replays a run."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from engine.cluster.local_cluster import Run
from engine.cluster.local_cluster import run as start_run
from engine.cluster.snapshot import Snapshot
from engine.cluster.supervisor import RunState
from engine.config import Config
from engine.errors import EngineError, UsageError
from engine.executor.error_report import ErrorReport
from engine.randomness import RunRandom
from engine.testing.capture import Capture, CaptureBolt
from engine.testing.fault_injector import FaultInjector
from engine.testing.faults import Fault, Strike
from engine.testing.virtual_loop import run_virtual
from engine.topology import InstanceFactory, Topology, config_of_run

DEFAULT_LIMIT_SECS: Final = 3600.0
LOOK_EVERY_SECS: Final = 0.01
"""How often `until` is asked."""
STEP_SECS: Final = 0.0001
"""What a turn of the loop takes while something is ready, so that a source which never rests gets older too."""

Until: TypeAlias = float | Callable[[Run], bool]
"""Seconds, or a condition that is asked every 10 ms."""

Script: TypeAlias = Callable[[Run], Awaitable[object]]
"""What a test does while the run goes on."""


class RunUnfinished(EngineError):
    """A run was not over within its limit; says what is still open."""


class Schedule(TypedDict, total=False):
    """How `run_topology` lets time pass."""

    seed: int
    """Of the run's randomness, and of the shuffled schedule; default: the config's, else 0."""
    shuffle: bool
    """Permute what asyncio leaves open: another seed, another order of the tasks that are ready side by side."""
    limit_secs: float
    """Virtual seconds after which the run must be over, else RunUnfinished; default 3600."""
    real_limit_secs: float
    """Real seconds, default 60; beyond, RealTimeExceeded."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run leaves to a test."""

    state: RunState
    """complete, or stopped where `until` or the test ended it."""
    snapshot: Snapshot
    """As it was at the end; where `until` ended the run, before its components were closed."""
    secs: float
    """How long it took, by its clock."""
    seed: int
    """What replays it."""
    errors: tuple[ErrorReport, ...]
    """The errors of components that were reported, in order (5 in 10 s per task at most)."""
    captured: Mapping[str, list[tuple[Any, ...]]]
    """By component id, the values that each capture bolt got."""
    strikes: tuple[Strike, ...]
    """The faults that came true, in order."""


def run_topology(
    topology: Topology,
    config: Config | None = None,
    *,
    until: Until | None = None,
    during: Script | None = None,
    faults: Iterable[Fault] = (),
    **schedule: Unpack[Schedule],
) -> Finished:
    """Run a topology on a loop with virtual time until it is complete, or until `until`; for tests that are no coroutines.

    `during(run)` is awaited beside it: it feeds, kills, looks, and may end the run by `run.stop()` or `run.drain()`; what it
    raises ends the run and is raised. `faults` are what goes wrong, and when. Raises ComponentError where a component failed
    for good, and, unless `until` is a time, RunUnfinished after `limit_secs`. Same topology, settings and seed: same run, as
    long as no thread and no socket takes part.
    """
    _refuse_running_loop()
    chosen = config_of_run("run_topology", topology, config)
    seed = schedule.get("seed", chosen.seed if chosen.seed is not None else 0)
    main = partial(
        run_topology_async,
        topology,
        chosen.replace(seed=seed),
        until=until,
        during=during,
        faults=faults,
        limit_secs=schedule.get("limit_secs", DEFAULT_LIMIT_SECS),
    )
    return run_virtual(
        main,
        real_limit_secs=schedule.get("real_limit_secs", 60.0),
        step_secs=STEP_SECS,
        shuffle=RunRandom(seed).stream("schedule") if schedule.get("shuffle") else None,
    )


async def run_topology_async(
    topology: Topology,
    config: Config | None = None,
    *,
    until: Until | None = None,
    during: Script | None = None,
    faults: Iterable[Fault] = (),
    limit_secs: float = DEFAULT_LIMIT_SECS,
) -> Finished:
    """Do the same on the loop that runs, whose time may be virtual or not; for tests that are coroutines."""
    chosen = config_of_run("run_topology_async", topology, config)
    captures: dict[str, Capture] = {}
    injector = FaultInjector(_watched(topology, captures), faults)
    run = start_run(injector.topology, chosen)
    run.may_forget = True
    reports: list[ErrorReport] = []
    run.on_report.append(reports.append)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with injector.attached(run):
        async with run:
            await _to_its_end(run, until, during, limit_secs)
            snapshot = run.snapshot()
    assert run.seed is not None
    values = {component_id: capture.values for component_id, capture in captures.items()}
    return Finished(
        state=run.state,
        snapshot=snapshot,
        secs=loop.time() - began,
        seed=run.seed,
        errors=tuple(reports),
        captured=MappingProxyType(values),
        strikes=tuple(injector.strikes),
    )


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("run_topology() starts a loop of its own, and one runs here", hint="Write: await run_topology_async(topology, ...).")


async def _to_its_end(run: Run, until: Until | None, during: Script | None, limit_secs: float) -> None:
    """Return when the run is complete, and the script over, or when `until` says so."""
    over = asyncio.ensure_future(run.completed())
    script = None if during is None else asyncio.ensure_future(_play(during, run))
    watch = None if until is None else asyncio.ensure_future(_watch(run, until))
    aio_tasks = {aio_task for aio_task in (over, script, watch) if aio_task is not None}
    deadline = asyncio.get_running_loop().time() + (limit_secs if until is None or callable(until) else math.inf)
    try:
        waiting = set(aio_tasks)
        while waiting - {watch}:
            left = deadline - asyncio.get_running_loop().time()
            timeout = None if left == math.inf else left
            done, waiting = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise _unfinished(run, limit_secs, script)
            for aio_task in done:
                aio_task.result()
            if watch in done:
                return
    finally:
        for aio_task in aio_tasks:
            aio_task.cancel()
        await asyncio.gather(*aio_tasks, return_exceptions=True)


async def _play(during: Script, run: Run) -> None:
    await during(run)


async def _watch(run: Run, until: Until) -> None:
    if not callable(until):
        await asyncio.sleep(until)
        return
    while not until(run):
        await asyncio.sleep(LOOK_EVERY_SECS)


def _unfinished(run: Run, limit_secs: float, script: "asyncio.Future[None] | None") -> RunUnfinished:
    snapshot = run.snapshot()
    lines = [
        f"  - {task.task_id} {component.component_id}: {task.status}; {task.waiting} waiting, {task.pending or 0} open trees, "
        f"{task.executed} executed, {task.acked} acked, {task.failed} failed"
        for component in snapshot.components.values()
        for task in component.tasks
    ]
    if script is not None and not script.done():
        lines.append("  - the script of the test (during) waits")
    listed = "\n".join(lines)
    return RunUnfinished(
        f"the run is {snapshot.state} after its limit of {limit_secs:g} s; its tasks:\n{listed}",
        hint="Let the spouts end (Feeder.close()), end the run by until=..., or raise limit_secs.",
    )


# Capture bolts are noticed where they are made.


def _watched(topology: Topology, captures: dict[str, Capture]) -> Topology:
    specs = {
        component_id: replace(spec, factory=_NoticingFactory(component_id, spec.factory, captures))
        for component_id, spec in topology.components.items()
    }
    return replace(topology, components=MappingProxyType(specs))


@dataclass(frozen=True, slots=True)
class _NoticingFactory:
    component_id: str
    inner: InstanceFactory
    captures: dict[str, Capture]

    def create(self) -> Any:
        instance = self.inner.create()
        if isinstance(instance, CaptureBolt):
            self.captures[self.component_id] = instance.capture
        return instance
