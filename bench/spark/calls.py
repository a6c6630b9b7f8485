"""Costs of Spark's process for the engine's process (an empty call, rows to Spark and back, and a late loop).

A timer of 1 ms is set repeatedly, from the start of Spark's process to its end. Its delay shows how late the loop is.
"""

import asyncio
import tempfile
import time
from array import array
from typing import Any

import engine
from bench.macro.latency import percentiles_ms
from engine import BatchBolt, Config, Fields, Topology, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkConfig
from spark_bridge.process.spark_child import hold
from spark_bridge.transform import SparkTransform

CONFIG = SparkConfig(master="local[2]", driver_memory="768m", conf={"spark.sql.shuffle.partitions": 2})
TICK_SECS = 0.001
BATCH_ROWS = 10_000


class Null(BatchBolt):
    """Takes tuples."""

    output_fields = Fields("nothing")

    def execute(self, tup: Tuple) -> None:
        return

    def finish_batch(self) -> None:
        return


def nothing(spark: Any, call: Any) -> None:
    """Do nothing, in Spark's process."""


def widened(rows: Any) -> Any:
    """Return one row for each input row."""
    return rows.selectExpr("number", "number * 2 as twice", "upper(word) as word")


async def measure(calls: int, rows: int) -> dict[str, float]:
    """Return the figures of `calls` calls, and of the rows."""
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        return await _measure(calls, rows)


async def _measure(calls: int, rows: int) -> dict[str, float]:
    topology = _topology(rows)
    lateness, taken = array("d"), array("d")
    watching = asyncio.create_task(_watch_loop(lateness))
    held = hold(CONFIG)
    begun = time.perf_counter()
    await held.call(nothing)
    start_secs = time.perf_counter() - begun
    for _ in range(calls):
        before = time.perf_counter()
        await held.call(nothing)
        taken.append(time.perf_counter() - before)
    begun = time.perf_counter()
    async with engine.run(topology, Config(max_spout_pending=3)) as run:
        await run.completed()
    secs = time.perf_counter() - begun
    await held.close()
    watching.cancel()
    return {
        "start_secs": start_secs,
        **percentiles_ms(taken, "call_"),
        "stall_p99_ms": percentiles_ms(lateness)["p99_ms"],
        "stall_max_ms": max(lateness) * 1000,
        "per_second": rows / secs,
    }


async def _watch_loop(lateness: "array[float]") -> None:
    """Note the delay of a timer, in seconds, until cancelled."""
    while True:
        due = time.perf_counter() + TICK_SECS
        await asyncio.sleep(TICK_SECS)
        lateness.append(max(0.0, time.perf_counter() - due))


def _topology(rows: int) -> Topology:
    """Return a topology that sends rows through Spark and back."""
    numbers = [(number, f"word {number % 1000}") for number in range(rows)]
    spout = MemoryTransactionalSpout(numbers, ("number", "word"), BATCH_ROWS)
    builder = TransactionalTopologyBuilder("bench", "rows", spout)
    bolt = SparkTransform(widened, "number long, word string", ("number", "twice", "word"), CONFIG)
    builder.set_bolt("transform", bolt, 2).shuffle_grouping("rows")
    builder.set_bolt("null", Null).global_grouping("transform")
    return builder.build()
