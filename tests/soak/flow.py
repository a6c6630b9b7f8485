"""Kills topologies under flow control again and again, in all combinations.

Usage:

    python -m tests.soak.flow COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.flow COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
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
from tests.kills.bolt_forms import choose_in_turn
from tests.soak import campaign, kills

ROUND: Final = 12
"""Number of processes to kill."""
STEPS_PER_ROUND: Final = 3
"""Steps of a round, besides one at the end of the work."""
INSTANTS_PER_ROUND: Final = 9
PROCESSES_EVERY: Final = 3
"""One round of so many has `work` in processes."""
MOST_INSTANT_SECS: Final = 0.3


@dataclass
class FlowResult(campaign.KillsResult[Killed]):
    """Counts of all rounds, with the records that were checked."""

    records: int = 0
    repeats: int = 0
    """Records that a process processed again after a death."""
    most_repeats: int = 0
    """Most such records of one task after one death."""

    def add(self, killed: Killed) -> None:
        super().add(killed)
        self.records += killed.records
        self.repeats += killed.repeats
        self.most_repeats = max(self.most_repeats, killed.most_repeats)

    def judged(self) -> str:
        return f"{self.records:,} records, {self.repeats:,} repeats, {self.most_repeats:,} at once; "


class Flow(campaign.Campaign[str, Killed]):
    """Kills topologies under flow control. The server is the URL of Redis; if empty, no positions are kept there."""

    name = "flow"
    full = 400
    enough = 300

    def why_not(self) -> None:
        return None

    @contextmanager
    def running(self, folder: Path) -> Iterator[str]:
        if reason := kills.why_not("redis"):
            print(f"no positions in redis: {reason}", flush=True)
            yield ""
            return
        from tests.servers.process import HOST
        from tests.servers.redis_server import RedisServer  # imported here, because its client may be missing

        with RedisServer(folder) as server:
            yield f"redis://{HOST}:{server.port}/0"

    def begin(self, seed: int, count: int) -> FlowResult:
        return FlowResult(seed, count, "under flow control", STEPS)

    def topology(self, servers: str, seed: int, number: int, folder: Path) -> KilledFlow:
        there = [each for each in COMBINATIONS if servers or each.state != "redis"]
        combination = choose_in_turn(there, seed, number)
        records = random.Random(f"{seed} records {number}").choice([2500, 5000, 10_000]) // combination.tasks
        prefix = f"round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        return KilledFlow(combination, f"{servers}?prefix={prefix}", folder, records, processes=_has_processes(number))

    def deaths(self, seed: int, number: int) -> list[Death]:
        late = [step for step in STEPS.values() if step.is_at_the_end]
        early = [step for step in STEPS.values() if not step.is_at_the_end]
        random.Random(seed).shuffle(early)
        if _has_processes(number):
            early = [step for step in early if not step.name.startswith("work: ")]  # a child does not die at steps of the run
        first = number * STEPS_PER_ROUND
        steps = [*(early[at % len(early)] for at in range(first, first + STEPS_PER_ROUND)), late[number % len(late)]]
        return chain(steps, INSTANTS_PER_ROUND, random.Random(f"{seed} round {number}"), MOST_INSTANT_SECS)


def _has_processes(number: int) -> bool:
    return number % PROCESSES_EVERY == PROCESSES_EVERY - 1


if __name__ == "__main__":
    sys.exit(campaign.command(Flow()))
