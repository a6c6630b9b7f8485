"""Kills topologies with exact sources again and again, with all sources, forms of the bolts and stores (EO-1, EO-2).

Usage:

    python -m tests.soak.exact COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.exact COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.checkpoint.exact.killing import Death
from tests.checkpoint.exact.plan import ROWS_A_DEATH, deaths_at
from tests.checkpoint.exact.rounds import KilledExact
from tests.checkpoint.exact.steps import STEPS, steps_of
from tests.checkpoint.exact.topology import SOURCES, Places
from tests.kills.bolt_forms import BOLTS, choose_in_turn
from tests.kills.rounds import Killed
from tests.soak import campaign, kills

ROUND: Final = 12
"""Number of processes to kill."""
STEPS_PER_ROUND: Final = 8
INSTANTS_PER_ROUND: Final = 4


class Exact(campaign.Campaign[str, Killed]):
    """Kills topologies with exact sources. The server is the URL of Redis; empty if there is none."""

    name = "exact"
    full = 400
    enough = 300

    def why_not(self) -> None:
        return None

    @contextmanager
    def running(self, folder: Path) -> Iterator[str]:
        if reason := kills.why_not("redis"):
            print(f"no states in redis: {reason}", flush=True)
            yield ""
            return
        from tests.servers.process import HOST
        from tests.servers.redis_server import RedisServer  # imported here, because its client may be missing

        with RedisServer(folder) as server:
            yield f"redis://{HOST}:{server.port}/0"

    def begin(self, seed: int, count: int) -> campaign.KillsResult[Killed]:
        return campaign.KillsResult(seed, count, "with exact sources", STEPS)

    def topology(self, servers: str, seed: int, number: int, folder: Path) -> KilledExact:
        source, bolts = _combination(seed, number)
        state = f"sqlite:///{folder}/state.db"
        if servers and number % 2:
            state = f"{servers}?prefix=round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        rows = ROWS_A_DEATH * (STEPS_PER_ROUND + INSTANTS_PER_ROUND)
        return KilledExact(Places(folder=str(folder), rows=rows, source=source, bolts=bolts, state=state), seed + number)

    def deaths(self, seed: int, number: int) -> list[Death]:
        source, _ = _combination(seed, number)
        steps = steps_of(source)
        random.Random(f"{seed} steps of {source}").shuffle(steps)
        first = number // len(SOURCES) * STEPS_PER_ROUND
        chosen = [steps[at % len(steps)] for at in range(first, first + STEPS_PER_ROUND)]
        return deaths_at(chosen, INSTANTS_PER_ROUND, random.Random(f"{seed} round {number}"))


def _combination(seed: int, number: int) -> tuple[str, str]:
    """Return the source and the form of the bolts of a round."""
    return choose_in_turn(SOURCES, seed, number), choose_in_turn(BOLTS, seed, number)


if __name__ == "__main__":
    sys.exit(campaign.command(Exact()))
