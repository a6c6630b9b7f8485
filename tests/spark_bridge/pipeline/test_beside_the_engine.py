"""A topology and a pipeline on the same event loop: from a tuple to a table, every row once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import engine
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import SparkHandover
from tests.spark_bridge.pipeline.folders import read_numbers
from tests.spark_bridge.pipeline.playing import Playing

pytestmark = [pytest.mark.deep, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

REPLACES = """
def pipeline(batch, txid):
    batch.write.mode("overwrite").parquet(f"{OUT}/txid={txid}")
"""


@asynccontextmanager
async def handing_over(playing: Playing, rows: int) -> AsyncIterator[asyncio.Task[None]]:
    """Run a topology that hands over numbers in batches of 25. Yield the task that waits for its end."""
    handover = SparkHandover(playing.path / "handover", "number bigint not null", consumers=("pipeline",), max_pending_batches=4)
    spout = MemoryTransactionalSpout([(number,) for number in range(rows)], engine.Fields("number"), 25)
    builder = TransactionalTopologyBuilder("numbers", "numbers", spout, max_spout_pending=2)
    handover.declare(builder, "spark", 2).shuffle_grouping("numbers")
    async with engine.run(builder.build()) as run:
        yield asyncio.create_task(run.completed())


@pytest.mark.guarantee("SP-1", "SP-3", "SP-6")
async def test_a_pipeline_beside_the_engine_ends_with_it_and_has_every_row_once(playing: Playing) -> None:
    async with handing_over(playing, 300) as end:
        now = await playing.run(playing.file(REPLACES), end)
    assert read_numbers(playing.out) == list(range(300))
    query = now.queries["pipeline"]
    assert (query.rows, query.txid, query.lag) == (300, now.newest_txid, 0)
    assert query.batches > 2, "the engine waited for Spark: at most four batches are pending"
