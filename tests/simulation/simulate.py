"""Simulates a random topology with random faults under the virtual clock."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine import ComponentError, Run, Spout, Topology, TopologyBuilder
from engine.testing import ACKER, Finished, KillTask, RunUnfinished, Schedule, VirtualLoopError, run_topology
from tests.simulation.child_kills import ChildKills, impatient_loops
from tests.simulation.child_world import ChildWorld
from tests.simulation.complaints import report_complaints
from tests.simulation.components import BOLTS, SOURCES, Scatter, generator_of, inlet_of, send_all
from tests.simulation.judge import Judge
from tests.simulation.plan import BoltPlan, Plan, SpoutPlan, draw_plan, with_retries
from tests.simulation.process_plan import draw_process_plan
from tests.simulation.world import SourceBook, World

LIMIT_SECS = 3000.0


@dataclass(frozen=True)
class Simulated:
    """Result of one simulated run."""

    seed: int
    state: str
    roots: int
    replaced: int
    """Number of instances that were replaced."""
    killed: tuple[str, ...]
    """Kind of component of each injected death: spout, bolt or acker."""
    faults: int
    secs: float
    violations: tuple[str, ...]
    trace: tuple[Any, ...]
    has_processes: bool = False
    has_retries: bool = False

    def describe(self) -> str:
        """Return the violations, and the command that replays the run."""
        lines = "\n".join(f"  - {violation}" for violation in self.violations)
        options = " --processes" * self.has_processes + " --retries" * self.has_retries
        replay = f"python -m tests.simulation {self.seed}{options}"
        return f"seed {self.seed}: {len(self.violations)} violations\n{lines}\nReplay: {replay}"


def simulate(seed: int, *, processes: bool = False, retries: bool = False, quiet: bool = True) -> Simulated:
    """Run the plan of a seed, and judge it. With `quiet`, the engine's log of the injected errors is off.

    With `processes`, some bolts are in child processes. Then the seed repeats the plan, and the schedule only nearly.
    With `retries`, most bolts make their calls again, and raise more often.
    """
    plan = draw_process_plan(seed) if processes else draw_plan(seed)
    if retries:
        plan = with_retries(plan)
    world = World(seed, plan.config.message_timeout_secs)
    judge, child_kills = Judge(world, plan), ChildKills(plan.child_kills, plan.restarts)
    with report_complaints(world.add_violation, quiet=quiet), impatient_loops() if processes else nullcontext():
        finished = _run(plan, world, judge, child_kills)
        judge.judge(finished)
        judge.judge_children()
        trace = tuple(world.trace)
        judge.judge_memory()  # inside the block, because the collection reveals coroutines that were never awaited
    strikes = finished.strikes if finished else ()
    components = finished.snapshot.components.values() if finished else ()
    return Simulated(
        seed=seed,
        state=finished.state if finished else "failed",
        roots=world.roots,
        replaced=sum(component.restarts for component in components),
        killed=(*(_kind(strike.fault.component_id) for strike in strikes if isinstance(strike.fault, KillTask)), *child_kills.killed),
        faults=len(strikes),
        secs=finished.secs if finished else 0.0,
        violations=tuple(world.violations),
        trace=trace,
        has_processes=processes,
        has_retries=retries,
    )


def _kind(component_id: str) -> str:
    return "acker" if component_id == ACKER else component_id.rstrip("0123456789")


def build(plan: Plan, world: World) -> Topology:
    """Build the topology of a plan."""
    builder = TopologyBuilder(plan.name)
    for spout in plan.spouts:
        _set_spout(builder, spout, plan.hops, world)
    for bolt in plan.bolts:
        _set_bolt(builder, bolt, world)
    return builder.build()


def _set_spout(builder: TopologyBuilder, plan: SpoutPlan, hops: int, world: World) -> None:
    make: Callable[[], Spout]
    if plan.kind == "inlet":
        make = inlet_of(world)
    elif plan.kind in SOURCES:
        make = partial(SOURCES[plan.kind], world, plan, hops)
        for index in range(plan.tasks):
            world.books[plan.component_id, index] = SourceBook(deque(range(plan.tuples)))
    else:
        make = generator_of(world, plan, hops)
    builder.set_spout(plan.component_id, make, plan.tasks, on_error=plan.on_error, max_spout_pending=plan.max_pending)


def _set_bolt(builder: TopologyBuilder, plan: BoltPlan, world: World) -> None:
    settings: dict[str, Any] = {
        "on_error": plan.on_error,
        "concurrency": plan.concurrency,
        "tick_tuple_freq_secs": plan.tick_secs,
        "retries": plan.retries,
    }
    if plan.kind == "threads":
        settings["threads"] = 2
    if plan.processes:
        settings["processes"] = True
    its_world = ChildWorld(f"{world.seed} {plan.component_id}", plan.crash) if plan.processes else world
    declarer = builder.set_bolt(plan.component_id, partial(BOLTS[plan.kind], its_world, plan), plan.tasks, **settings)
    for source, grouping in plan.inputs:
        if grouping in ("fields", "partial_key"):
            getattr(declarer, f"{grouping}_grouping")(source, "label")
        elif grouping == "custom":
            declarer.custom_grouping(source, Scatter)
        elif grouping == "direct":
            declarer.direct_grouping(source, "direct")
        else:
            getattr(declarer, f"{grouping}_grouping")(source)


def _run(plan: Plan, world: World, judge: Judge, child_kills: ChildKills) -> Finished | None:
    """Run it; None if a component failed for good, which a plan with few restarts allows."""

    async def script(run: Run) -> None:
        judge.watch(run)
        inlets = [spout for spout in plan.spouts if spout.kind == "inlet"]
        sends = (send_all(world, spout, plan.hops, run.inlet(spout.component_id)) for spout in inlets)
        await asyncio.gather(_end(plan, run), child_kills.play(run), *sends)

    try:
        topology = build(plan, world)
        limits: Schedule = {"shuffle": True, "limit_secs": LIMIT_SECS, "real_limit_secs": 120}
        return run_topology(topology, plan.config, during=script, faults=plan.faults, **limits)
    except ComponentError as error:
        if not plan.may_fail:
            world.add_violation(f"the run failed: {error}")
    except (RunUnfinished, VirtualLoopError) as error:
        world.add_violation(f"the run did not end: {error}")
    return None


async def _end(plan: Plan, run: Run) -> None:
    """Let the run complete, or end or interrupt it."""
    if plan.ending == "complete":
        return
    await asyncio.sleep(plan.ending_secs)
    if run.state != "running":
        return
    if plan.ending == "stop":
        await run.stop()
    elif plan.ending == "drain":
        await run.drain(timeout_secs=500)
    else:
        await run.deactivate()
        await asyncio.sleep(3)
        if run.state == "running":
            await run.activate()
