"""Topologies under flow control that are killed again and again, in all combinations, in the counts that a release shows.

python -m tests.soak.flow COUNT SEED               kills so many processes; the same seed plays the same rounds
python -m tests.soak.flow COUNT SEED --round 12    one of them again: the same deaths, at about the same instants
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.flow.kills.combinations import COMBINATIONS
from tests.flow.kills.killing import Death
from tests.flow.kills.plan import chain
from tests.flow.kills.rounds import Killed, KilledFlow
from tests.flow.kills.steps import STEPS
from tests.soak import campaign, kills

ROUND: Final = 12
"""How many processes are killed."""
STEPS_PER_ROUND: Final = 3
"""And one of those at the end."""
INSTANTS_PER_ROUND: Final = 9
MOST_INSTANT_SECS: Final = 0.3


@dataclass
class Played(campaign.Played[Killed]):
    """And what was judged."""

    records: int = 0
    repeats: int = 0
    """Records that were done again by a life behind a death."""
    most_repeats: int = 0
    """Of one task, behind one death."""

    def add(self, killed: Killed) -> None:
        super().add(killed)
        self.records += killed.records
        self.repeats += killed.repeats
        self.most_repeats = max(self.most_repeats, killed.most_repeats)

    def judged(self) -> str:
        return f"{self.records:,} records, {self.repeats:,} repeats, {self.most_repeats:,} at once; "


class Flow(campaign.Campaign[str, Killed]):
    """Its servers are the URL of a Redis server; empty where none can be had, and positions are not kept there."""

    name = "flow"
    full = 400
    enough = 300

    def why_no(self) -> None:
        return None

    @contextmanager
    def running(self, folder: Path) -> Iterator[str]:
        if reason := kills.why_no("redis"):
            print(f"no positions in redis: {reason}", flush=True)
            yield ""
            return
        from tests.servers.process import HOST
        from tests.servers.redis_server import RedisServer  # whose client may not be installed

        with RedisServer(folder) as server:
            yield f"redis://{HOST}:{server.port}/0"

    def begin(self, seed: int, count: int) -> Played:
        return Played(seed, count, "under flow control", STEPS)

    def topology(self, servers: str, seed: int, number: int, folder: Path) -> KilledFlow:
        there = [each for each in COMBINATIONS if servers or each.state != "redis"]
        combination = campaign.drawn_in_turn(there, seed, number)
        records = random.Random(f"{seed} records {number}").choice([2500, 5000, 10_000]) // combination.tasks
        prefix = f"round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        return KilledFlow(combination, f"{servers}?prefix={prefix}", folder, records)

    def deaths(self, seed: int, number: int) -> list[Death]:
        late = [step for step in STEPS.values() if step.is_at_the_end]
        early = [step for step in STEPS.values() if not step.is_at_the_end]
        random.Random(seed).shuffle(early)
        first = number * STEPS_PER_ROUND
        steps = [*(early[at % len(early)] for at in range(first, first + STEPS_PER_ROUND)), late[number % len(late)]]
        return chain(steps, INSTANTS_PER_ROUND, random.Random(f"{seed} round {number}"), MOST_INSTANT_SECS)


if __name__ == "__main__":
    sys.exit(campaign.command(Flow()))
