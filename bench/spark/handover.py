"""Hands rows over in batches, durable and visible, or sends them only to a bolt that drops them.

A bolt emits the rows, so that no source's own bookkeeping is measured. The clock runs from the start of a run to its end, in the second run
of the process.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import engine
from bench.measuring import rate_figures
from bench.spark.rows import BATCH_ROWS, DDL, FIELDS, WARM_ROWS, Row, make_rows
from engine import BatchBolt, Burst, Tuple
from engine.topology import BoltDeclarer
from engine.transactional import BurstBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Handover, SparkHandover
from spark_bridge.writer.stager import BURST_ROWS

RANGE_ROWS = 500
PENDING_BATCHES = 2

Declare = Callable[[TransactionalTopologyBuilder], BoltDeclarer]
"""Declares the component that takes the rows."""


class EmitRows(BatchBolt):
    """Emits the rows of a range."""

    output_fields = FIELDS

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def execute(self, tup: Tuple) -> None:
        self.collector.emit_many(self.rows[tup["first"] : tup["first"] + RANGE_ROWS])

    def finish_batch(self) -> None:
        return None


class DropRows(BurstBolt):
    """Takes the same bursts as the stager, counts their rows, and drops them."""

    burst_rows = BURST_ROWS

    def __init__(self, dropped: list[int]) -> None:
        self.dropped = dropped

    def execute_many(self, burst: Burst) -> None:
        self.dropped.append(len(burst.rows))

    def finish_batch(self) -> None:
        return None


async def measure(rows: int, drop: bool) -> dict[str, float]:
    """Return the figures of the second of two runs. The first run has few rows."""
    found = make_rows(rows)
    run = _drop if drop else _hand_over
    with tempfile.TemporaryDirectory() as folder:
        await run(found[:WARM_ROWS], Path(folder) / "warm")
        return rate_figures(rows, await run(found, Path(folder) / "spool"))


async def _hand_over(rows: list[Row], folder: Path) -> float:
    """Return the seconds of a run that hands the rows over."""
    handover = SparkHandover(folder, DDL)
    secs = await _run_to_end(rows, lambda builder: handover.declare(builder, "spark"))
    written = Handover.open(folder)
    count = sum(written.manifest(txid).rows for txid in range(1, written.newest() + 1))
    if count != len(rows):
        raise SystemExit(f"{count:,} rows of {len(rows):,} were handed over")
    return secs


async def _drop(rows: list[Row], folder: Path) -> float:
    """Return the seconds of a run that drops the rows."""
    dropped: list[int] = []
    secs = await _run_to_end(rows, lambda builder: builder.set_bolt("drop", lambda: DropRows(dropped)))
    if sum(dropped) != len(rows):
        raise SystemExit(f"{sum(dropped):,} rows of {len(rows):,} arrived")
    return secs


async def _run_to_end(rows: list[Row], declare: Declare) -> float:
    """Run one task of each component, and return the seconds."""
    ranges = [(first,) for first in range(0, len(rows), RANGE_ROWS)]
    spout = MemoryTransactionalSpout(ranges, "first", BATCH_ROWS // RANGE_ROWS)
    builder = TransactionalTopologyBuilder("hand-over", "ranges", spout, max_spout_pending=PENDING_BATCHES)
    builder.set_bolt("rows", lambda: EmitRows(rows)).shuffle_grouping("ranges")
    declare(builder).shuffle_grouping("rows")
    topology = builder.build()
    began = time.monotonic()
    async with engine.run(topology) as run:
        await run.completed()
    return time.monotonic() - began
