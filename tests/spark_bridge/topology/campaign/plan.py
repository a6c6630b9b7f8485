"""Random deaths from a seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.spark_bridge.topology.campaign.striking import POINTS, VICTIMS
from tests.spark_bridge.topology.kills.steps import JOB_STEPS, STEPS
from tests.transactional.kills.combinations import Combination

EachT = TypeVar("EachT")
LOCAL: Final = (
    *("engine", "engine at a step", "engine at a step", "child", "jvm", "python worker", "python worker at a point"),
    *("child at a step", "jvm at a step", "jvm of a python worker at a point"),
)
CLUSTER: Final = (
    *("engine", "engine at a step", "executor", "executor", "worker daemon", "python worker", "python worker at a point"),
    *("jvm of a python worker at a point", "child", "jvm at a step"),
)
COMMITTERS: Final = ("committer",) * 3
MOST_SECS: Final = 1.5
_HERE: Final = Combination("file", "sqlite", "sqlite")
_COUNTS_WORDS: Final = ("words: ", "total: ", "mirror: ", "sqlite: ", "split: ", "partial: ", "level ", "emitter: ", "results: ")
ENGINE_STEPS: Final = tuple(
    name for name, step in STEPS.items() if step.where(_HERE) and not name.startswith(_COUNTS_WORDS) and step.rank == 1 and not step.is_rare
)
"""Steps that each engine of the campaign reaches."""
SPARK_STEPS: Final = (
    "job: planned, not called",
    "job: before it is called",
    "job: returned, nothing settled",
    "coordinator: before the save",
)
"""Steps of the engine at which Spark's process or JVM dies, while the engine lives on."""
assert JOB_STEPS.keys() >= set(SPARK_STEPS[:3])


@dataclass(frozen=True, kw_only=True)
class Death:
    """Death of one process."""

    victim: str
    at: str | None = None
    """Step of the engine, or point in a bolt."""
    number: int = 1
    secs: float = 0.0
    """Seconds after the progress that it waits for."""

    @property
    def name(self) -> str:
        """Return the name under which the death is counted."""
        return self.victim if self.at is None else f"{self.victim}: {self.at}"


def deaths(draws: random.Random, count: int, *, on_cluster: bool, processes: bool) -> list[Death]:
    """Return random deaths, with each kind about as often. `processes`: the committer is in processes, which die, too."""
    kinds = _in_turn(draws, (*(CLUSTER if on_cluster else LOCAL), *COMMITTERS * processes))
    engine_steps, spark_steps, points = (_in_turn(draws, names) for names in (ENGINE_STEPS, SPARK_STEPS, POINTS))
    found = []
    for _ in range(count):
        kind = next(kinds)
        victim = kind.removesuffix(" at a step").removesuffix(" at a point")
        at = None
        if kind.endswith(" at a step"):
            at = next(engine_steps if victim == "engine" else spark_steps)
        elif kind.endswith(" at a point"):
            assert victim in VICTIMS
            at = next(points)
        found.append(Death(victim=victim, at=at, number=draws.choice([1, 2, 3]), secs=draws.choice([0.0, draws.uniform(0, MOST_SECS)])))
    return found


def _in_turn(draws: random.Random, values: Sequence[EachT]) -> Iterator[EachT]:
    """Yield each value once in random order, then all again."""
    while True:
        yield from draws.sample(values, len(values))
