"""Time from the emit of a batch's last row until its rows are counted in a running query.

Each second a batch of 10,000 rows passes engine, manifest, Spark's trigger, a task that reads the file, and a count. Both processes
use the machine's monotonic clock.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
from bench.macro.latency import percentiles_ms
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
    """Emits a batch each second, a given number of times. Each row contains the time of its emit."""

    output_fields = Fields("number", "page", "host", "price", "emitted_ns")

    def __init__(self, batches: int, begun: asyncio.Event) -> None:
        self.batches, self.begun = batches, begun

    def coordinator(self) -> SpoutCoordinator[int]:
        return PacedCoordinator(self.batches, self.begun)

    def emitter(self) -> SpoutEmitter[int]:
        return PacedEmitter()


class PacedCoordinator(SpoutCoordinator[int]):
    """Begins the first batch when the query runs, then one batch each second."""

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


async def measure(batches: int) -> dict[str, float]:
    """Return the figures of `batches` batches, without the first ten."""
    with tempfile.TemporaryDirectory() as folder:
        noted = await _run(batches, Path(folder))
    if [(txid, rows) for txid, rows, _ in noted] != [(txid, BATCH_ROWS) for txid in range(1, batches + 1)]:
        raise SystemExit(f"not every row was counted once: {noted}")
    secs = [ns / 1e9 for txid, _, ns in noted if txid > WARM_BATCHES]
    return {**percentiles_ms(secs, "latency_", ("p50", "p90")), "latency_max_ms": max(secs) * 1000}


async def _run(batches: int, folder: Path) -> list[list[int]]:
    """Run topology and query. Return [txid, rows, nanoseconds] of each batch, in order."""
    seen = folder / "seen.jsonl"
    begun = asyncio.Event()
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look(snapshot: PipelineSnapshot) -> None:
        if any(query.status == "running" for query in snapshot.queries.values()):
            begun.set()

    pipeline = asyncio.create_task(
        run_pipeline(
            _counting(str(seen)), folder / "handover", checkpoints=folder / "checkpoints", spark=SPARK, until=ended, on_progress=look
        )
    )
    async with engine.run(_topology(batches, begun, folder), Config(batch_interval_ms=5)) as run:
        await run.completed()
    ended.set_result(None)
    await pipeline
    return sorted(json.loads(line) for line in seen.read_text().splitlines())


def _topology(batches: int, begun: asyncio.Event, folder: Path) -> Topology:
    builder = TransactionalTopologyBuilder("latency", "rows", Paced(batches, begun))
    handover = SparkHandover(folder / "handover", DDL, consumers=(QUERY,), max_pending_batches=batches)
    handover.declare(builder, "spark").shuffle_grouping("rows")
    return builder.build()


def _counting(seen: str) -> Callable[[Any, int], None]:
    """Return the per-batch function for Spark's process. It counts the rows, and then writes the time to a file."""

    @per_batch(name=QUERY)
    def counted(rows: Any, txid: int) -> None:
        found = rows.groupBy("txid").agg({"emitted_ns": "max", "*": "count"}).collect()
        now = time.monotonic_ns()
        with open(seen, "a", encoding="utf-8") as file:
            for row in found:
                file.write(json.dumps([row["txid"], row["count(1)"], now - row["max(emitted_ns)"]]) + "\n")

    return counted
