"""Distribution of the kill points: each step once, over all combinations."""

import random
from collections.abc import Iterable, Mapping
from typing import Final

from tests.transactional.kills.combinations import COMBINATIONS, Combination
from tests.transactional.kills.killing import Death
from tests.transactional.kills.steps import STEPS, TransactionStep

BATCH: Final = 3
"""Lines of each partition in a batch: many batches of few lines."""

MOST_INSTANT_SECS: Final = 0.3


def spread(
    combinations: Iterable[Combination] = COMBINATIONS, steps: Iterable[TransactionStep] = tuple(STEPS.values())
) -> Mapping[Combination, list[TransactionStep]]:
    """Give each step to one combination that reaches it. All combinations get about the same number."""
    having: dict[Combination, list[TransactionStep]] = {combination: [] for combination in combinations}
    steps = list(steps)
    choices = {step.name: [combination for combination in having if step.where(combination)] for step in steps}
    for step in sorted(steps, key=lambda step: len(choices[step.name])):
        having[min(choices[step.name], key=lambda combination: len(having[combination]))].append(step)
    return having


def among(steps: Iterable[TransactionStep]) -> tuple[int, int]:
    """Return the range of the chain in which a further death makes no step unreachable."""
    ranks = [(step.rank, step.prepared_by is not None) for step in steps]
    first = sum(rank == 0 for rank, _ in ranks)
    return first, first + ranks.count((1, False))


def chain(steps: Iterable[TransactionStep], draws: random.Random) -> list[Death]:
    """Return deaths at these steps, in an order in which each step is reached."""
    deaths: list[Death] = []
    prepared_by: str | None = None
    for step in sorted(steps, key=lambda step: (step.rank, step.prepared_by is not None)):
        if step.prepared_by not in (None, prepared_by):
            deaths.append(Death(step=step.prepared_by, batch=BATCH))
        prepared_by = step.prepared_by
        at = 1 if step.is_rare else draws.choice([1, 2])
        deaths.append(drawn(draws, step=step.name, at=at, batch=draws.choice([BATCH, BATCH + 1])))
    return deaths


def drawn_instant(draws: random.Random) -> Death:
    """Return a death at a random time of the start or of the run. Half of them have the bolts in child processes."""
    starts, secs, batch = draws.random() < 0.2, draws.uniform(0, MOST_INSTANT_SECS), draws.randrange(1, 6)
    return drawn(draws, secs=secs, from_the_beginning=starts, batch=batch, processes=draws.random() < 0.5)


def drawn(draws: random.Random, **death: object) -> Death:
    """Return a death with its other fields drawn."""
    fields = {"pending": draws.choice([1, 2, 4]), "flight_secs": draws.choice([0.0, 0.0003, 0.001, 0.003]), **death}
    return Death(**fields)  # type: ignore[arg-type]
