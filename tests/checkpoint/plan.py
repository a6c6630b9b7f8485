"""Plan of a simulated topology with state and of its processes, drawn from one seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from engine import Config
from engine.names import CHECKPOINT_COMPONENT
from engine.testing import ACKER, DelayTuple, DropTuple, Fault, RaiseError
from tests.checkpoint import process
from tests.checkpoint.committer_world import NAME, NO_FAULTS, CommitterFaults, CommitterPlan, draw_committer, draw_faults
from tests.checkpoint.process import PROVIDER
from tests.checkpoint.slow_store import StoreStrike
from tests.checkpoint.world import BoltPlan, Remember, Tells, World, behind_a_stateless_bolt, draw_world
from tests.simulation.plan import ChildKill, TaskRestart

MESSAGES: Final = (5, 20, 40)
COMMITTERS: Final = 0.35
"""Part of the topologies with a source that rewinds that have a committer."""
HOOKS: Final = ("init_state", "pre_prepare", "pre_commit", "pre_rollback", "execute", "prepare")
STORE_STEPS: Final = (
    *(f"{when} {what}" for what in ("write", "stage", "fold") for when in ("before", "after")),
    "within stage",
    "within fold",
    "before load",
    "within load",
    "before deltas",
    "after deltas",
    "after drop",
    "after claim",
    "after read",
    "before store",
)


@dataclass(frozen=True, kw_only=True)
class ProcessPlan(process.ProcessPlan):
    """Settings and faults of one process."""

    tasks: Mapping[str, int]
    faults: Sequence[Fault]
    fails: float
    waits: float
    fails_early: bool = False
    """Stateless bolts fail some messages (`Chance.early`)."""
    child_kills: Sequence[ChildKill] = ()
    restarts: Sequence[TaskRestart] = ()
    crash: float = 0.0
    """Chance that a child process kills itself at a step of an instance, or that this step raises."""
    of_committer: CommitterFaults = NO_FAULTS


@dataclass(frozen=True)
class Plan:
    """A whole topology, from its first process to the one that completes it."""

    seed: int
    world: World
    resident: bool
    fold_txids: int
    is_calm: bool
    processes: Sequence[ProcessPlan]
    """The last process runs to the end."""
    committer: CommitterPlan | None = None


def draw_plan(seed: int, *, is_calm: bool | None = None) -> Plan:
    """Draw a plan."""
    draws = random.Random(seed)
    calm = draws.random() < 0.2 if is_calm is None else is_calm
    world = draw_world(draws, draws.choice(MESSAGES))
    early = random.Random(f"{seed} failures of stateless bolts")
    owes = early.random() < 0.4
    if owes:
        world = behind_a_stateless_bolt(early, world)
    for source in world.sources:
        source.pace_secs, source.draws = draws.choice([0.0, 0.01, 0.1, 0.5]), random.Random(f"{seed} pace of {source.name}")
        rewinds = random.Random(f"{seed} positions of {source.name}")
        source.rewinds, source.has_ids = owes or rewinds.random() < 0.5, rewinds.random() < 0.5
        times = random.Random(f"{seed} times")
        source.is_timed, source.waits_for_acks = times.random() < 0.7, not calm or times.random() < 0.3
    if all(source.rewinds for source in world.sources):
        world.bolts = _some_without_anchors(random.Random(f"{seed} anchors"), world.bolts)
    deaths = 0 if calm else draws.choice([0, 0, 0, 1, 1, 2, 3])
    resident, fold_txids, base = draws.random() < 0.5, draws.choice([1, 2, 4, 30]), _drawn_config(draws, is_calm=calm)
    processes = [_drawn_process(draws, world, base, is_calm=calm, dies=number < deaths) for number in range(deaths)]
    for _ in range(2):  # an outage may last longer than the timeout of one process
        processes.append(_drawn_process(draws, world, base, is_calm=calm, dies=False))
    if not calm:
        processes = [replace(process, fails_early=owes or early.random() < 0.4) for process in processes]
    processes.append(_drawn_process(draws, world, base, is_calm=True, dies=False))
    return _with_committer(Plan(seed, world, resident, fold_txids, calm, processes))


def _some_without_anchors(draws: random.Random, bolts: Sequence[BoltPlan]) -> list[BoltPlan]:
    """Let some stateful bolts emit without anchors, in a third of the topologies."""
    if draws.random() < 0.67:
        return list(bolts)
    return [replace(bolt, kind=Tells) if bolt.kind is Remember and draws.random() < 0.7 else bolt for bolt in bolts]


def _with_committer(plan: Plan) -> Plan:
    """Return the plan with a committer, in some topologies with a source that rewinds. Drawn apart, so that the plan stays the same."""
    draws = random.Random(f"{plan.seed} committer")
    if not any(source.rewinds for source in plan.world.sources) or draws.random() >= COMMITTERS:
        return plan
    committer, tasks = draw_committer(draws, plan.world), draws.randint(1, 3)
    processes = []
    for number, process_plan in enumerate(plan.processes, 1):
        tasks = draws.choice([tasks, draws.randint(1, 3)])
        is_last = number == len(plan.processes)
        faults = NO_FAULTS if plan.is_calm or is_last else draw_faults(draws)
        if is_last:  # each burst is a blob, and a slow store takes long for many of them
            process_plan = replace(process_plan, config=process_plan.config.replace(checkpoint_timeout_secs=600))
        processes.append(_committing(process_plan, tasks, faults))
    return replace(plan, processes=processes, committer=committer)


def _committing(plan: ProcessPlan, tasks: int, faults: CommitterFaults) -> ProcessPlan:
    strikes, kills = [*plan.strikes, *faults.strikes], [*plan.kills, *faults.kills]
    return replace(plan, tasks={**plan.tasks, NAME: tasks}, strikes=strikes, kills=kills, of_committer=faults)


def _drawn_config(draws: random.Random, *, is_calm: bool) -> Config:
    return Config(
        state_provider=PROVIDER,
        max_spout_pending=draws.choice([None, 1, 7, 50]),
        state_checkpoint_interval_ms=draws.choice([100, 150, 1000, 5000]),
        checkpoint_timeout_secs=600 if is_calm else draws.choice([600, 600, 60, 15]),
        state_timeout_secs=draws.choice([20, 60]),
        state_cache_keys=draws.choice([1, 3, 100_000]),
        acker_executors=draws.choice([1, 1, 2]),
        executor_receive_buffer_size=draws.choice([2, 16, 32768]),
        burst=draws.choice([1, 8, 256]),
        max_task_restarts=10_000,
        max_retries=None,
        key_groups=16,
    )


def _drawn_process(draws: random.Random, world: World, base: Config, *, is_calm: bool, dies: bool) -> ProcessPlan:
    tasks = {bolt.name: draws.randint(1, 3) if bolt.is_keyed and draws.random() < 0.5 else bolt.tasks for bolt in world.bolts}
    victims = [*(name for name in tasks), *(source.name for source in world.sources), ACKER, CHECKPOINT_COMPONENT, CHECKPOINT_COMPONENT]
    span = draws.choice([0.5, 2.0, 20.0])
    kills: list[tuple[float, tuple[str | None, int]]] = []
    strikes, outages, faults = [], [], []
    if not is_calm:
        keepers = [bolt.name for bolt in world.stateful]
        strikes = [_drawn_strike(draws, draws.choice([*victims, *keepers, *keepers])) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        kills = [(span * draws.random() ** 2, (draws.choice(victims), draws.randrange(3))) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        faults = [_drawn_fault(draws, world) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        if any(source.rewinds for source in world.sources):  # no code of ours or of a user's can lose a tuple without a trace
            faults = [fault for fault in faults if not isinstance(fault, DropTuple)]
        if draws.random() < 0.2:
            begin = span * draws.random()
            outages = [(begin, begin + draws.choice([0.3, 3.0, 12.0, 150.0]))]
    if dies and draws.random() < 0.5:
        strikes.append(_drawn_strike(draws, None))
    ending: tuple[Literal["stop", "drain"], float] | None = None
    if dies and draws.random() < 0.3:
        ending = (draws.choice(["stop", "drain"]), span * draws.random())
    elif dies:
        kills.append((span * draws.random(), (None, 0)))
    return ProcessPlan(
        config=base.replace(seed=draws.getrandbits(32)),
        tasks=tasks,
        scale_secs=draws.choice([0.0, 0.001, 0.05, 0.05, 0.4]),
        failure_chance=0.0 if is_calm else draws.choice([0.0, 0.0, 0.02, 0.15]),
        outages=outages,
        strikes=strikes,
        kills=kills,
        ending=ending,
        faults=faults,
        fails=0.0 if is_calm else draws.choice([0.0, 0.0, 0.02]),
        waits=draws.choice([0.0, 0.0, 0.2, 0.5]),
    )


def _drawn_strike(draws: random.Random, victim: str | None) -> StoreStrike:
    step = draws.choice(STORE_STEPS[:2] if draws.random() < 0.4 else STORE_STEPS[:8] if draws.random() < 0.7 else STORE_STEPS[8:])
    return StoreStrike(step, draws.randint(1, 30 if step.endswith("write") else 12), victim, draws.randrange(3))


def _drawn_fault(draws: random.Random, world: World) -> Fault:
    if draws.random() < 0.2:
        bolt = draws.choice(world.bolts)
        source, number = draws.choice(sorted(bolt.inputs)), draws.randint(1, 30)
        late = DelayTuple(source, bolt.name, number, draws.choice([0.5, 5.0, 40.0]))
        faults: list[Fault] = [DropTuple(source, bolt.name, number), late]
        return draws.choice(faults)
    method = draws.choice(HOOKS)
    victim = draws.choice(world.stateful).name
    number = draws.randint(1, 40) if method == "execute" else draws.randint(1, 4)
    return RaiseError(victim, at_call=number, method=method)
