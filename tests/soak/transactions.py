"""Transactional topologies that are killed again and again, on real servers, in all combinations, in the counts that a release shows.

python -m tests.soak.transactions COUNT SEED               kills so many processes; the same seed plays the same rounds
python -m tests.soak.transactions COUNT SEED --round 12    one of them again: the same deaths, at about the same instants
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.transactional.kills.combinations import Combination
    from tests.transactional.kills.rounds import Death, Killed, Servers

FULL: Final = 1000
ROUND: Final = 25
"""How many processes are killed."""
LANES: Final = 2
"""Rounds side by side."""
STEPS_PER_ROUND: Final = 8
INSTANTS_PER_ROUND: Final = 5
ENOUGH: Final = 800
"""Kills after which each step must have been struck."""
MOST_VIOLATIONS: Final = 5
LINE_EVERY_SECS: Final = 10.0
SERVERS: Final = ("kafka", "redis", "postgres", "zookeeper")


@dataclass
class Played:
    """What came of all rounds."""

    seed: int
    count: int
    rounds: int = 0
    lives: int = 0
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
        from tests.transactional.kills.rounds import AT_AN_INSTANT
        from tests.transactional.kills.steps import STEPS

        instants = self.deaths[AT_AN_INSTANT]
        struck = len(self.deaths.keys() & STEPS.keys())
        return (
            f"{self.kills:,} processes of transactions killed in {self.rounds:,} rounds: {instants:,} at an instant, "
            f"{self.kills - instants:,} at {struck} of {len(STEPS)} steps, in {len(self.by_combination)} combinations; "
            f"{len(self.violations)} violations"
        )

    def summary(self) -> str:
        """What it came to, with each step and each combination."""
        steps = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items()))
        combinations = "\n".join(f"  {count:5,}  {name}" for name, count in sorted(self.by_combination.items()))
        return "\n".join([f"seed {self.seed}: {self.line()}", "by step:", steps, "by combination:", combinations, *self.violations])


def why_no() -> str | None:
    """Return why not all servers can be had here, None where they can."""
    try:
        from tests.servers import kafka_broker, postgres_server, redis_server, zookeeper_server
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[kafka,redis,postgres,zookeeper]'"
    reasons = (server.why_not() for server in (kafka_broker, redis_server, postgres_server, zookeeper_server))
    return next((reason for reason in reasons if reason), None)


def running_servers(folder: Path, stack: ExitStack) -> "Servers":
    """Start one of each, until the stack ends."""
    from tests.servers.kafka_broker import KafkaBroker
    from tests.servers.kafka_fixtures import STEADY
    from tests.servers.postgres_server import PostgresServer, url
    from tests.servers.process import HOST
    from tests.servers.redis_server import RedisServer
    from tests.servers.zookeeper_server import ZooKeeperServer
    from tests.transactional.kills.rounds import Servers

    own = {name: folder / name for name in SERVERS}
    for each in own.values():
        each.mkdir()
    kafka = stack.enter_context(KafkaBroker(own["kafka"], settings=STEADY))
    redis = stack.enter_context(RedisServer(own["redis"]))
    postgres = stack.enter_context(PostgresServer(own["postgres"]))
    zookeeper = stack.enter_context(ZooKeeperServer(own["zookeeper"]))
    return Servers(
        kafka=kafka.bootstrap, redis=f"redis://{HOST}:{redis.port}/0", postgres=url(postgres.port), zookeeper=f"{HOST}:{zookeeper.port}"
    )


# Rounds


def combination_of(seed: int, number: int) -> "Combination":
    """Which combination a round has: each of them comes once, in a drawn order, before any comes again."""
    from tests.transactional.kills.combinations import COMBINATIONS

    cycle, at = divmod(number, len(COMBINATIONS))
    return random.Random(f"{seed} cycle {cycle}").sample(COMBINATIONS, len(COMBINATIONS))[at]


def deaths_of(seed: int, number: int) -> list["Death"]:
    """Draw the deaths of a round: the next steps of its combination's, all of which come before any comes again, and random instants."""
    from tests.transactional.kills.combinations import COMBINATIONS
    from tests.transactional.kills.plan import among, chain, drawn_instant
    from tests.transactional.kills.steps import steps_of

    draws = random.Random(f"{seed} round {number}")
    combination = combination_of(seed, number)
    steps = steps_of(combination)
    random.Random(f"{seed} {combination}").shuffle(steps)
    steps.sort(key=lambda step: sum(step.where(each) for each in COMBINATIONS))  # first those that few combinations come to
    first = number // len(COMBINATIONS) * STEPS_PER_ROUND
    chosen = [steps[at % len(steps)] for at in range(first, first + STEPS_PER_ROUND)]
    deaths = chain(chosen, draws)
    first, last = among(chosen)
    for _ in range(INSTANTS_PER_ROUND):
        instant = drawn_instant(draws)
        deaths.insert(draws.randrange(first, last + 1), instant)
    return deaths


def lines_of(seed: int, number: int) -> list[str]:
    """Draw the lines of a round."""
    from tests.transactional.kills.rounds import drawn_lines

    draws = random.Random(f"{seed} lines {number}")
    return drawn_lines(draws, draws.choice([500, 1000, 2000]))


async def play_round(servers: "Servers", seed: int, number: int, is_over: Callable[[], bool]) -> "Killed":
    """Kill until the deaths, or the lines, are used up; then let one process live, and judge. Its files stay where it has violations."""
    from tests.transactional.kills.rounds import KilledTopology

    folder = Path(tempfile.mkdtemp(prefix="soak-transactions-"))
    name = f"round-{number}-{random.SystemRandom().randrange(2**32):08x}"
    topology = KilledTopology(combination_of(seed, number), servers, folder, name, lines_of(seed, number))
    await topology.prepare()
    for death in deaths_of(seed, number):
        if is_over() or not await topology.die(death):
            break
    killed = await topology.finish()
    if killed.violations:
        listed = "\n".join(f"  - {violation}" for violation in killed.violations)
        replay = f"python -m tests.soak.transactions {FULL} {seed} --round {number}"
        killed.violations = [f"transactions, {killed.combination}, round {number}:\n{listed}\nIts files: {folder}\nReplay: {replay}"]
    else:
        shutil.rmtree(folder)
    return killed


class Rounds:
    """Rounds side by side, until enough has been killed."""

    def __init__(self, servers: "Servers", played: Played, is_over: Callable[[], bool], tell: Callable[[Played], None]) -> None:
        self._servers, self._played = servers, played
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
            self._played.violations += never_struck(self._played.deaths)
            self._tell(self._played)

    async def _lane(self) -> None:
        while not self._is_enough:
            number, self._next = self._next, self._next + 1
            self.add(await play_round(self._servers, self._played.seed, number, lambda: self._is_enough))

    def add(self, killed: "Killed") -> None:
        """Count a round."""
        played = self._played
        played.rounds += 1
        played.lives += killed.lives
        played.deaths += killed.deaths
        played.by_combination[str(killed.combination)] += killed.deaths.total()
        played.violations += killed.violations
        self._tell(played)


def never_struck(deaths: Counter[str]) -> list[str]:
    """What is wrong with a soak at some of whose steps nothing died."""
    from tests.transactional.kills.steps import STEPS

    return [f"transactions: no process died at the step {name!r}" for name in STEPS if not deaths[name]]


def play(count: int, seed: int, is_over: Callable[[], bool] = lambda: False, only: int | None = None) -> Played:
    """Kill so many processes, with lines of progress; or play one round."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a new topic has no leader yet
    played = Played(seed, count)
    folder = Path(tempfile.mkdtemp(prefix="soak-transactions-servers-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        rounds = Rounds(running_servers(folder, stack), played, is_over, Progress().tell)
        if only is None:
            asyncio.run(rounds.play())
        else:
            rounds.add(asyncio.run(play_round(rounds._servers, seed, only, lambda: False)))
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
    parser = argparse.ArgumentParser(prog="python -m tests.soak.transactions", description="kill -9 of transactional topologies.")
    parser.add_argument("count", type=int, nargs="?", default=FULL, help=f"processes to kill (default {FULL:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="play this round alone")
    arguments = parser.parse_args()
    if reason := why_no():
        parser.error(reason)
    print(f"seed {arguments.seed}: {arguments.count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    played = play(arguments.count, arguments.seed, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {played.summary()}")
    return 1 if played.violations else 0


if __name__ == "__main__":
    sys.exit(main())
