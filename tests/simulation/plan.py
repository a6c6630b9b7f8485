"""Plan of a simulated run, drawn from a seed: components, groupings, settings, faults, and the end of the run."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from engine import Config
from engine.api import MaxSpoutPending, OnError
from engine.testing import ACKER, DelayTuple, DropTuple, Fault, KillTask, RaiseError

SpoutKind = Literal[
    "plain", "async", "burst", "async burst", "generator", "async generator", "burst generator", "async burst generator", "inlet"
]
SPOUT_KINDS: tuple[SpoutKind, ...] = ("plain", "plain", "plain", "async", "async", "generator", "async generator", "inlet")
BoltKind = Literal["plain", "async", "burst", "async burst", "generator", "returning", "basic async", "threads"]
BOLT_KINDS: tuple[BoltKind, ...] = ("plain", "plain", "plain", "async", "async", "generator", "returning", "basic async", "threads")
WITH_BURSTS: dict[Any, Any] = {"plain": "burst", "async": "async burst"}
"""Kinds with single tuples, and the same with bursts."""
SPOUTS_WITH_BURSTS: dict[Any, Any] = WITH_BURSTS | {"generator": "burst generator", "async generator": "async burst generator"}
DIRECT_KINDS: tuple[BoltKind, ...] = ("plain", "async", "burst", "async burst")
"""Bolts with a direct stream."""
ASYNC_KINDS: tuple[BoltKind, ...] = ("async", "basic async")
Ending = Literal["complete", "drain", "stop", "pause"]
ENDINGS: tuple[Ending, ...] = ("complete", "drain", "stop", "pause")
Message = Literal["alive", "ready", "work", "close", "call", "changes", "returned"]
"""Moments of a kill: a sign of life, the end of the start, results of rows, and the close.

Of a bolt with state also: a call of its state, the changes at a PREPARE, and the result of a call.
"""
MESSAGES: tuple[Message, ...] = ("alive", "ready", "work", "work", "work", "close")
ON_ERROR: tuple[OnError, ...] = ("restart", "fail")
MANY_RESTARTS = 1000
"""Number of restarts that no simulated run uses up."""
GROUPINGS = ("shuffle", "fields", "all", "global", "none", "local_or_shuffle", "partial_key", "load_aware", "custom", "direct")


@dataclass(frozen=True)
class SpoutPlan:
    """Plan of one spout."""

    component_id: str
    tasks: int
    tuples: int
    """Number of tuples of each task."""
    batch: int
    """Emits per call."""
    pause_secs: float
    """Pause between two calls that emit."""
    kind: SpoutKind
    max_tries: int
    untracked: float
    """Share of emits without a message id."""
    error: float
    """Chance that a call raises after it emitted, or after it recorded a verdict."""
    on_error: OnError
    max_pending: MaxSpoutPending

    @property
    def is_in_order(self) -> bool:
        """Whether labels grow. Spouts that replay on their own emit old labels again."""
        return self.kind in ("plain", "async", "burst", "async burst")


@dataclass(frozen=True)
class BoltPlan:
    """Plan of one bolt."""

    component_id: str
    kind: BoltKind
    tasks: int
    inputs: tuple[tuple[str, str], ...]
    """(source, grouping) of each input."""
    fan_out: int
    concurrency: int
    tick_secs: float | None
    on_error: OnError
    fail: float
    error: float
    hold: float
    forget: float
    keep: float
    twice: float
    slow_secs: float
    in_order: bool
    """Whether inputs come with growing labels."""
    retries: int = 0
    processes: bool = False
    crash: float = 0.0
    """Chance that an input, or an emit for it, kills the process of the bolt."""


@dataclass(frozen=True, kw_only=True)
class ChildKill:
    """Kill of the process of a task, at its n-th message of a kind or at a time."""

    component_id: str
    task_index: int
    message: Message | None = None
    number: int = 1
    at_secs: float = 0.0
    """Time of a kill without a message."""


@dataclass(frozen=True)
class TaskRestart:
    """Restart of a task by an operator."""

    component_id: str
    task_index: int
    at_secs: float


@dataclass(frozen=True)
class Plan:
    """Plan of one simulated run."""

    seed: int
    spouts: tuple[SpoutPlan, ...]
    bolts: tuple[BoltPlan, ...]
    config: Config
    faults: tuple[Fault, ...]
    ending: Ending
    ending_secs: float
    hops: int
    child_kills: tuple[ChildKill, ...] = ()
    restarts: tuple[TaskRestart, ...] = ()

    @property
    def name(self) -> str:
        """Name of the topology."""
        return f"simulation {self.seed}"

    @property
    def may_fail(self) -> bool:
        """Whether a component may fail for good."""
        return self.config.max_task_restarts != MANY_RESTARTS or any(
            spout.kind in ("generator", "burst generator") and spout.error for spout in self.spouts
        )


def draw_plan(seed: int) -> Plan:
    """Draw everything that is decided before the run."""
    random = Random(f"plan {seed}")
    calm = random.random() < 0.1
    """No tuple is kept, dropped or forgotten, so timeouts may be off."""
    has_cycle = random.random() < 0.2
    pending: MaxSpoutPending = random.choice([None, "auto", 1, 3, 20]) if not has_cycle else random.choice([1, 2, 10])
    spouts = tuple(_spout(random, f"spout{number}", pending) for number in range(random.randint(1, 3)))
    bolts: list[BoltPlan] = []
    for number in range(random.randint(1, 5)):
        bolts.append(_bolt(random, f"bolt{number}", spouts, bolts, calm=calm))
    if has_cycle:
        bolts[0] = _with_back_edge(random, bolts[0], bolts[-1])
    config = _config(random, has_cycle=has_cycle, calm=calm)
    if pending == "auto" and config.acker_executors == 0:
        spouts = tuple(replace(spout, max_pending=None) for spout in spouts)
    horizon = max(spout.pause_secs * spout.tuples / spout.batch for spout in spouts) + 2
    count = random.choice([0, 2, 3, 5, 8, 12])
    faults = [_fault(random, (*spouts, *bolts), config.acker_executors, horizon, calm=calm) for _ in range(count)]
    ending: Ending = random.choices(ENDINGS, [7, 1, 1, 1])[0]
    struck = tuple(fault for fault in faults if fault is not None)
    plan = Plan(seed, spouts, tuple(bolts), config, struck, ending, random.uniform(0, horizon), hops=random.randint(1, 6))
    return _with_bursts(Random(f"calls with bursts {seed}"), plan)


def _with_bursts(random: Random, plan: Plan) -> Plan:
    """Let some components of every second plan take or emit bursts. Drawn apart, so that the seeds of earlier defects keep their plans."""
    if random.random() < 0.5:
        return plan
    spouts = tuple(replace(spout, kind=_kind(random, spout.kind, SPOUTS_WITH_BURSTS)) for spout in plan.spouts)
    bolts = tuple(replace(bolt, kind=_kind(random, bolt.kind, WITH_BURSTS)) if bolt.concurrency == 1 else bolt for bolt in plan.bolts)
    return replace(plan, spouts=spouts, bolts=bolts)


def with_retries(plan: Plan) -> Plan:
    """Let most bolts make their calls again, and raise more often. Drawn apart, so that the plan of the seed stays the same."""
    random = Random(f"retries {plan.seed}")
    bolts = tuple(replace(bolt, retries=random.choice([0, 1, 2, 5]), error=random.choice([0.03, 0.2, 0.6])) for bolt in plan.bolts)
    late = {bolt.component_id for bolt in bolts if bolt.retries and bolt.concurrency > 1}  # their emits leave when their calls return
    bolts = tuple(replace(bolt, in_order=bolt.in_order and not late & {source for source, _ in bolt.inputs}) for bolt in bolts)
    return replace(plan, bolts=bolts)


def _kind(random: Random, kind: Any, with_bursts: dict[Any, Any]) -> Any:
    return with_bursts.get(kind, kind) if random.random() < 0.5 else kind


def _spout(random: Random, component_id: str, pending: MaxSpoutPending) -> SpoutPlan:
    return SpoutPlan(
        component_id,
        tasks=random.randint(1, 3),
        tuples=random.randint(0, 25),
        batch=random.choice([1, 1, 2, 5]),
        pause_secs=random.choice([0, 0.01, 0.1, 0.3]),
        kind=random.choice(SPOUT_KINDS),
        max_tries=random.choice([1, 1, 3]),
        untracked=random.choice([0, 0, 0.2]),
        error=random.choice([0, 0, 0.02]),
        on_error=random.choice(ON_ERROR),
        max_pending=pending,
    )


def _bolt(random: Random, component_id: str, spouts: tuple[SpoutPlan, ...], before: list[BoltPlan], *, calm: bool) -> BoltPlan:
    kind = random.choice(BOLT_KINDS)
    direct = [bolt.component_id for bolt in before if bolt.kind in DIRECT_KINDS]
    choices = [*(spout.component_id for spout in spouts), *(bolt.component_id for bolt in before)]
    sources = random.sample(choices, k=min(random.choice([1, 1, 2]), len(choices)))
    wild = 0.0 if calm else random.choice([0, 0.5, 1])
    concurrency = random.randint(1, 4) if kind in ASYNC_KINDS else 1
    unordered = {spout.component_id for spout in spouts if not spout.is_in_order}
    unordered |= {bolt.component_id for bolt in before if bolt.kind == "threads"}  # threads reorder the labels that they pass on
    return BoltPlan(
        component_id,
        kind,
        tasks=random.randint(1, 3),
        inputs=tuple((source, random.choice(GROUPINGS if source in direct else GROUPINGS[:-1])) for source in sources),
        fan_out=random.choice([0, 1, 1, 2, 3]),
        concurrency=concurrency,
        tick_secs=random.choice([None, 0.5, 3.0]) if not calm else 1.0,
        on_error=random.choice(ON_ERROR),
        fail=random.choice([0, 0.05]),
        error=random.choice([0, 0.03]),
        hold=random.choice([0, 0.2]),
        forget=0.03 * wild,
        keep=0.02 * wild,
        twice=random.choice([0, 0.1]),
        slow_secs=random.choice([0, 0, 0.01, 0.5]),
        in_order=concurrency == 1 and kind != "threads" and not unordered & set(sources),
    )


def _with_back_edge(random: Random, first: BoltPlan, last: BoltPlan) -> BoltPlan:
    """Let the first bolt also subscribe to the last one, which may be itself."""
    inputs = (*first.inputs, (last.component_id, random.choice(["shuffle", "fields", "global"])))
    return replace(first, inputs=inputs, in_order=first.in_order and last.kind != "threads")


def _config(random: Random, *, has_cycle: bool, calm: bool) -> Config:
    ackers = random.choice([1, 1, 2, 5, 0 if random.random() < 0.3 else 3])
    return Config(
        acker_executors=max(ackers, 1) if has_cycle else ackers,  # without ackers nothing bounds a cycle
        message_timeout_secs=random.choice([5.0, 10.0, 20.0]),
        enable_message_timeouts=not calm,
        timeout_from="progress" if calm else random.choice(["progress", "progress", "emit"]),
        forgotten_ack="fail" if calm else random.choice(["fail", "fail", "wait"]),
        executor_receive_buffer_size=random.choice([2, 3, 10, 100, 32768]),
        burst=random.choice([1, 2, 16, 256]),
        max_task_restarts=random.choice([MANY_RESTARTS, MANY_RESTARTS, MANY_RESTARTS, 3]),
        trace_sample_rate=random.choice([0.0, 0.0, 1.0]),
        seed=random.getrandbits(32),
    )


def _fault(random: Random, components: tuple[SpoutPlan | BoltPlan, ...], ackers: int, horizon: float, *, calm: bool) -> Fault | None:
    """Draw one fault; None if it does not fit the plan."""
    component = random.choice(components)
    secs = random.uniform(0, random.choice([0.01, 0.1, 1, horizon]))
    kind = random.choice(["kill", "kill", "kill", "acker", "acker", "kill at call", "raise", "raise early", "drop", "delay"])
    if kind == "kill":
        return KillTask(component.component_id, random.randrange(component.tasks), at_secs=secs)
    if kind == "acker":
        return KillTask(ACKER, random.randrange(ackers), at_secs=secs) if ackers else None
    if kind == "kill at call":
        counted = random.choice(components).component_id
        return KillTask(component.component_id, random.randrange(component.tasks), at_call=random.randint(1, 40), of=counted)
    if kind == "raise":
        return RaiseError(component.component_id, at_call=random.randint(1, 40))
    if kind == "raise early":
        method = "open" if isinstance(component, SpoutPlan) else "prepare"
        return RaiseError(component.component_id, at_call=random.randint(1, 4), method=method)
    if isinstance(component, SpoutPlan) or component.kind == "threads" or (kind == "drop" and calm):
        return None
    link, number = (random.choice(component.inputs)[0], component.component_id), random.randint(1, 20)
    return DropTuple(*link, number) if kind == "drop" else DelayTuple(*link, number, random.uniform(0, 3))
