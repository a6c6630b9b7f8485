"""Kills flows with windows again and again, with states in SQLite and Redis (WI-1, WI-5, ET-4).

Usage:

    python -m tests.soak.windows COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.windows COUNT SEED --round 12    repeat one round
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kills.rounds import Killed
from tests.soak import campaign, kills
from tests.streams.killed.killing import SPECS, Death, Places
from tests.streams.killed.rounds import NAMES, ROWS_A_DEATH, KilledWindows, death_at

ROUND: Final = 12
"""Number of processes to kill."""
STEPS_PER_ROUND: Final = 8
INSTANTS_PER_ROUND: Final = 4


class Windows(campaign.Campaign[str, Killed]):
    """Kills flows with windows. The server is the URL of Redis; empty if there is none."""

    name = "windows"
    full = 300
    enough = 250

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
        return campaign.KillsResult(seed, count, "with windows", NAMES)

    def topology(self, servers: str, seed: int, number: int, folder: Path) -> KilledWindows:
        state = f"sqlite:///{folder}/state.db"
        if servers and number // 2 % 2:
            state = f"{servers}?prefix=round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        rows = ROWS_A_DEATH * (STEPS_PER_ROUND + INSTANTS_PER_ROUND)
        return KilledWindows(Places(folder=str(folder), rows=rows, windows=[*SPECS][number % len(SPECS)], state=state))

    def deaths(self, seed: int, number: int) -> list[Death]:
        names = list(NAMES)
        random.Random(seed).shuffle(names)
        draws, first = random.Random(f"{seed} round {number}"), number * STEPS_PER_ROUND
        steps: list[str | None] = [names[at % len(names)] for at in range(first, first + STEPS_PER_ROUND)]
        steps += [None] * INSTANTS_PER_ROUND
        draws.shuffle(steps)
        return [death_at(step, draws) for step in steps]


if __name__ == "__main__":
    sys.exit(campaign.command(Windows()))
