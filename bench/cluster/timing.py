"""Times batches of a run. The clock starts when the warm-up batches are committed, so no start of Spark is measured."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import engine
from engine import Config, Topology
from engine.transactional.status import TransactionsEntry
from spark_bridge.process import SparkConfig
from spark_bridge.topology import on_spark

POLL_SECS: Final = 0.02
"""A snapshot takes about 0.2 ms. Looked at each 2 ms, it would slow the measured engine by a tenth."""
TAIL: Final = 4
"""Batches after the measured ones. Several batches are open at once, so at each commit a part of the next ones is done already."""
LOCAL: Final = SparkConfig(master="local[2]", driver_memory="1g")


def all_batches(warm: int, measured: int) -> int:
    """Return the number of batches of a run, for its spout."""
    return warm + measured + TAIL


async def batch_secs(topology: Topology, config: Config, batches: tuple[int, int], spark: SparkConfig | None) -> float:
    """Run the topology to its end, which has `all_batches`. Return the seconds of the measured batches together.

    batches: number of warm-up batches, and number of measured ones. spark: None runs the topology on one core.
    """
    warm, measured = batches
    async with engine.run(topology if spark is None else on_spark(topology, spark), config) as run:
        async with _ending(run):
            began = await _committed_at(run, warm)
            return await _committed_at(run, warm + measured) - began


@asynccontextmanager
async def _ending(run: engine.Run) -> AsyncIterator[None]:
    """Refuse a run that has reported an error, because its batches were replayed."""
    yield
    await run.completed()
    if errors := [report.describe() for report in run.snapshot().errors]:
        raise SystemExit(f"the run has reported: {errors[0]}")


async def _committed_at(run: engine.Run, txid: int) -> float:
    """Wait until a batch is committed. Return the time."""
    while True:
        snapshot = run.snapshot()
        transactions = snapshot.entry(TransactionsEntry).value
        if transactions is not None and transactions.committed >= txid:
            return time.monotonic()
        if snapshot.state in ("complete", "failed", "stopped"):
            raise SystemExit(f"the run is {snapshot.state} before batch {txid}")
        await asyncio.sleep(POLL_SECS)
