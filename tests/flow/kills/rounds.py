"""Rounds: one topology is killed again and again, and the stored positions are noted after each death."""

import random
from dataclasses import dataclass
from pathlib import Path

from engine.flow.position_keeper import ledger_name, stored_position
from engine.state import provider_of
from tests.flow.kills.combinations import Combination
from tests.flow.kills.journal import Journal, notes_in
from tests.flow.kills.judge import judge
from tests.flow.kills.killing import Death
from tests.flow.kills.numbering import NAME, NUMBERS, Places, write_files
from tests.flow.kills.steps import FlowStep
from tests.kills import rounds


def death_at(step: FlowStep, draws: random.Random) -> Death:
    """Return a death at a step, with random settings."""
    return _drawn(draws, step=step.name, at=1 if step.is_rare or step.is_by_the_clock else draws.choice([1, 2, 5]))


def death_at_an_instant(draws: random.Random, most_secs: float) -> Death:
    """Return a death at a random time of the start or the run."""
    return _drawn(draws, secs=draws.uniform(0, most_secs), from_the_beginning=draws.random() < 0.2)


def _drawn(draws: random.Random, **death: object) -> Death:
    fields = {
        "pending": draws.choice([20, 200, 2000]),
        "interval_ms": draws.choice([1.0, 5.0, 30.0]),
        "flight_secs": draws.choice([0.0, 0.0003, 0.001, 0.003]),
    }
    return Death(**{**fields, **death})  # type: ignore[arg-type]


@dataclass
class Killed(rounds.Killed):
    """Result of a round."""

    records: int = 0
    repeats: int = 0
    most_repeats: int = 0


class KilledFlow(rounds.KilledTopology[Killed, Death]):
    """The processes of a round. `redis` is the URL of a server, with a key prefix."""

    module = "tests.flow.kills.killing"
    to_its_end = Death()
    places: Places

    def __init__(self, combination: Combination, redis: str, folder: Path, count: int, *, processes: bool = False) -> None:
        places = Places(
            folder=str(folder),
            state=redis if combination.state == "redis" else f"sqlite:///{folder}/state.db",
            positions=combination.positions,
            producer=combination.producer,
            tasks=combination.tasks,
            count=count,
            processes=processes,
        )
        name = f"{combination}{', work in processes' if processes else ''}"
        super().__init__(Killed(name, records=count * combination.tasks), places, folder)

    async def prepare(self) -> None:
        if self.places.positions == "line":
            write_files(self.places)

    async def after_life(self) -> None:
        """Note the stored positions."""
        journal = Journal(self.places.journal, self.killed.lives)
        provider = provider_of(self.places.state)
        await provider.open(NAME)
        try:
            for task in range(self.places.tasks):
                entries = await provider.ledger(ledger_name(NUMBERS, task)).read()
                stored = stored_position(entries, NUMBERS, self.places.tasks)
                journal.note("stored", task, self.places.number_of(stored.position), stored.records)
        finally:
            await provider.close()
            journal.close()

    async def judge(self) -> None:
        judged = judge(notes_in(self.places.journal), self.places.tasks, self.places.count)
        self.killed.violations += judged.violations
        self.killed.repeats, self.killed.most_repeats = judged.repeats, judged.most_repeats
