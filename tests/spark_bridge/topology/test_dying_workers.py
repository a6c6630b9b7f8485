"""Workers of a real Spark that die at each try: the error says how, and the run goes on (CL-3)."""

import asyncio
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.topology import cluster_run
from tests.servers.spark_cluster import driver_settings
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import Committed

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep, pytest.mark.guarantee("CL-3")]

RUN_SECS = 110
NUMBERS = range(40)
SPARKS_TRIES = 4
"""Tries of a task by a cluster. With local masters there is one."""


def deaths_in(folder: Path) -> int:
    """Return the number of workers that have died."""
    return len(list(folder.glob("died-*")))


class Poisoned(BasicBolt):
    """Ends its worker at number 25, in one of several ways, until it has done so a number of times."""

    output_fields = "number"

    def __init__(self, folder: Path, way: str, times: int) -> None:
        self.folder = folder
        self.way = way
        self.times = times

    def execute(self, tup: Tuple) -> tuple[int]:
        died = deaths_in(self.folder)
        if tup["number"] == 25 and died < self.times:
            (self.folder / f"died-{died}").touch()
            getattr(self, self.way)()
        return (tup["number"],)

    def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def crash(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def exhaust(self) -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), limits[1]))
        kept = []
        try:
            while True:
                kept.append(bytearray(1 << 20))
        finally:
            kept.clear()
            resource.setrlimit(resource.RLIMIT_AS, limits)


async def _errors(folder: Path, way: str, times: int, spark: SparkConfig) -> list[str]:
    """Run three batches, of which the second is poisoned. Return the reported errors."""
    committed = Committed()
    spout = MemoryTransactionalSpout([(number,) for number in NUMBERS], "number", take=20)
    builder: Any = TransactionalTopologyBuilder("poisoned", "numbers", spout)
    builder.set_bolt("poisoned", lambda: Poisoned(folder, way, times), 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("poisoned")
    async with asyncio.timeout(RUN_SECS), cluster_run.run(builder.build(), Config(), spark=spark) as running:
        await running.completed()
        errors = [report.describe() for report in running.snapshot().errors]
    assert deaths_in(folder) == times
    assert committed.rows() == [(number,) for number in NUMBERS]
    assert [txid for txid, _ in committed.attempts] == [1, 2]
    return errors


async def test_a_worker_that_is_killed_at_each_try_fails_its_batch_with_component_and_remedy(
    spark_child: SparkChild, tmp_path: Path
) -> None:
    errors = await _errors(tmp_path, "kill", 2, LOCAL)
    assert len(errors) == 2  # one for each attempt
    for error in errors:
        assert "a Python worker died at localhost while it computed partition " in error
        assert " of 'poisoned'. It was killed by SIGKILL" in error
        assert "memory" in error
        assert "org.apache" not in error


async def test_a_crash_in_c_is_reported_with_the_line_of_the_call(spark_child: SparkChild, tmp_path: Path) -> None:
    [error] = await _errors(tmp_path, "crash", 1, LOCAL)
    assert "of 'poisoned':\nFatal Python error: Segmentation fault" in error.replace("\n  ", "\n")
    assert "in crash" in error
    assert "org.apache" not in error


async def test_memory_that_python_cannot_get_is_an_error_of_the_bolt(spark_child: SparkChild, tmp_path: Path) -> None:
    [error] = await _errors(tmp_path, "exhaust", 1, LOCAL)
    assert error.startswith("'poisoned' (task ")
    assert "MemoryError" in error
    assert "in exhaust" in error


@pytest.mark.timeout(180)
async def test_a_cluster_gives_up_a_poisoned_batch_after_its_tries(spark_cluster: str, tmp_path: Path) -> None:
    conf = driver_settings()
    memory = conf.pop("spark.executor.memory")
    conf["spark.executorEnv.PYTHONPATH"] = os.getcwd()
    spark = SparkConfig(spark_cluster, driver_memory="512m", executor_memory=memory, conf=conf)
    [error] = await _errors(tmp_path, "kill", SPARKS_TRIES, spark)
    assert "a Python worker died at 127.0.0.1 (executor " in error
    assert f" of 'poisoned', in all {SPARKS_TRIES} tries. It was killed by SIGKILL" in error
