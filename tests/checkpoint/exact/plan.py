"""Draws the deaths of a round."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.checkpoint.exact.killing import Death
from tests.checkpoint.exact.steps import COMMITTING, STEPS, ExactStep
from tests.checkpoint.exact.topology import SOURCES

MOST_INSTANT_SECS: Final = 0.3
ROWS_A_DEATH: Final = 500
"""Rows with which a process comes to its death, and the last one to its end."""
ROWS_A_DEATH_OF_COMMITTERS: Final = 600
"""The same with a committer, whose checkpoints take longer."""


def death_at(step: ExactStep, draws: random.Random) -> list[Death]:
    """Return a death at a step, with settings that lead to it, and the death that must come before."""
    if step.needs_failures:
        return [_drawn(draws, step=step.name, at=1, failing=0.1, failures=20)]  # a burst has few calls, a second rollback may never come
    if step.needs_owed_rows:
        return [_drawn(draws, step=step.name, at=1, failing=0.3, failures=200, only_pass_fails=True, strikes=0, interval_ms=5.0)]
    if step.is_of_before:
        tasks, other = draws.sample([1, 2, 3], 2)
        return [_drawn(draws, step=COMMITTING, at=1, output_tasks=tasks), _drawn(draws, step=step.name, at=1, output_tasks=other)]
    is_start = step.name.startswith("start: ")
    return [_drawn(draws, step=step.name, at=1 if is_start else draws.choice([1, 1, 2, 3]))]


def death_at_an_instant(draws: random.Random) -> Death:
    """Return a death at a random time of the start or the run."""
    return _drawn(draws, secs=draws.uniform(0, MOST_INSTANT_SECS), from_the_beginning=draws.random() < 0.2)


def last_life(draws: random.Random) -> Death:
    """Return a life without a kill, in which rows fail and tasks die."""
    return _drawn(draws, pace_secs=0.0001, strikes=3)


def deaths_at(steps: Sequence[ExactStep], instants: int, draws: random.Random) -> list[Death]:
    """Return a death at each step and at random times, in random order."""
    deaths = [death_at(step, draws) for step in steps]
    deaths += [[death_at_an_instant(draws)] for _ in range(instants)]
    draws.shuffle(deaths)
    return [death for each in deaths for death in each]


def spread() -> Mapping[str, list[ExactStep]]:
    """Give each step to one source that reaches it. All sources get about the same number."""
    having: dict[str, list[ExactStep]] = {source: [] for source in SOURCES}
    for step in sorted((step for step in STEPS.values() if not step.is_of_output), key=lambda step: not step.sources):
        having[min(step.sources or SOURCES, key=lambda source: len(having[source]))].append(step)
    return having


def _drawn(draws: random.Random, **death: Any) -> Death:
    settings = {
        "tasks": draws.choice([2, 3]),
        "file_tasks": draws.choice([1, 2, 3]),
        "output_tasks": draws.choice([1, 2, 3]),
        "interval_ms": draws.choice([5.0, 20.0, 50.0]),
        "flight_secs": draws.choice([0.0, 0.0003, 0.001, 0.003]),
        "failing": draws.choice([0.0, 0.0, 0.001, 0.005]),
        "strikes": draws.choice([0, 0, 2]),
        "strikes_secs": draws.choice([0.02, 0.1]),
        "seed": draws.getrandbits(32),
    }
    return Death(**{**settings, **death})
