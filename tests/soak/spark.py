"""An engine and a pipeline on Spark, killed again and again for all ready-made sinks at once, and Spark that stands still for a minute.

python -m tests.soak.spark COUNT SEED               kills so many processes; the same seed plays the same rounds
python -m tests.soak.spark COUNT SEED --round 12    one of them again: the same deaths, at about the same instants
python -m tests.soak.spark --frozen 60              Spark stands still for so many seconds, and no one is killed
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.servers.spark_cluster import SparkCluster
    from tests.spark_bridge.kills.back_pressure import Frozen
    from tests.spark_bridge.kills.places import Places
    from tests.spark_bridge.kills.rounds import Killed, Strike

FULL: Final = 300
"""About every third on Spark's side."""
ROUND: Final = 20
FROZEN_SECS: Final = 60.0
ROUND_FROZEN_SECS: Final = 5.0
DEATHS_PER_ROUND: Final = 12
"""On Spark's side; engines die beside it."""
MOST_VIOLATIONS: Final = 3
IS_APART: Final = 1
IS_ON_CLUSTER: Final = 2
KINDS: Final = 4
"""Of so many rounds, this one has a query for each sink, and this one a standalone cluster."""


@dataclass
class Played:
    """What came of all rounds."""

    seed: int
    rounds: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    """By victim, point and step."""
    numbers: int = 0
    txids: int = 0
    frozen: "list[Frozen]" = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Processes that were killed."""
        return self.deaths.total()

    def line(self) -> str:
        """One line of progress."""
        from tests.spark_bridge.writer.killed import STEPS

        engines = sum(count for name, count in self.deaths.items() if name == "engine" or name in STEPS)
        return (
            f"{self.kills:,} kills around Spark in {self.rounds:,} rounds: {engines:,} of the engine, {self.kills - engines:,} on Spark's "
            f"side; {self.numbers:,} numbers in {self.txids:,} batches, in all sinks; {len(self.violations)} violations"
        )

    def summary(self) -> str:
        """What it came to, by victim."""
        deaths = [f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items())]
        frozen = [each.line() for each in self.frozen]
        return "\n".join([f"seed {self.seed}: {self.line()}", *deaths, *frozen, *self.violations])


def why_no() -> str | None:
    """Return why not all that is needed can be had here, None where it can."""
    try:
        from tests.servers import postgres_server, spark_programs
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[spark,postgres]'"
    return spark_programs.why_not() or spark_programs.why_no_jdbc() or postgres_server.why_not()


def play(count: int, seed: int, frozen_secs: float, is_over: Callable[[], bool] = lambda: False, only: int | None = None) -> Played:
    """Kill so many processes, with a line after each round, and have Spark stand still; or play one round."""
    played = Played(seed)
    with _database() as database:
        if only is not None:
            _play_round(played, only, database, is_over)
            return played
        if count:
            number = 0
            while played.kills < count and len(played.violations) < MOST_VIOLATIONS and not is_over():
                _play_round(played, number, database, is_over)
                number += 1
        if frozen_secs and not is_over():
            _play_frozen(played, frozen_secs, database)
    return played


@contextmanager
def _database() -> Iterator[str]:
    from tests.servers.postgres_server import PostgresServer

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-postgres-"))
    try:
        with PostgresServer(folder) as server:
            yield server.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _play_round(played: Played, number: int, database: str, is_over: Callable[[], bool]) -> None:
    """Play one round; its files stay where something is violated."""
    from tests.spark_bridge.kills.places import Places

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-"))
    with _master(folder, is_cluster=number % KINDS == IS_ON_CLUSTER) as (master, strikes):
        places = Places(**_place(folder, database, f"round_{number}"), master=master, apart=number % KINDS == IS_APART)
        killed = asyncio.run(_kill(places, played.seed, number, strikes, is_over))
    played.rounds += 1
    played.deaths += killed.deaths
    played.numbers += killed.numbers
    played.txids += killed.txids
    if killed.violations:
        listed = "\n".join(f"  - {violation}" for violation in killed.violations)
        replay = f"python -m tests.soak.spark {FULL} {played.seed} --round {number}"
        _violated(played, f"Spark, round {number} ({places.master}):\n{listed}\nIts files: {folder}\nReplay: {replay}")
    else:
        shutil.rmtree(folder)
    print(f"  {played.line()}", flush=True)


async def _kill(places: "Places", seed: int, number: int, strikes: "Mapping[str, Strike]", is_over: Callable[[], bool]) -> "Killed":
    from tests.spark_bridge.kills.plan import CLUSTER_VICTIMS, LOCAL_VICTIMS, engine_deaths, pipeline_deaths
    from tests.spark_bridge.kills.rounds import KilledFlow

    victims = CLUSTER_VICTIMS if strikes else LOCAL_VICTIMS
    deaths = pipeline_deaths(random.Random(f"{seed} pipeline {number}"), DEATHS_PER_ROUND, places.queries, victims)
    return await KilledFlow(places, strikes, is_over).play(deaths, engine_deaths(random.Random(f"{seed} engine {number}")))


def _play_frozen(played: Played, secs: float, database: str) -> None:
    from tests.spark_bridge.kills.back_pressure import play_frozen
    from tests.spark_bridge.kills.places import Places

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-frozen-"))
    frozen = asyncio.run(play_frozen(Places(**_place(folder, database, "frozen")), secs))
    played.frozen.append(frozen)
    print(f"  {frozen.line()}", flush=True)
    if frozen.violations:
        listed = "\n".join(f"  - {violation}" for violation in frozen.violations)
        _violated(played, f"Spark that stood still:\n{listed}\nIts files: {folder}\nReplay: python -m tests.soak.spark --frozen {secs:g}")
    else:
        shutil.rmtree(folder)


def _violated(played: Played, text: str) -> None:
    played.violations.append(text)
    print(text, flush=True)


def _place(folder: Path, database: str, table: str) -> "dict[str, object]":
    from tests.servers import spark_programs

    jars = tuple(map(str, (*spark_programs.delta_jars(), *spark_programs.jdbc_jars())))
    return {"folder": str(folder), "database": database, "table": table, "jars": jars, "has_delta": bool(spark_programs.delta_jars())}


@contextmanager
def _master(folder: Path, *, is_cluster: bool) -> "Iterator[tuple[str, Mapping[str, Strike]]]":
    """Where Spark works, and how to kill what works there."""
    from tests.servers.spark_cluster import SparkCluster

    if not is_cluster:
        yield "local[2]", {}
        return
    own = folder / "cluster"
    own.mkdir()
    with SparkCluster(own) as cluster:
        yield cluster.master, strikes_of(cluster)


def strikes_of(cluster: "SparkCluster") -> "Mapping[str, Strike]":
    """How to kill an executor and a worker; False where there is none."""

    def executor() -> bool:
        there = bool(cluster.executors())
        if there:
            cluster.kill_executor()
        return there

    def worker() -> bool:
        there = bool(cluster.workers())
        if there:
            cluster.kill_worker()
        return there

    return {"executor": executor, "worker": worker}


def main() -> int:
    """Kill; status 1 where something is violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.spark", description="kill -9 of an engine, of Spark, and of all between.")
    parser.add_argument("count", type=int, nargs="?", default=FULL, help=f"processes to kill (default {FULL:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="play this round alone")
    parser.add_argument("--frozen", type=float, help="have Spark stand still for so many seconds, and kill no one")
    arguments = parser.parse_args()
    if reason := why_no():
        parser.error(reason)
    count = 0 if arguments.frozen else arguments.count
    print(f"seed {arguments.seed}: {count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    played = play(count, arguments.seed, arguments.frozen or 0.0, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {played.summary()}")
    return 1 if played.violations else 0


if __name__ == "__main__":
    sys.exit(main())
