"""The global count in batches of tuples.

The clock runs from the commit that completes the first tenth to the end of the run.
"""

import asyncio
import time

import engine
from bench.kafka.job import Tally
from bench.measuring import rate_figures
from bench.servers import store_url
from engine import Config, Fields, Tuple
from engine.transactional import BatchBolt, Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder

WORD = ("word",)
PARTIAL_COUNTS = 5
WAIT_SECS = 0.010


class PartialCount(BatchBolt):
    """Counts a task's part of a batch."""

    output_fields = Fields("count")

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit((self.count,))


class WaitingCount(PartialCount):
    """Waits at the end of its batch, like for a service."""

    async def finish_batch(self) -> None:  # type: ignore[override]
        await asyncio.sleep(WAIT_SECS)
        self.collector.emit((self.count,))


class GlobalCount(Committer):
    """Adds the partial counts of a batch to the count of all."""

    def __init__(self, tally: Tally) -> None:
        self.tally, self.count = tally, 0

    def execute(self, tup: Tuple) -> None:
        self.count += tup[1]

    def finish_batch(self) -> None:
        self.tally.count_records(self.count)


async def measure(store: str, tuples: int, take: int, pending: int, waits: bool) -> dict[str, float]:
    """Count in batches of `take` tuples, with `pending` batches at once and the coordinator's state in `store`."""
    tally = Tally(tuples)
    spout = MemoryTransactionalSpout([WORD] * tuples, "word", take)
    builder = TransactionalTopologyBuilder("global-count", "words", spout, max_spout_pending=pending)
    builder.set_bolt("partial", WaitingCount if waits else PartialCount, PARTIAL_COUNTS).shuffle_grouping("words")
    builder.set_committer("total", lambda: GlobalCount(tally)).global_grouping("partial")
    with store_url(store) as url:
        async with engine.run(builder.build(), Config(state_provider=url)) as run:
            await run.completed()
            ended_at = time.monotonic()
    if tally.seen != tuples:
        raise SystemExit(f"{tally.seen:,} tuples of {tuples:,} were counted")
    return rate_figures(tuples - tally.warm, ended_at - tally.from_at)
