"""Runs a topology to its end in one call and in virtual time.

Hours of timeouts take milliseconds, and a seed replays a run.
"""

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from engine.config import Config
from engine.errors import EngineError, UsageError
from engine.randomness import RunRandom
from engine.runtime.error_report import ErrorReport
from engine.runtime.run import Run
from engine.runtime.run import run as start_run
from engine.runtime.snapshot import Snapshot
from engine.runtime.supervisor import RunState
from engine.testing.capture import Capture, CaptureBolt
from engine.testing.faults import Fault, FaultInjector, Strike
from engine.testing.virtual_loop import run_virtual
from engine.topology import InstanceFactory, Topology, config_of_run

DEFAULT_LIMIT_SECS: Final = 3600.0
POLL_SECS: Final = 0.01
"""Seconds between two calls of an `until` condition."""
STEP_SECS: Final = 0.0001
"""Virtual seconds per turn of a busy loop. With 0, time would stop while a source emits without a pause."""

Until: TypeAlias = float | Callable[[Run], bool]
"""Seconds, or a condition that is called every 10 ms."""

Script: TypeAlias = Callable[[Run], Awaitable[object]]
"""Coroutine function of a test that runs concurrently with the topology."""


class RunUnfinished(EngineError):
    """A run did not end within its limit. The message lists its tasks and their open work."""


class Schedule(TypedDict, total=False):
    """Seed, order and time limits of `run_topology`."""

    seed: int
    """Seed of the run and of the shuffled schedule. Default: the seed of the config, else 0."""
    shuffle: bool
    """Permute tasks that are ready together, and timers that are due together. asyncio does not define their order."""
    limit_secs: float
    """Limit of the run in virtual seconds; default 3600. A longer run raises RunUnfinished."""
    real_limit_secs: float
    """Limit of the run in real seconds; default 60. A longer run raises RealTimeExceeded."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Result of a finished run."""

    state: RunState
    """`complete`, or `stopped` if `until` or the test ended the run."""
    snapshot: Snapshot
    """Last snapshot. If `until` ended the run, it is from before the components were closed."""
    secs: float
    """Duration by the run's clock."""
    seed: int
    """Seed that replays the run."""
    errors: tuple[ErrorReport, ...]
    """Reported errors of components, in order. At most 5 in 10 s per task."""
    captured: Mapping[str, list[tuple[Any, ...]]]
    """Values of the inputs of each capture bolt, by component id."""
    strikes: tuple[Strike, ...]
    """The faults that happened, in order."""


def run_topology(
    topology: Topology,
    config: Config | None = None,
    *,
    until: Until | None = None,
    during: Script | None = None,
    faults: Iterable[Fault] = (),
    **schedule: Unpack[Schedule],
) -> Finished:
    """Run a topology in virtual time until it is complete, or until `until`. For plain test functions.

    `during(run)` runs concurrently with the run. It may feed, kill and check, and may end the run by `run.stop()` or `run.drain()`. If it
    raises, the run ends and the exception is raised. `faults` are injected. Raises ComponentError if a component failed for good, and
    RunUnfinished after `limit_secs`, unless `until` is a number. The same topology, settings and seed give the same run, unless threads or
    sockets take part.
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
    """Run a topology on the running loop, in its virtual or real time. For tests that are coroutines. See `run_topology`."""
    chosen = config_of_run("run_topology_async", topology, config)
    captures: dict[str, Capture] = {}
    injector = FaultInjector(_with_captures_found(topology, captures), faults)
    run = start_run(injector.topology, chosen)
    run.may_forget = True
    reports: list[ErrorReport] = []
    run.on_report.append(reports.append)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with injector.attached(run):
        async with run:
            await _wait_for_end(run, until, during, limit_secs)
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
    hint = "Write: await run_topology_async(topology, ...)."
    raise UsageError("run_topology() starts its own loop, but a loop runs here already", hint=hint)


async def _wait_for_end(run: Run, until: Until | None, during: Script | None, limit_secs: float) -> None:
    """Wait until the run is complete and the script is over, or until `until`."""
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
        await asyncio.sleep(POLL_SECS)


def _unfinished(run: Run, limit_secs: float, script: "asyncio.Future[None] | None") -> RunUnfinished:
    snapshot = run.snapshot()
    lines = [
        f"  - {task.task_id} {component.component_id}: {task.status}; {task.waiting} waiting, {task.pending or 0} open trees, "
        f"{task.executed} executed, {task.acked} acked, {task.failed} failed"
        for component in snapshot.components.values()
        for task in component.tasks
    ]
    if script is not None and not script.done():
        lines.append("  - the script of the test (during) has not returned")
    listed = "\n".join(lines)
    return RunUnfinished(
        f"the run is still {snapshot.state} after its limit of {limit_secs:g} s. Its tasks:\n{listed}",
        hint="End the spouts (Feeder.close()), end the run with until=..., or raise limit_secs.",
    )


# Capture bolts are found when the factories create them.


def _with_captures_found(topology: Topology, captures: dict[str, Capture]) -> Topology:
    specs = {
        component_id: replace(spec, factory=_CaptureFinder(component_id, spec.factory, captures))
        for component_id, spec in topology.components.items()
    }
    return replace(topology, components=MappingProxyType(specs))


@dataclass(frozen=True, slots=True)
class _CaptureFinder:
    component_id: str
    inner: InstanceFactory
    captures: dict[str, Capture]

    def create(self) -> Any:
        instance = self.inner.create()
        if isinstance(instance, CaptureBolt):
            self.captures[self.component_id] = instance.capture
        return instance

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the factory alone, because a child process has no captures."""
        return copy.copy, (self.inner,)
