"""Topologies under flow control that are killed again and again, in all combinations, in the counts that a release shows.

python -m tests.soak.flow COUNT SEED               kills so many processes; the same seed plays the same rounds
python -m tests.soak.flow COUNT SEED --round 12    one of them again: the same deaths, at about the same instants
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.flow.kills.combinations import COMBINATIONS, Combination
from tests.flow.kills.plan import chain
from tests.flow.kills.rounds import AT_AN_INSTANT, Death, Killed, KilledTopology
from tests.flow.kills.steps import STEPS
from tests.soak.kills import why_no

FULL: Final = 400
ROUND: Final = 12
"""How many processes are killed."""
LANES: Final = 2
"""Rounds side by side."""
STEPS_PER_ROUND: Final = 3
"""And one of those at the end."""
INSTANTS_PER_ROUND: Final = 9
MOST_INSTANT_SECS: Final = 0.3
ENOUGH: Final = 300
"""Kills after which each step must have been struck."""
MOST_VIOLATIONS: Final = 5
LINE_EVERY_SECS: Final = 10.0


@dataclass
class Played:
    """What came of all rounds."""

    seed: int
    count: int
    rounds: int = 0
    lives: int = 0
    records: int = 0
    repeats: int = 0
    """Records that were done again by a life behind a death."""
    most_repeats: int = 0
    """Of one task, behind one death."""
    deaths: Counter[str] = field(default_factory=Counter)
    """By step, and `at an instant`."""
    by_combination: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Processes that were killed."""
        return self.deaths.total()

    def line(self) -> str:
        """One line of progress."""
        instants = self.deaths[AT_AN_INSTANT]
        struck = len(self.deaths.keys() & STEPS.keys())
        return (
            f"{self.kills:,} processes under flow control killed in {self.rounds:,} rounds: {instants:,} at an instant, "
            f"{self.kills - instants:,} at {struck} of {len(STEPS)} steps, in {len(self.by_combination)} combinations; "
            f"{self.records:,} records, {self.repeats:,} repeats, {self.most_repeats:,} at once; {len(self.violations)} violations"
        )

    def summary(self) -> str:
        """What it came to, with each step and each combination."""
        steps = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items()))
        combinations = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.by_combination.items()))
        return "\n".join([f"seed {self.seed}: {self.line()}", "by step:", steps, "by combination:", combinations, *self.violations])


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """The URL of a server; empty where none can be had."""
    if why_no("redis"):
        yield ""
        return
    from tests.servers.process import HOST
    from tests.servers.redis_server import RedisServer  # whose client may not be installed

    with RedisServer(folder) as server:
        yield f"redis://{HOST}:{server.port}/0"


# Rounds


def combination_of(seed: int, number: int, *, redis: bool) -> Combination:
    """Which combination a round has: each of them comes once, in a drawn order, before any comes again."""
    there = [each for each in COMBINATIONS if redis or each.state != "redis"]
    cycle, at = divmod(number, len(there))
    return random.Random(f"{seed} cycle {cycle}").sample(there, len(there))[at]


def deaths_of(seed: int, number: int) -> list[Death]:
    """Draw the deaths of a round: the next steps, all of which come before any comes again, and random instants."""
    late = [step for step in STEPS.values() if step.is_at_the_end]
    early = [step for step in STEPS.values() if not step.is_at_the_end]
    random.Random(seed).shuffle(early)
    first = number * STEPS_PER_ROUND
    steps = [*(early[at % len(early)] for at in range(first, first + STEPS_PER_ROUND)), late[number % len(late)]]
    return chain(steps, INSTANTS_PER_ROUND, random.Random(f"{seed} round {number}"), MOST_INSTANT_SECS)


async def play_round(redis: str, seed: int, number: int, is_over: Callable[[], bool]) -> Killed:
    """Kill until the deaths, or the records, are used up; then let one process live, and judge. Its files stay where it has violations."""
    folder = Path(tempfile.mkdtemp(prefix="soak-flow-"))
    combination = combination_of(seed, number, redis=bool(redis))
    records = random.Random(f"{seed} records {number}").choice([2500, 5000, 10_000]) // combination.tasks
    prefix = f"round-{number}-{random.SystemRandom().randrange(2**32):08x}"
    topology = KilledTopology(combination, f"{redis}?prefix={prefix}", folder, records)
    for death in deaths_of(seed, number):
        if is_over() or not await topology.die(death):
            break
    killed = await topology.finish()
    if killed.violations:
        listed = "\n".join(f"  - {violation}" for violation in killed.violations)
        replay = f"python -m tests.soak.flow {FULL} {seed} --round {number}"
        killed.violations = [f"flow, {killed.combination}, round {number}:\n{listed}\nIts files: {folder}\nReplay: {replay}"]
    else:
        shutil.rmtree(folder)
    return killed


class Rounds:
    """Rounds side by side, until enough has been killed."""

    def __init__(self, redis: str, played: Played, is_over: Callable[[], bool], tell: Callable[[Played], None]) -> None:
        self._redis, self._played = redis, played
        self._is_over, self._tell = is_over, tell
        self._next = 0

    @property
    def _is_enough(self) -> bool:
        return self._is_over() or self._played.kills >= self._played.count or len(self._played.violations) >= MOST_VIOLATIONS

    async def play(self) -> None:
        """Play them."""
        async with asyncio.TaskGroup() as lanes:
            for _ in range(LANES):
                lanes.create_task(self._lane())
        if self._played.kills >= ENOUGH:
            self._played.violations += [f"flow: no process died at the step {name!r}" for name in STEPS if not self._played.deaths[name]]
            self._tell(self._played)

    async def _lane(self) -> None:
        while not self._is_enough:
            number, self._next = self._next, self._next + 1
            self.add(await play_round(self._redis, self._played.seed, number, lambda: self._is_enough))

    def add(self, killed: Killed) -> None:
        """Count a round."""
        played = self._played
        played.rounds += 1
        played.lives += killed.lives
        played.records += killed.records
        played.repeats += killed.repeats
        played.most_repeats = max(played.most_repeats, killed.most_repeats)
        played.deaths += killed.deaths
        played.by_combination[str(killed.combination)] += killed.deaths.total()
        played.violations += killed.violations
        self._tell(played)


def play(count: int, seed: int, is_over: Callable[[], bool] = lambda: False, only: int | None = None) -> Played:
    """Kill so many processes, with lines of progress; or play one round."""
    played = Played(seed, count)
    tell = Progress().tell
    with tempfile.TemporaryDirectory(prefix="soak-flow-redis-") as folder, running_redis(Path(folder)) as redis:
        rounds = Rounds(redis, played, is_over, tell)
        if only is None:
            asyncio.run(rounds.play())
        else:
            rounds.add(asyncio.run(play_round(redis, seed, only, lambda: False)))
    return played


class Progress:
    """Prints violations at once, and a line now and then."""

    def __init__(self) -> None:
        self._told = 0
        self._next = 0.0

    def tell(self, played: Played) -> None:
        """Print what is new."""
        for violation in played.violations[self._told :]:
            print(violation, flush=True)
        self._told = len(played.violations)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY_SECS
            print(f"  {played.line()}", flush=True)


def main() -> int:
    """Kill; status 1 where something is violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.flow", description="kill -9 of topologies under flow control.")
    parser.add_argument("count", type=int, nargs="?", default=FULL, help=f"processes to kill (default {FULL:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="play this round alone")
    arguments = parser.parse_args()
    if reason := why_no("redis"):
        print(f"no positions in redis: {reason}", flush=True)
    print(f"seed {arguments.seed}: {arguments.count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    played = play(arguments.count, arguments.seed, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {played.summary()}")
    return 1 if played.violations else 0


if __name__ == "__main__":
    sys.exit(main())
