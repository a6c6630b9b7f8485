"""Plan of deaths: each step once, over all combinations."""

import random
from collections.abc import Iterable, Mapping
from typing import Final

from tests.flow.kills.combinations import Combination
from tests.flow.kills.killing import Death
from tests.flow.kills.rounds import death_at, death_at_an_instant
from tests.flow.kills.steps import STEPS, FlowStep

INSTANT_SECS: Final = 0.05


def spread(combinations: Iterable[Combination]) -> Mapping[Combination, list[FlowStep]]:
    """Give each step to one combination, and at most one step at the end to each.

    After a death at the end the next process may not reach another such step."""
    having: dict[Combination, list[FlowStep]] = {combination: [] for combination in combinations}
    for step in sorted(STEPS.values(), key=lambda step: not step.is_at_the_end):
        having[min(having, key=lambda combination: len(having[combination]))].append(step)
    return having


def chain(steps: Iterable[FlowStep], instants: int, draws: random.Random, most_secs: float = INSTANT_SECS) -> list[Death]:
    """Return deaths at these steps, in an order in which each is reached. `instants` random deaths are inserted."""
    early = [step for step in steps if not step.is_at_the_end]
    deaths = [death_at(step, draws) for step in early]
    for _ in range(instants):
        deaths.insert(draws.randrange(len(deaths) + 1), death_at_an_instant(draws, most_secs))
    return [*deaths, *(death_at(step, draws) for step in steps if step.is_at_the_end)]
