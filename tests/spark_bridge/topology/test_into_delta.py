"""From a topology on Spark through the hand-over into a Delta table: each row once (CL-1, SP-1, SP-3)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Delta, SparkHandover
from spark_bridge.pipeline.run import run_pipeline
from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.process.spark_child import hold
from spark_bridge.topology import cluster_run
from tests.servers import spark_programs
from tests.servers.required import required
from tests.servers.spark_session import DELTA_SETTINGS
from tests.spark_bridge.spark_fixtures import LOCAL

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep, pytest.mark.timeout(240)]

RUN_SECS = 110
NUMBERS = range(120)
CONSUMER = "delta"


def with_delta() -> SparkConfig:
    return SparkConfig(
        LOCAL.master, driver_memory="768m", conf={**dict(LOCAL.conf), **DELTA_SETTINGS}, jars=tuple(map(str, spark_programs.delta_jars()))
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def delta_child(spark_here: None, temporary_files: None) -> AsyncIterator[SparkChild]:
    """Yield a child whose session has Delta Lake. CI also skips the test on a version of Spark without Delta Lake."""
    if not spark_programs.spark_version().startswith(f"{spark_programs.DELTA_SPARK}."):
        pytest.skip(str(spark_programs.why_no_delta()))
    required(spark_programs.why_no_delta())
    held = hold(with_delta())
    try:
        yield held.child
    finally:
        await held.close()


class Doubles(BasicBolt):
    """Kills its worker once, so that a batch is replayed."""

    output_fields = ("number", "doubled")

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def execute(self, tup: Tuple) -> tuple[int, int]:
        if tup["number"] == 50 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return (tup["number"], 2 * tup["number"])


@pytest.mark.guarantee("CL-1", "SP-1", "SP-3")
async def test_batches_of_a_topology_on_spark_are_in_a_delta_table_once(delta_child: SparkChild, tmp_path: Path) -> None:
    handover = SparkHandover(tmp_path / "handover", "number bigint not null, doubled bigint", consumers=(CONSUMER,))
    table, marker = str(tmp_path / "table"), tmp_path / "killed"

    def into_delta(stream: Any) -> dict[str, Any]:
        return {CONSUMER: Delta(table).writer(stream, CONSUMER)}

    async def played_by_pipeline() -> int:
        """Run the pipeline until it has read all batches. Return the newest txid."""
        options: Any = {"checkpoints": tmp_path / "checkpoints", "spark": delta_child.config, "until": "caught up"}
        return (await run_pipeline(into_delta, tmp_path / "handover", **options)).newest_txid

    builder: Any = TransactionalTopologyBuilder(
        "doubles", "numbers", MemoryTransactionalSpout([(number,) for number in NUMBERS], "number", take=20), max_spout_pending=2
    )
    builder.set_bolt("doubles", lambda: Doubles(marker), 2).shuffle_grouping("numbers")
    handover.declare(builder, "spark", 2).shuffle_grouping("doubles")
    async with asyncio.timeout(RUN_SECS), cluster_run.run(builder.build(), Config(), spark=delta_child.config) as running:
        await running.completed()
    assert marker.exists()

    async with asyncio.timeout(RUN_SECS):
        assert await played_by_pipeline() == 6
        assert await played_by_pipeline() == 6  # goes on from its checkpoint, and finds nothing
        rows = await delta_child.call(_rows_in, table)
    assert rows == [(number, 2 * number, 1 + number // 20) for number in NUMBERS]


def _rows_in(spark: Any, call: Any, table: str) -> list[tuple[int, int, int]]:
    found = spark.read.format("delta").load(table).select("number", "doubled", "txid").collect()
    return sorted(tuple(row) for row in found)
