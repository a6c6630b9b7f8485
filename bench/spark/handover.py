"""`python -m bench.spark.handover`: rows handed over in batches, durable and visible, as JSON.

A bolt emits the rows, so that no source's own bookkeeping is measured. The clock runs from the start of a run to its end, the second run
of the process.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import engine
from bench.compare.work import print_result
from bench.loops import new_event_loop
from bench.spark.rows import BATCH_ROWS, DDL, FIELDS, WARM_ROWS, Row, rows
from engine import BatchBolt, Topology, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Handover, SparkHandover

RANGE_ROWS = 500


class EmitRows(BatchBolt):
    """Emits the rows of a range."""

    output_fields = FIELDS

    def __init__(self, found: list[Row]) -> None:
        self.found = found

    def execute(self, tup: Tuple) -> None:
        self.collector.emit_many(self.found[tup["first"] : tup["first"] + RANGE_ROWS])

    def finish_batch(self) -> None:
        return None


def handing_over(found: list[Row], handover: SparkHandover, pending: int) -> Topology:
    """The topology: one task of each."""
    ranges = [(first,) for first in range(0, len(found), RANGE_ROWS)]
    spout = MemoryTransactionalSpout(ranges, "first", BATCH_ROWS // RANGE_ROWS)
    builder = TransactionalTopologyBuilder("hand-over", "ranges", spout, max_spout_pending=pending)
    builder.set_bolt("rows", lambda: EmitRows(found)).shuffle_grouping("ranges")
    handover.declare(builder, "spark").shuffle_grouping("rows")
    return builder.build()


async def hand_over(found: list[Row], folder: Path, pending: int) -> float:
    """Run it to its end; return the seconds."""
    handover = SparkHandover(folder, DDL)
    began = time.monotonic()
    async with engine.run(handing_over(found, handover, pending)) as run:
        await run.completed()
    secs = time.monotonic() - began
    written = Handover.open(folder)
    count = sum(written.manifest(txid).rows for txid in range(1, written.newest() + 1))
    if count != len(found):
        raise SystemExit(f"{count:,} rows of {len(found):,} are there")
    return secs


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--pending", type=int, required=True)
    arguments = parser.parse_args()
    found = rows(arguments.rows)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(hand_over(found[:WARM_ROWS], Path(folder) / "warm", arguments.pending))
        print_result(len(found), runner.run(hand_over(found, Path(folder) / "spool", arguments.pending)))


if __name__ == "__main__":
    main()
