"""Kills an engine and a pipeline on Spark again and again, with all ready-made sinks at once; also freezes Spark.

Usage:

    python -m tests.soak.spark COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.spark COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
    python -m tests.soak.spark --frozen 60              freeze Spark for 60 seconds, and kill nothing
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
"""Number of processes to kill; about a third of them on Spark's side."""
ROUND: Final = 20
FROZEN_SECS: Final = 60.0
ROUND_FROZEN_SECS: Final = 5.0
DEATHS_PER_ROUND: Final = 12
"""Deaths on Spark's side; engines die independently."""
MOST_VIOLATIONS: Final = 3
IS_APART: Final = 1
IS_ON_CLUSTER: Final = 2
KINDS: Final = 4
"""Kinds of rounds that take turns. Two are special: a query for each sink, and a standalone cluster."""


@dataclass
class SparkResult:
    """Counts of all rounds."""

    seed: int
    rounds: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    """Killed processes by victim, point and step."""
    engines: Counter[str] = field(default_factory=Counter)
    """Engines by the form of their bolts."""
    numbers: int = 0
    txids: int = 0
    frozen: "list[Frozen]" = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Violations, each with the command that replays it."""

    @property
    def kills(self) -> int:
        """Number of killed processes."""
        return self.deaths.total()

    def line(self) -> str:
        """Return one line of progress."""
        from tests.spark_bridge.kills.rounds import BOLT
        from tests.spark_bridge.writer.killed import STEPS

        engines = sum(count for name, count in self.deaths.items() if name == "engine" or name in STEPS)
        return (
            f"{self.kills:,} kills around Spark in {self.rounds:,} rounds: {engines:,} of the engine, {self.deaths[BOLT]:,} of its bolts, "
            f"{self.kills - engines - self.deaths[BOLT]:,} on Spark's side; "
            f"{self.numbers:,} numbers in {self.txids:,} batches, in all sinks; "
            f"{len(self.violations)} violations"
        )

    def summary(self) -> str:
        """Return the totals, by victim."""
        deaths = [f"  {count:5,}  {name}" for name, count in sorted(self.deaths.items())]
        frozen = [each.line() for each in self.frozen]
        engines = [f"  {count:5,}  engines with {name} bolts" for name, count in sorted(self.engines.items())]
        return "\n".join([f"seed {self.seed}: {self.line()}", *deaths, *engines, *frozen, *self.violations])


def why_not() -> str | None:
    """Return why this campaign cannot run here, or None."""
    try:
        from tests.servers import postgres_server, spark_programs
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[spark,postgres]'"
    return spark_programs.why_not() or spark_programs.why_no_jdbc() or postgres_server.why_not()


def run(count: int, seed: int, frozen_secs: float, is_over: Callable[[], bool] = lambda: False, only: int | None = None) -> SparkResult:
    """Kill `count` processes, with a line after each round, then freeze Spark; or run one round alone."""
    result = SparkResult(seed)
    with _database() as database:
        if only is not None:
            _run_round(result, only, database, is_over)
            return result
        if count:
            number = 0
            while result.kills < count and len(result.violations) < MOST_VIOLATIONS and not is_over():
                _run_round(result, number, database, is_over)
                number += 1
        if frozen_secs and not is_over():
            _run_frozen(result, frozen_secs, database)
    return result


@contextmanager
def _database() -> Iterator[str]:
    from tests.servers.postgres_server import PostgresServer

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-postgres-"))
    try:
        with PostgresServer(folder) as server:
            yield server.url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_round(result: SparkResult, number: int, database: str, is_over: Callable[[], bool]) -> None:
    """Run one round. Its files stay after a violation."""
    from tests.spark_bridge.kills.places import Places

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-"))
    with _master(folder, is_cluster=number % KINDS == IS_ON_CLUSTER) as (master, strikes):
        places = Places(**_place(folder, database, f"round_{number}"), master=master, apart=number % KINDS == IS_APART)
        killed = asyncio.run(_kill(places, result.seed, number, strikes, is_over))
    result.rounds += 1
    result.deaths += killed.deaths
    result.engines += killed.engines
    result.numbers += killed.numbers
    result.txids += killed.txids
    if killed.violations:
        listed = "\n".join(f"  - {violation}" for violation in killed.violations)
        replay = f"python -m tests.soak.spark {FULL} {result.seed} --round {number}"
        name = f"Spark, round {number} ({places.master}, bolts of its engines: {dict(killed.engines)})"
        _add_violation(result, f"{name}:\n{listed}\nIts files: {folder}\nReplay: {replay}")
    else:
        shutil.rmtree(folder)
    print(f"  {result.line()}", flush=True)


async def _kill(places: "Places", seed: int, number: int, strikes: "Mapping[str, Strike]", is_over: Callable[[], bool]) -> "Killed":
    from tests.spark_bridge.kills.plan import CLUSTER_VICTIMS, LOCAL_VICTIMS, engine_deaths, pipeline_deaths
    from tests.spark_bridge.kills.rounds import KilledFlow

    victims = CLUSTER_VICTIMS if strikes else LOCAL_VICTIMS
    deaths = pipeline_deaths(random.Random(f"{seed} pipeline {number}"), DEATHS_PER_ROUND, places.queries, victims)
    return await KilledFlow(places, strikes, is_over).play(deaths, engine_deaths(random.Random(f"{seed} engine {number}")))


def _run_frozen(result: SparkResult, secs: float, database: str) -> None:
    from tests.spark_bridge.kills.back_pressure import play_frozen
    from tests.spark_bridge.kills.places import Places

    folder = Path(tempfile.mkdtemp(prefix="soak-spark-frozen-"))
    frozen = asyncio.run(play_frozen(Places(**_place(folder, database, "frozen")), secs))
    result.frozen.append(frozen)
    print(f"  {frozen.line()}", flush=True)
    if frozen.violations:
        listed = "\n".join(f"  - {violation}" for violation in frozen.violations)
        _add_violation(result, f"frozen Spark:\n{listed}\nIts files: {folder}\nReplay: python -m tests.soak.spark --frozen {secs:g}")
    else:
        shutil.rmtree(folder)


def _add_violation(result: SparkResult, text: str) -> None:
    result.violations.append(text)
    print(text, flush=True)


def _place(folder: Path, database: str, table: str) -> "dict[str, object]":
    from tests.servers import spark_programs

    jars = tuple(map(str, (*spark_programs.delta_jars(), *spark_programs.jdbc_jars())))
    return {"folder": str(folder), "database": database, "table": table, "jars": jars, "has_delta": bool(spark_programs.delta_jars())}


@contextmanager
def _master(folder: Path, *, is_cluster: bool) -> "Iterator[tuple[str, Mapping[str, Strike]]]":
    """Yield the master's address, and functions that kill parts of the cluster."""
    from tests.servers.spark_cluster import SparkCluster

    if not is_cluster:
        yield "local[2]", {}
        return
    own = folder / "cluster"
    own.mkdir()
    with SparkCluster(own) as cluster:
        yield cluster.master, strikes_of(cluster)


def strikes_of(cluster: "SparkCluster") -> "Mapping[str, Strike]":
    """Return functions that kill an executor or a worker; each returns False if there is none."""

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
    """Run the campaign of the command line; status 1 after a violation."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.spark", description="kill -9 of an engine, of Spark, and of the processes between them."
    )
    parser.add_argument("count", type=int, nargs="?", default=FULL, help=f"processes to kill (default {FULL:,})")
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    parser.add_argument("--round", type=int, help="run this round alone")
    parser.add_argument("--frozen", type=float, help="freeze Spark for so many seconds, and kill nothing")
    arguments = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    count = 0 if arguments.frozen else arguments.count
    print(f"seed {arguments.seed}: {count:,} kills, Python {sys.version.split()[0]}", flush=True)
    began = time.monotonic()
    result = run(count, arguments.seed, arguments.frozen or 0.0, only=arguments.round)
    print(f"\nafter {time.monotonic() - began:.0f} s, {result.summary()}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
