"""Watermarks through random topologies without a rollback, against a plain model (ET-1, ET-3).

`tests/checkpoint/simulate.py` draws event times, too, for topologies with states, rollbacks and kills.
"""

import asyncio
import random
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pytest

from engine import Config, Run, Topology, TopologyBuilder
from engine.event_time import END_OF_TIME, NO_WATERMARK, EventTime
from engine.testing import run_topology
from tests.event_time.marks_world import KINDS, PartitionPlan, Rows, TaskPlan, World, expected, made
from tests.simulation.child_kills import impatient_loops

GROUPS: Final = 30
"""Each has five seeds. `make test` runs the first 24 groups."""
FAST_GROUPS: Final = 24
SEEDS: Final = 5
IDLE_SECS: Final = 3.0
EXPECTED_ERRORS: Final = ("ValueError: again", "ValueError: diverted", "restarted by request")
LOOK_SECS: Final = 0.5
"""Longest time until a source has looked at its watermark, and it has arrived at a bolt that only notes it."""


@dataclass
class BoltPlan:
    """One bolt."""

    name: str
    kind: str
    tasks: int
    inputs: list[tuple[str, str, bool]]
    """Component and stream, and whether the rows are grouped by their number."""
    checks: bool


@dataclass
class Plan:
    """A random topology, and what happens in its run."""

    seed: int
    sources: dict[str, list[TaskPlan]] = field(default_factory=dict)
    bolts: list[BoltPlan] = field(default_factory=list)
    waits_for_acks: bool = False
    fails: float = 0.0
    restarts: list[tuple[float, str, int]] = field(default_factory=list)
    """Seconds, component and index of the task."""
    pauses: list[tuple[float, float]] = field(default_factory=list)

    @property
    def is_calm(self) -> bool:
        """True if the watermark of each source is known at each time."""
        restarted = {name for _, name, _ in self.restarts}
        stateful = any(bolt.kind == "stateful" for bolt in self.bolts)  # whose barriers hold the sources for a while
        return not (restarted & {*self.sources} or self.pauses or self.waits_for_acks or stateful)


def draw_plan(seed: int, *, processes: bool = False) -> Plan:
    """Return the plan of a seed."""
    draws = random.Random(f"marks {seed}")
    plan = Plan(seed, waits_for_acks=draws.random() < 0.25)
    for number in range(draws.choice((1, 1, 2))):
        until = draws.uniform(8, 20)
        plan.sources[f"source{number}"] = [draw_task(draws, until) for _ in range(draws.choice((1, 1, 2)))]
    kinds = [kind for kind in KINDS if kind != "process" and (kind != "stateful" or draws.random() < 0.3)]
    for number in range(draws.randint(1, 5)):
        kind = "stateful" if number == 0 and "stateful" in kinds else draws.choice(kinds)
        draw_bolt(draws, plan, f"bolt{number}", kind)
    if processes:
        draw_bolt(draws, plan, "child", "process")
        draw_bolt(draws, plan, "behind", "plain", ["child"])
    has_state = any(bolt.kind == "stateful" for bolt in plan.bolts)
    diverted = [(bolt.name, "failed", False) for bolt in plan.bolts if bolt.kind == "diverts"]
    if diverted:
        plan.bolts.append(BoltPlan("diverted", "diverted", draws.randint(1, 2), diverted, checks=True))
    if plan.waits_for_acks:
        plan.fails = draws.choice((0.0, 0.05))
    for _ in range(0 if has_state else draws.choice((0, 0, 1, 3))):
        name = draws.choice([*plan.sources, *(bolt.name for bolt in plan.bolts)])
        tasks = len(plan.sources[name]) if name in plan.sources else next(bolt.tasks for bolt in plan.bolts if bolt.name == name)
        until = draws.choice([source[0].until for source in plan.sources.values()])
        # Near the end, because the end of a source is the mark that no later one replaces.
        when = draws.choice((draws.uniform(0.5, 18), until + draws.uniform(0, 1.2)))
        plan.restarts.append((when, name, draws.randrange(tasks)))
    if draws.random() < 0.2:
        begin = draws.uniform(1, 8)
        plan.pauses.append((begin, begin + draws.uniform(0.5, 8)))
    return plan


def draw_task(draws: random.Random, until: float) -> TaskPlan:
    """Return the plan of a task of a source: one partition with rows all the time, and others with rows now and then."""
    partitions = [PartitionPlan("always", [(0.0, until)])]
    for number in range(draws.choice((0, 1, 1, 2))):
        begin = draws.choice((0.0, draws.uniform(0, until)))
        active = [(begin, begin + draws.uniform(0.5, 3))]
        if draws.random() < 0.5:
            again = active[0][1] + draws.uniform(0.5, 9)
            active.append((again, again + draws.uniform(0.5, 3)))
        partitions.append(PartitionPlan(f"sometimes{number}", active))
    begin = draws.choice((0.0, draws.uniform(0, until)))
    unknown = [(begin, begin + draws.uniform(0.5, 5))] if draws.random() < 0.3 else []
    return TaskPlan(partitions, unknown, draws.choice((0.02, 0.1, 0.1, 0.4)), draws.choice((0.0, 0.5, 3.0)), until)


def draw_bolt(draws: random.Random, plan: Plan, name: str, kind: str, inputs: list[str] | None = None) -> None:
    """Add a bolt behind one or two of the components that there are."""
    if inputs is None:
        before = [*plan.sources, *(bolt.name for bolt in plan.bolts)]
        inputs = draws.sample(before, min(len(before), draws.choice((1, 1, 2))))
    streams = [(each, "default", draws.random() < 0.5) for each in inputs]
    plan.bolts.append(BoltPlan(name, kind, draws.randint(1, 3), streams, checks=kind == "plain" or draws.random() < 0.8))


def topology_of(plan: Plan, world: World) -> Topology:
    """Return the topology of a plan. Each source has one more bolt, which only notes its watermarks."""
    builder = TopologyBuilder("marks")
    for name, tasks in plan.sources.items():
        bound = max(task.bound_secs for task in tasks)
        for task in tasks:
            task.bound_secs = bound
        settings = EventTime(
            "at", unit="us", max_out_of_order=timedelta(seconds=bound), idle_secs=IDLE_SECS, wait_for_acks=plan.waits_for_acks
        )
        builder.set_spout(name, lambda name=name, tasks=tasks: Rows(world, name, tasks), len(tasks), event_time=settings)
        builder.set_bolt(f"tap-{name}", made(world, f"tap-{name}", "plain", checks=True)).shuffle_grouping(name)
    for bolt in plan.bolts:
        options: dict[str, Any] = {"processes": True} if bolt.kind == "process" else {}
        declarer = builder.set_bolt(bolt.name, made(world, bolt.name, bolt.kind, checks=bolt.checks), bolt.tasks, **options)
        for source, stream, by_number in bolt.inputs:
            if by_number:
                declarer.fields_grouping(source, "number", stream=stream)
            else:
                declarer.shuffle_grouping(source, stream=stream)
    return builder.build()


def simulate(plan: Plan) -> World:
    """Run a plan, and return its world with all violations."""
    world = World(random.Random(f"world {plan.seed}"), plan.fails)

    async def at(secs: float, run: Run) -> None:
        await asyncio.sleep(max(0.0, secs - world.secs(asyncio.get_running_loop().time())))

    async def restart(run: Run) -> None:
        for secs, name, index in sorted(plan.restarts):
            await at(secs, run)
            if run.state == "running":
                run.restart_task(run.snapshot().components[name].tasks[index].task_id)

    async def pause(run: Run) -> None:
        for begin, end in plan.pauses:
            await at(begin, run)
            if run.state == "running":
                await run.deactivate()
                await at(end, run)
                await run.activate()

    async def script(run: Run) -> None:
        await asyncio.gather(restart(run), pause(run))

    config = Config(seed=plan.seed, processing_guarantee="at_least_once", state_checkpoint_interval_ms=700, slow_call_warn_ms=60_000)
    loops = impatient_loops() if any(bolt.kind == "process" for bolt in plan.bolts) else nullcontext()
    with loops:
        finished = run_topology(topology_of(plan, world), config, during=script, shuffle=plan.seed % 2 == 0, limit_secs=600)
    if finished.state != "complete":
        world.violations.append(f"the run is {finished.state}")
    world.violations += [each.text for each in finished.errors if not any(expected in each.text for expected in EXPECTED_ERRORS)]
    judge_end(plan, world)
    if plan.is_calm:
        judge_sources(plan, world)
    return world


def judge_end(plan: Plan, world: World) -> None:
    """At the end each task has been told so, whatever has happened to it (ET-3)."""
    names = [*((bolt.name, bolt.tasks) for bolt in plan.bolts if bolt.checks and bolt.kind != "process")]
    for name, tasks in [*names, *((f"tap-{source}", 1) for source in plan.sources)]:
        for index in range(tasks):
            if world.last.get((name, index)) != END_OF_TIME:
                world.violations.append(f"{name}, task {index}: its last watermark is {world.last.get((name, index))}")


def judge_sources(plan: Plan, world: World) -> None:
    """Compare the watermark of each source with a plain model, each half second: an idle partition does not hold it, any other one does."""
    for name, tasks in plan.sources.items():
        told = world.told[f"tap-{name}", 0]
        least, most = [NO_WATERMARK] * len(tasks), [NO_WATERMARK] * len(tasks)
        for step in range(4, int(tasks[0].until * 4)):
            now = step / 4
            here = max((watermark for secs, watermark in told if secs <= now), default=NO_WATERMARK)
            for index, task in enumerate(tasks):  # the watermark of each task never falls
                rows = world.greatest[name, index]
                least[index] = max(least[index], held_at(rows, task, now - LOOK_SECS, IDLE_SECS + LOOK_SECS))
                most[index] = max(most[index], best_until(rows, task, now, IDLE_SECS))
            if not min(least) <= here <= min(most):
                world.violations.append(f"tap-{name}: at {now} s its watermark is {here}, and not from {least} to {most}")
                return


def held_at(rows: list[tuple[float, str, int]], plan: TaskPlan, now: float, idle_secs: float) -> int:
    """Return the least watermark that a task has sent by now: it was the same for the time of two looks."""
    return min(expected(rows, plan, now - back / 10, idle_secs) for back in range(5))


def best_until(rows: list[tuple[float, str, int]], plan: TaskPlan, now: float, idle_secs: float) -> int:
    """Return the greatest watermark that a task may have had in the last half second."""
    times = {now - back / 20 for back in range(12)} | {secs for secs, _, _ in rows if now - 0.6 < secs <= now}
    return max(expected(rows, plan, each, idle_secs) for each in times if each >= 0)


@pytest.mark.guarantee("ET-1", "ET-3")
@pytest.mark.parametrize("group", [pytest.param(each, marks=[pytest.mark.deep] if each >= FAST_GROUPS else []) for each in range(GROUPS)])
def test_watermarks_stay_behind_their_rows_in_random_topologies(group: int) -> None:
    checked = 0
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        world = simulate(draw_plan(seed))
        assert world.violations == [], f"seed {seed}"
        checked += world.checked
    assert checked > 100


@pytest.mark.guarantee("ET-1", "ET-3")
@pytest.mark.parametrize("seed", [pytest.param(each, marks=[pytest.mark.deep] if each else []) for each in range(10)])
def test_watermarks_stay_behind_their_rows_with_processes(seed: int) -> None:
    world = simulate(draw_plan(seed, processes=True))
    assert world.violations == [], f"seed {seed}"
