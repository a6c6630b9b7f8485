"""`python -m bench.spark.calls --calls 300 --rows 50000`: what Spark's process costs the engine's, as JSON.

The time of an empty call; and how late the loop is, from the start of the process through calls and batches to its end: a timer of 1 ms
is set again and again.
"""

import argparse
import asyncio
import json
import tempfile
import time
from array import array
from typing import Any

import engine
from bench.loops import new_event_loop
from bench.macro.latency import percentile
from engine import BatchBolt, Config, Fields, Topology, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkConfig
from spark_bridge.process.spark_child import hold
from spark_bridge.transform import SparkTransform

CONFIG = SparkConfig(master="local[2]", driver_memory="768m", conf={"spark.sql.shuffle.partitions": 2})
TICK_SECS = 0.001
BATCH_ROWS = 10_000


class Lateness:
    """How late a timer is, in milliseconds."""

    def __init__(self) -> None:
        self.taken = array("d")

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.perf_counter() + TICK_SECS
            await asyncio.sleep(TICK_SECS)
            self.taken.append(max(0.0, (time.perf_counter() - due) * 1e3))


class Null(BatchBolt):
    """Takes what comes."""

    output_fields = Fields("nothing")

    def execute(self, tup: Tuple) -> None:
        return

    def finish_batch(self) -> None:
        return


def nothing(spark: Any, call: Any) -> None:
    """Do nothing, in Spark's process."""


def widened(rows: Any) -> Any:
    """Return as many rows as came."""
    return rows.selectExpr("number", "number * 2 as twice", "upper(word) as word")


def batches(rows: int) -> Topology:
    """Return a topology that sends so many rows through Spark and back."""
    numbers = [(number, f"word {number % 1000}") for number in range(rows)]
    spout = MemoryTransactionalSpout(numbers, ("number", "word"), BATCH_ROWS)
    builder = TransactionalTopologyBuilder("bench", "rows", spout)
    bolt = SparkTransform(widened, "number long, word string", ("number", "twice", "word"), CONFIG)
    builder.set_bolt("transform", bolt, 2).shuffle_grouping("rows")
    builder.set_bolt("null", Null).global_grouping("transform")
    return builder.build()


async def run_through(topology: Topology) -> float:
    """Run it to its end; return the seconds."""
    begun = time.perf_counter()
    async with engine.run(topology, Config(max_spout_pending=3)) as run:
        await run.completed()
    return time.perf_counter() - begun


async def measure(calls: int, rows: int) -> dict[str, float]:
    """Return the figures."""
    topology = batches(rows)
    lateness, taken = Lateness(), array("d")
    watching = asyncio.create_task(lateness.watch())
    held = hold(CONFIG)
    begun = time.perf_counter()
    await held.call(nothing)
    start_secs = time.perf_counter() - begun
    for _ in range(calls):
        before = time.perf_counter()
        await held.call(nothing)
        taken.append((time.perf_counter() - before) * 1e3)
    secs = await run_through(topology)
    await held.close()
    watching.cancel()
    return {
        "start_secs": start_secs,
        "call_p50_ms": percentile(sorted(taken), 0.5),
        "call_p99_ms": percentile(sorted(taken), 0.99),
        "stall_p99_ms": percentile(sorted(lateness.taken), 0.99),
        "stall_max_ms": max(lateness.taken),
        "per_second": rows / secs,
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rows", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        tempfile.tempdir = folder
        figures = runner.run(measure(arguments.calls, arguments.rows))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
