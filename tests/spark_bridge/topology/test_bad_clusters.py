"""A master that is away, and a spool folder that executors cannot reach, on real clusters (CL-3, CL-4)."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, Config
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkConfig
from spark_bridge.topology import cluster_run
from tests.patience import PATIENCE_SECS
from tests.servers.spark_cluster import SparkCluster, driver_settings
from tests.spark_bridge.spark_fixtures import until
from tests.spark_bridge.topology.both_engines import Committed, Records
from tests.spark_bridge.topology.test_on_spark import Passes, words

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep]

NUMBERS = range(120)
OWN_FOLDER = Path("/proc/self/cwd")
"""A path that every process sees as its own working folder. Executors have another one than the engine."""


def spark_at(master: str) -> SparkConfig:
    conf = driver_settings()
    memory = conf.pop("spark.executor.memory")
    conf["spark.executorEnv.PYTHONPATH"] = os.getcwd()
    return SparkConfig(master, driver_memory="512m", executor_memory=memory, conf=conf)


class Gated(Records):
    """Waits in one batch for the test."""

    def __init__(self, committed: Committed, waits_at: int, gate: asyncio.Event) -> None:
        super().__init__(committed)
        self.waits_at = waits_at
        self.gate = gate

    async def finish_batch(self) -> None:  # type: ignore[override]
        if self.attempt.txid == self.waits_at:
            await self.gate.wait()
        super().finish_batch()


@pytest.mark.guarantee("CL-3")
@pytest.mark.timeout(240)
async def test_a_run_goes_on_after_its_master_was_away_at_the_start_and_in_the_middle(spark_here: None, tmp_path: Path) -> None:
    cluster = SparkCluster(tmp_path)
    committed, gate = Committed(), asyncio.Event()
    builder: Any = TransactionalTopologyBuilder("away", "numbers", MemoryTransactionalSpout([(n,) for n in NUMBERS], "number", take=20))
    builder.set_bolt("passes", Passes, 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", lambda: Gated(committed, 3, gate)).global_grouping("passes")
    try:
        async with asyncio.timeout(220), cluster_run.run(builder.build(), Config(), spark=spark_at(cluster.master)) as running:
            await until(lambda: bool(running.snapshot().errors))
            await asyncio.to_thread(cluster.start)
            await until(lambda: len(committed.batches) == 2, 2 * PATIENCE_SECS)
            cluster.kill()
            gate.set()
            await until(lambda: "no executors are left" in running.snapshot().errors[-1].describe(), 2 * PATIENCE_SECS)
            await asyncio.to_thread(cluster.start)
            await running.completed()
            errors = [report.describe() for report in running.snapshot().errors]
    finally:
        cluster.process.end()
    assert committed.rows() == [(number,) for number in NUMBERS]
    assert [txid for txid, _ in committed.attempts] == [1, 2, 3, 4, 5, 6]
    assert f"Spark ({cluster.master}): it cannot be reached: Connection refused" in errors[0]
    assert "Start the master, or correct master=" in errors[0]
    [lost] = [error for error in errors if "no executors are left" in error]
    assert f"its master (127.0.0.1:{cluster.port}) went away, and no executors are left" in lost
    assert "Start the master again" in lost


@pytest.mark.guarantee("CL-4")
@pytest.mark.skipif(not OWN_FOLDER.exists(), reason="this system has no /proc/self/cwd")
async def test_a_spool_folder_that_executors_do_not_reach_ends_the_start(
    spark_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = spark_at(spark_cluster)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spool").mkdir()
    with pytest.raises(ComponentError) as raised:
        async with asyncio.timeout(110), cluster_run.run(words(Committed()), Config(), spark=spark, spool=str(OWN_FOLDER / "spool")):
            raise AssertionError("the run has begun")
    text = str(raised.value)
    assert f"cannot use the spool folder {OWN_FOLDER}/spool/stormcell-spool-" in text
    assert "No such file or directory" in text
    assert "Give a --spool folder that this machine and all executors reach under the same path, and may write" in text
