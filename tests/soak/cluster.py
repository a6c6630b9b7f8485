"""Kills around topologies on Spark again and again, on local[2] and on a standalone cluster, with five kinds of stores.

Usage:

    python -m tests.soak.cluster COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.cluster COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.kills.bolt_forms import BOLTS, choose_in_turn

if TYPE_CHECKING:
    from tests.servers.spark_cluster import SparkCluster
    from tests.spark_bridge.topology.campaign.places import Places
    from tests.spark_bridge.topology.campaign.plan import Death
    from tests.spark_bridge.topology.campaign.rounds import Killed, KilledCluster

FULL: Final = 200
"""Number of processes to kill."""
ROUND: Final = 10
DEATHS_PER_ROUND: Final = 6
LINES: Final = 40_000
WORDS: Final = 40
MOST_VIOLATIONS: Final = 3
STATES: Final = ("sqlite", "redis")


@dataclass
class ClusterResult:
    """Counts of all rounds."""

    seed: int
    rounds: int = 0
    lives: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    """Killed processes by victim, and by step or point."""
    by_store: Counter[str] = field(default_factory=Counter)
    by_master: Counter[str] = field(default_factory=Counter)
    by_bolts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    """Violations, each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Number of killed processes."""
        return self.deaths.total()

    def line(self) -> str:
        """Return one line of progress."""
        return (
            f"{self.kills:,} kills around topologies on Spark in {self.rounds:,} rounds ({_listed(self.by_master)}), "
            f"by store: {_listed(self.by_store)}; by bolts: {_listed(self.by_bolts)}; "
            f"{self.lives:,} engines; {len(self.violations)} violations"
        )

    def summary(self) -> str:
        """Return the totals, by victim."""
        victims: Counter[str] = Counter()
        for name, count in self.deaths.items():
            victims[name.partition(":")[0]] += count
        deaths = [f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items())]
        return "\n".join([f"seed {self.seed}: {self.line()}", f"by victim: {_listed(victims)}", *deaths, *self.violations])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def why_not() -> str | None:
    """Return why this campaign cannot run here, or None."""
    try:
        from tests.servers import kafka_broker, postgres_server, redis_server, spark_programs
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[spark,kafka,redis,postgres]'"
    reasons = (server.why_not() for server in (spark_programs, kafka_broker, redis_server, postgres_server))
    return next((reason for reason in reasons if reason), None)


@dataclass(frozen=True)
class Servers:
    """Addresses of the servers."""

    kafka: str
    redis: str
    postgres: str


@contextmanager
def _running() -> Iterator[Servers]:
    from tests.servers.kafka_broker import KafkaBroker
    from tests.servers.kafka_fixtures import STEADY
    from tests.servers.postgres_server import PostgresServer, url
    from tests.servers.process import HOST
    from tests.servers.redis_server import RedisServer

    folder = Path(tempfile.mkdtemp(prefix="soak-cluster-servers-"))
    try:
        own = {name: folder / name for name in ("kafka", "redis", "postgres")}
        for each in own.values():
            each.mkdir()
        with ExitStack() as stack:
            kafka = stack.enter_context(KafkaBroker(own["kafka"], settings=STEADY))
            redis = stack.enter_context(RedisServer(own["redis"]))
            postgres = stack.enter_context(PostgresServer(own["postgres"]))
            yield Servers(kafka.bootstrap, f"redis://{HOST}:{redis.port}/0", url(postgres.port))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(count: int, seed: int, is_over: Callable[[], bool] = lambda: False, only: int | None = None) -> ClusterResult:
    """Kill `count` processes, with a line after each round, or run one round alone."""
    result = ClusterResult(seed)
    with _running() as servers:
        if only is not None:
            _run_round(result, only, servers, is_over)
            return result
        number = 0
        while result.kills < count and len(result.violations) < MOST_VIOLATIONS and not is_over():
            _run_round(result, number, servers, lambda: is_over() or result.kills >= count)
            number += 1
    return result


def _run_round(result: ClusterResult, number: int, servers: Servers, is_over: Callable[[], bool]) -> None:
    """Run one round. Its files stay after a violation."""
    from tests.spark_bridge.topology.campaign.plan import deaths
    from tests.spark_bridge.topology.campaign.rounds import KilledCluster

    folder = Path(tempfile.mkdtemp(prefix="soak-cluster-"))
    draws = random.Random(f"{result.seed} round {number}")
    lines = [" ".join(f"w{draws.randrange(WORDS)}" for _ in range(draws.randrange(1, 6))) for _ in range(LINES)]
    with _master(folder, is_cluster=number % 2 == 1) as cluster:
        places = _places(folder, servers, number, "local[2]" if cluster is None else cluster.master)
        places = replace(places, bolts=choose_in_turn(BOLTS, result.seed, number))
        planned = deaths(draws, DEATHS_PER_ROUND, on_cluster=cluster is not None, processes="processes" in places.bolts)
        killed = asyncio.run(_played(KilledCluster(places, lines, cluster, is_over), planned))
    result.rounds += 1
    result.lives += killed.lives
    result.deaths += killed.deaths
    result.by_store[places.store] += killed.deaths.total()
    result.by_bolts[places.bolts] += killed.deaths.total()
    result.by_master["local" if cluster is None else "cluster"] += killed.deaths.total()
    if killed.violations:
        listed = "\n".join(f"  - {violation}" for violation in killed.violations)
        replay = f"python -m tests.soak.cluster {FULL} {result.seed} --round {number}"
        name = f"cluster, round {number} ({places.store}, {places.bolts} bolts, {places.state}, {places.master})"
        text = f"{name}:\n{listed}\nIts files: {folder}\nReplay: {replay}"
        result.violations.append(text)
        print(text, flush=True)
    else:
        shutil.rmtree(folder)
    print(f"  {result.line()}", flush=True)


@contextmanager
def _master(folder: Path, *, is_cluster: bool) -> "Iterator[SparkCluster | None]":
    from tests.servers.spark_cluster import SparkCluster

    if not is_cluster:
        yield None
        return
    own = folder / "cluster"
    own.mkdir()
    with SparkCluster(own) as cluster:
        yield cluster


def _places(folder: Path, servers: Servers, number: int, master: str) -> "Places":
    """Return the places of a round. The stores take turns, on each master and with each state."""
    from tests.spark_bridge.topology.campaign.places import STORES, Places

    name = f"cluster-{number}-{random.SystemRandom().randrange(2**32):08x}"
    store = STORES[number % len(STORES)]
    redis = f"{servers.redis}?prefix={name}"
    urls = {"sqlite": f"sqlite:///{folder}/counts.db", "redis": redis, "postgres": servers.postgres, "kafka": servers.kafka, "files": ""}
    states = {"sqlite": f"sqlite:///{folder}/state.db", "redis": redis}
    state = states[STATES[number // 2 % len(STATES)]]
    return Places(folder=str(folder), name=name, store=store, url=urls[store], state=state, master=master)


async def _played(round_of: "KilledCluster", planned: "list[Death]") -> "Killed":
    places = round_of.places
    if places.store == "kafka":
        from tests.servers.kafka_admin import create_topic

        await create_topic(places.url, places.name, 2)
    return await round_of.play(planned)


def main() -> int:
    """Run the campaign of the command line; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.cluster", description="kill -9 around topologies on Spark.")
    parser.add_argument("count", type=int, nargs="?", default=FULL, help=f"processes to kill (default {FULL:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="run this round alone")
    arguments = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    print(f"seed {arguments.seed}: {arguments.count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    result = run(arguments.count, arguments.seed, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {result.summary()}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
