"""Kills topologies with exact sources again and again, with all sources, forms of the bolts, stores and committers (EO-1, EO-2, EO-9).

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
from tests.checkpoint.exact.plan import ROWS_A_DEATH, ROWS_A_DEATH_OF_COMMITTERS, deaths_at
from tests.checkpoint.exact.rounds import KilledExact
from tests.checkpoint.exact.steps import STEPS, output_steps, steps_of
from tests.checkpoint.exact.topology import SOURCES, Places
from tests.kills.bolt_forms import BOLTS, choose_in_turn
from tests.kills.rounds import Killed
from tests.soak import campaign, kills

ROUND: Final = 12
"""Number of processes to kill."""
STEPS_PER_ROUND: Final = 8
INSTANTS_PER_ROUND: Final = 4
OUTPUTS: Final = ("sqlite values", "sqlite rows", "files", "own", "spark")
"""Committers whose targets are files. Those of servers are killed in `tests/checkpoint/exact`."""


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
        output = _output(seed, number)
        state = f"sqlite:///{folder}/state.db"
        if servers and number // 2 % 2:
            state = f"{servers}?prefix=round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        rows = (ROWS_A_DEATH_OF_COMMITTERS if output else ROWS_A_DEATH) * len(self.deaths(seed, number))
        places = Places(folder=str(folder), rows=rows, source=source, bolts=bolts, state=state, output=output)
        return KilledExact(places, seed + number)

    def deaths(self, seed: int, number: int) -> list[Death]:
        source, _ = _combination(seed, number)
        steps = output_steps(output) if (output := _output(seed, number)) else steps_of(source)
        random.Random(f"{seed} steps of {source}").shuffle(steps)
        first = (number // 2 if number % 2 else number // len(SOURCES)) * STEPS_PER_ROUND
        chosen = [steps[at % len(steps)] for at in range(first, first + STEPS_PER_ROUND)]
        return deaths_at(chosen, INSTANTS_PER_ROUND, random.Random(f"{seed} round {number}"))


def _output(seed: int, number: int) -> str:
    """Return the kind of the committer of a round. Every other round has none, since its steps are those of the sources."""
    return choose_in_turn(OUTPUTS, seed, number // 2) if number % 2 else ""


def _combination(seed: int, number: int) -> tuple[str, str]:
    """Return the source and the form of the bolts of a round."""
    return choose_in_turn(SOURCES, seed, number), choose_in_turn(BOLTS, seed, number)


if __name__ == "__main__":
    sys.exit(campaign.command(Exact()))
