"""`python -m bench.spark.latency --batches 40`: from the emit of a batch's last row to its rows counted in a running query, as JSON.

A batch of 10,000 rows each second: engine, manifest, Spark's trigger, a task that reads the file, a count. Both clocks are the machine's.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
from bench.loops import new_event_loop
from bench.macro.latency import percentile
from engine import Config, Fields, SpoutExhausted, Topology, TransactionalSpout, TransactionAttempt
from engine.transactional import TransactionalTopologyBuilder
from engine.transactional.spouts import SpoutCoordinator, SpoutEmitter
from spark_bridge import SparkConfig, SparkHandover, run_pipeline
from spark_bridge.pipeline import PipelineSnapshot, per_batch

BATCH_ROWS = 10_000
EVERY_SECS = 1.0
WARM_BATCHES = 10
QUERY = "counted"
DDL = "number bigint not null, page string, host string, price double, emitted_ns bigint not null"
SPARK = SparkConfig(master="local[2]", conf={"spark.sql.shuffle.partitions": 2})


class Paced(TransactionalSpout[int]):
    """A batch each second, so many times; each row holds when it was emitted."""

    output_fields = Fields("number", "page", "host", "price", "emitted_ns")

    def __init__(self, batches: int, begun: asyncio.Event) -> None:
        self.batches, self.begun = batches, begun

    def coordinator(self) -> SpoutCoordinator[int]:
        return PacedCoordinator(self.batches, self.begun)

    def emitter(self) -> SpoutEmitter[int]:
        return PacedEmitter()


class PacedCoordinator(SpoutCoordinator[int]):
    """Says when: first when the query runs."""

    def __init__(self, batches: int, begun: asyncio.Event) -> None:
        self.batches, self.begun = batches, begun
        self.due = 0.0

    def is_ready(self) -> bool:
        if self.previous == self.batches:
            raise SpoutExhausted
        return self.begun.is_set() and time.monotonic() >= self.due

    def initialize_transaction(self, txid: int, previous: int | None) -> int:
        self.due = time.monotonic() + EVERY_SECS
        return txid


class PacedEmitter(SpoutEmitter[int]):
    """Emits one batch."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: Any) -> None:
        first, now = metadata * BATCH_ROWS, time.monotonic_ns()
        rows = [(number, f"/page/{number % 97}", f"host-{number % 1009}", number / 7, now) for number in range(first, first + BATCH_ROWS)]
        collector.emit_many(rows)


def topology(batches: int, begun: asyncio.Event, folder: Path) -> Topology:
    """The spout and the hand-over."""
    builder = TransactionalTopologyBuilder("latency", "rows", Paced(batches, begun))
    handover = SparkHandover(folder / "handover", DDL, consumers=(QUERY,), max_pending_batches=batches)
    handover.declare(builder, "spark").shuffle_grouping("rows")
    return builder.build()


def counting(seen: str) -> Callable[[Any, int], None]:
    """Return what is called with each micro-batch, in Spark's process: it counts, and notes when that was done."""

    @per_batch(name=QUERY)
    def counted(rows: Any, txid: int) -> None:
        found = rows.groupBy("txid").agg({"emitted_ns": "max", "*": "count"}).collect()
        now = time.monotonic_ns()
        with open(seen, "a", encoding="utf-8") as file:
            for row in found:
                file.write(json.dumps([row["txid"], row["count(1)"], now - row["max(emitted_ns)"]]) + "\n")

    return counted


async def measure(batches: int, folder: Path) -> dict[str, float]:
    """Return the figures."""
    seen = folder / "seen.jsonl"
    begun = asyncio.Event()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(snapshot: PipelineSnapshot) -> None:
        if any(query.status == "running" for query in snapshot.queries.values()):
            begun.set()

    pipeline = asyncio.create_task(
        run_pipeline(
            counting(str(seen)), folder / "handover", checkpoints=folder / "checkpoints", spark=SPARK, until=ended, on_progress=look
        )
    )
    async with engine.run(topology(batches, begun, folder), Config(batch_interval_ms=5)) as run:
        await run.completed()
    ended.set_result(None)
    await pipeline
    noted = sorted(json.loads(line) for line in seen.read_text().splitlines())
    if [(txid, rows) for txid, rows, _ in noted] != [(txid, BATCH_ROWS) for txid in range(1, batches + 1)]:
        raise SystemExit(f"not every row was counted once: {noted}")
    taken = sorted(ns / 1e6 for txid, _, ns in noted if txid > WARM_BATCHES)
    return {"latency_p50_ms": percentile(taken, 0.5), "latency_p90_ms": percentile(taken, 0.9), "latency_max_ms": taken[-1]}


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=60)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(measure(arguments.batches, Path(folder)))))


if __name__ == "__main__":
    main()
