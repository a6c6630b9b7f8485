"""`python -m bench.spark.handover`: rows handed over in batches, durable and visible, as JSON; with `--drop`, only as far as a bolt.

A bolt emits the rows, so that no source's own bookkeeping is measured. The clock runs from the start of a run to its end, the second run
of the process. The difference between the two is what handing over costs where rows are on their way anyway.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine
from bench.compare.work import print_result
from bench.loops import new_event_loop
from bench.spark.rows import BATCH_ROWS, DDL, FIELDS, WARM_ROWS, Row, rows
from engine import BatchBolt, Fields, Topology, Tuple
from engine.topology import BoltDeclarer
from engine.transactional import BurstBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge import Handover, SparkHandover
from spark_bridge.writer.stager import BURST_ROWS

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


class DropRows(BurstBolt):
    """Stands where the stager does, and takes its bursts as that does: counts them."""

    burst_rows = BURST_ROWS

    def __init__(self, dropped: list[int]) -> None:
        self.dropped = dropped

    def execute_many(self, rows: list[tuple[Any, ...]], fields: Fields) -> None:
        self.dropped.append(len(rows))

    def finish_batch(self) -> None:
        return None


def topology_of(found: list[Row], pending: int, declare: Callable[[TransactionalTopologyBuilder], BoltDeclarer]) -> Topology:
    """The topology: one task of each, and what is declared behind the rows."""
    ranges = [(first,) for first in range(0, len(found), RANGE_ROWS)]
    spout = MemoryTransactionalSpout(ranges, "first", BATCH_ROWS // RANGE_ROWS)
    builder = TransactionalTopologyBuilder("hand-over", "ranges", spout, max_spout_pending=pending)
    builder.set_bolt("rows", lambda: EmitRows(found)).shuffle_grouping("ranges")
    declare(builder).shuffle_grouping("rows")
    return builder.build()


async def hand_over(found: list[Row], folder: Path, pending: int) -> float:
    """Run it to its end; return the seconds."""
    handover = SparkHandover(folder, DDL)
    secs = await run_to_end(topology_of(found, pending, lambda builder: handover.declare(builder, "spark")))
    written = Handover.open(folder)
    count = sum(written.manifest(txid).rows for txid in range(1, written.newest() + 1))
    if count != len(found):
        raise SystemExit(f"{count:,} rows of {len(found):,} are there")
    return secs


async def drop(found: list[Row], pending: int) -> float:
    """Run it without the hand-over; return the seconds."""
    dropped: list[int] = []
    secs = await run_to_end(topology_of(found, pending, lambda builder: builder.set_bolt("drop", lambda: DropRows(dropped))))
    if sum(dropped) != len(found):
        raise SystemExit(f"{sum(dropped):,} rows of {len(found):,} came")
    return secs


async def run_to_end(topology: Topology) -> float:
    """Return the seconds from the start of a run to its end."""
    began = time.monotonic()
    async with engine.run(topology) as run:
        await run.completed()
    return time.monotonic() - began


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--pending", type=int, required=True)
    parser.add_argument("--drop", action="store_true")
    arguments = parser.parse_args()
    found = rows(arguments.rows)
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=new_event_loop) as runner:
        if arguments.drop:
            runner.run(drop(found[:WARM_ROWS], arguments.pending))
            print_result(len(found), runner.run(drop(found, arguments.pending)))
        else:
            runner.run(hand_over(found[:WARM_ROWS], Path(folder) / "warm", arguments.pending))
            print_result(len(found), runner.run(hand_over(found, Path(folder) / "spool", arguments.pending)))


if __name__ == "__main__":
    main()
