"""Plan of the processes of a random transactional topology, drawn from one seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from engine import Config
from engine.testing import ACKER
from tests.checkpoint import process
from tests.checkpoint.process import PROVIDER
from tests.checkpoint.slow_store import StoreStrike
from tests.transactional.model.faults import POINTS, PlannedFault, What
from tests.transactional.model.shape import SPOUT, Shape, draw_shape

COORDINATOR: Final = f"{SPOUT}/coordinator"
STORE_STEPS: Final = ("before write", "after write", "after claim", "before read", "after read")
WHATS: Final[Sequence[What]] = ("fail", "fail", "report", "raise", "raise", "kill", "kill", "cancel")


@dataclass(frozen=True, kw_only=True)
class ProcessPlan(process.ProcessPlan):
    """Settings and faults of one process."""

    emitters: int
    most_open: int
    source_is_slow: bool
    waits: float
    longest_secs: float
    faults: Sequence[PlannedFault]


@dataclass(frozen=True)
class Plan:
    """A whole topology, from its first process to the one that completes it."""

    seed: int
    shape: Shape
    is_calm: bool
    processes: Sequence[ProcessPlan]
    """The last process runs to the end."""


def draw_plan(seed: int, *, is_calm: bool | None = None) -> Plan:
    """Draw a plan."""
    draws = random.Random(seed)
    calm = draws.random() < 0.1 if is_calm is None else is_calm
    shape = draw_shape(draws)
    base = _drawn_config(draws)
    if calm:
        base = base.replace(batch_timeout_secs=600)  # a source may be slow
    deaths = 0 if calm else draws.choice([0, 0, 0, 1, 1, 2, 3])
    processes = [_drawn_process(draws, shape, base, is_calm=calm, dies=number < deaths) for number in range(deaths)]
    for _ in range(2):  # an outage may last longer than the timeout of one process
        processes.append(_drawn_process(draws, shape, base, is_calm=calm, dies=False))
    processes.append(_drawn_process(draws, shape, base, is_calm=True, dies=False))
    return Plan(seed, shape, calm, processes)


def _drawn_config(draws: random.Random) -> Config:
    return Config(
        state_provider=PROVIDER,
        state_timeout_secs=draws.choice([20, 60]),
        batch_interval_ms=draws.choice([10, 100, 500]),
        batch_timeout_secs=draws.choice([600, 600, 60]),
        acker_executors=draws.choice([1, 1, 2]),
        executor_receive_buffer_size=draws.choice([2, 16, 32768]),
        burst=draws.choice([1, 8, 256]),
        max_task_restarts=10_000,
        key_groups=16,
    )


def _drawn_process(draws: random.Random, shape: Shape, base: Config, *, is_calm: bool, dies: bool) -> ProcessPlan:
    span = draws.choice([0.05, 0.5, 2.0, 10.0])
    kills: list[tuple[float, tuple[str | None, int]]] = []
    strikes: list[StoreStrike] = []
    faults: list[PlannedFault] = []
    outages: list[tuple[float, float]] = []
    if not is_calm:
        strikes = [_drawn_store_strike(draws, *_drawn_victim(draws, shape)) for _ in range(draws.choice([0, 0, 1, 2]))]
        kills = [(span * draws.random() ** 2, _drawn_victim(draws, shape)) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        faults = [_drawn_fault(draws, shape) for _ in range(draws.choice([0, 1, 2, 4, 8]))]
        if draws.random() < 0.1:
            begin = span * draws.random()
            outages = [(begin, begin + draws.choice([0.3, 3.0, 12.0, 150.0]))]
    ending: tuple[Literal["stop", "drain"], float] | None = None
    if dies:
        way = draws.random()
        if way < 0.2:
            ending = (draws.choice(["stop", "drain"]), span * draws.random())
        elif way < 0.5:
            strikes.append(_drawn_store_strike(draws, None, 0))
        elif way < 0.8:
            faults.append(PlannedFault(draws.choice(POINTS), draws.randint(1, 20), "process"))
        else:
            kills.append((span * draws.random(), (None, 0)))
    return ProcessPlan(
        config=base.replace(seed=draws.getrandbits(32)),
        emitters=draws.randint(1, 3),
        most_open=draws.randint(1, 8),
        source_is_slow=draws.random() < 0.5,
        waits=draws.choice([0.0, 0.0, 0.2, 0.5]),
        longest_secs=draws.choice([0.1, 1.0, 5.0]),
        scale_secs=draws.choice([0.0, 0.001, 0.05, 0.4]),
        failure_chance=0.0 if is_calm else draws.choice([0.0, 0.0, 0.02, 0.15]),
        outages=outages,
        strikes=strikes,
        faults=faults,
        kills=kills,
        ending=ending,
    )


def _drawn_victim(draws: random.Random, shape: Shape) -> tuple[str, int]:
    committers = [bolt.name for bolt in shape.bolts if bolt.is_committer]
    victims = [SPOUT, COORDINATOR, ACKER, *(bolt.name for bolt in shape.bolts), *committers]
    return draws.choice(victims), draws.randrange(3)


def _drawn_store_strike(draws: random.Random, victim: str | None, task_index: int) -> StoreStrike:
    step = draws.choice(STORE_STEPS[:2] if draws.random() < 0.8 else STORE_STEPS)
    return StoreStrike(step, draws.randint(1, 12 if step.endswith("write") else 2), victim, task_index)


def _drawn_fault(draws: random.Random, shape: Shape) -> PlannedFault:
    point = draws.choice(POINTS)
    what: What = "lose" if point == "execute" and draws.random() < 0.3 else draws.choice(WHATS)
    victim = _drawn_victim(draws, shape) if what == "kill" and draws.random() < 0.5 else None
    rare = point in ("open", "prepare task")
    return PlannedFault(point, draws.randint(1, 4 if rare else 40), what, victim)
