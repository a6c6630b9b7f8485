"""Random deaths from a seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.kills.bolt_forms import BOLTS
from tests.spark_bridge.kills.places import ROWS
from tests.spark_bridge.kills.striking import BETWEEN, POINTS
from tests.spark_bridge.writer.killed import STEPS

LOCAL_VICTIMS: Final = ("pipeline", "child", "jvm", "point", "point")
CLUSTER_VICTIMS: Final = ("executor", "executor", "worker", "child", "pipeline")
STARTING_SHARE: Final = 0.15
"""Share of deaths of whole processes that happen while they start."""
STEP_SHARE: Final = 0.4
"""Share of deaths of engines at a named step."""


@dataclass(frozen=True, kw_only=True)
class PipelineDeath:
    """Death on Spark's side, `secs` after the progress of a query."""

    victim: str
    query: str
    """Query whose progress is awaited, or which dies at the point."""
    point: str | None = None
    secs: float = 0.0
    starts: bool = False
    """True: it dies while Spark starts, without waiting for progress."""

    @property
    def name(self) -> str:
        """Return the name under which the death is counted."""
        return self.point or self.victim


@dataclass(frozen=True, kw_only=True)
class EngineDeath:
    """Death of the engine, at a step for the n-th time, or some seconds after its start or a commit."""

    step: str | None = None
    number: int = 1
    secs: float = 0.0
    from_the_beginning: bool = False
    batch: int = 5
    pending: int = 3
    bolts: str = "plain"
    strike: float | None = None
    """Chooses the process of a bolt that dies before the engine. None: no process."""

    @property
    def name(self) -> str:
        """Return the name under which the death is counted."""
        return self.step or "engine"


def pipeline_deaths(draws: random.Random, count: int, queries: Sequence[str], victims: Sequence[str]) -> list[PipelineDeath]:
    """Return random deaths, with each victim, point and query about as often."""
    chosen = [victims[at % len(victims)] for at in range(count)]
    draws.shuffle(chosen)
    points = _in_turn(draws, [point for point in POINTS if point != BETWEEN or ROWS in queries])
    turns = _in_turn(draws, queries)
    deaths: list[PipelineDeath] = []
    for victim in chosen:
        may_start = victim in ("pipeline", "child", "jvm") and not (deaths and deaths[-1].starts)
        starts = may_start and draws.random() < STARTING_SHARE
        secs = draws.uniform(0, 8) if starts else draws.choice([0.0, draws.uniform(0, 1.5)])
        point = next(points) if victim == "point" else None
        query = ROWS if point == BETWEEN else next(turns)
        deaths.append(PipelineDeath(victim=victim, query=query, point=point, secs=secs, starts=starts))
    return deaths


def engine_deaths(draws: random.Random) -> Iterator[EngineDeath]:
    """Yield random deaths without end."""
    steps = _in_turn(draws, [step for step in STEPS if not step.startswith("contract")])
    forms = _in_turn(draws, BOLTS)
    yield EngineDeath(step="contract: linked")
    while True:
        bolts = next(forms)
        batch, pending = draws.randrange(2, 6), draws.choice([1, 2, 4])
        if draws.random() < STEP_SHARE:
            step = next(steps)
            here = bolts.replace("processes", "plain") if step.startswith("staging") else bolts  # a child does not die at steps of the run
            yield EngineDeath(step=step, number=draws.choice([1, 2, 3]), batch=batch, pending=pending, bolts=here)
        else:
            starts = draws.random() < STARTING_SHARE
            secs, strike = draws.uniform(0, 2 if starts else 0.5), draws.random()
            yield EngineDeath(secs=secs, from_the_beginning=starts, batch=batch, pending=pending, bolts=bolts, strike=strike)


def _in_turn(draws: random.Random, values: Sequence[str]) -> Iterator[str]:
    """Yield each value once in random order, then all again."""
    while True:
        yield from draws.sample(values, len(values))
