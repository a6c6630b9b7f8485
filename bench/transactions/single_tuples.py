"""The global count without transactions. Every tuple has a message id and is acked. The number of open tuples equals that of a batch."""

import time

import engine
from bench.kafka.job import Tally
from bench.measuring import rate_figures
from bench.transactions.batches import PARTIAL_COUNTS, WORD
from engine import Bolt, Config, Fields, Spout, SpoutExhausted, TopologyBuilder, Tuple

OPEN_TUPLES = 1000


class OneByOne(Spout):
    """Emits one tuple per call, with a message id."""

    output_fields = Fields("word")

    def __init__(self, tally: Tally) -> None:
        self.tally, self.emitted = tally, 0

    def next_tuple(self) -> None:
        if self.emitted == self.tally.expected:
            raise SpoutExhausted
        self.emitted += 1
        self.collector.emit(WORD, self.emitted)


class InBursts(OneByOne):
    """Emits `BURST` tuples per call, each with a message id."""

    BURST = 250
    ROWS = [WORD] * BURST

    def next_tuple(self) -> None:
        if self.emitted == self.tally.expected:
            raise SpoutExhausted
        ids = range(self.emitted, self.emitted + self.BURST)
        self.emitted = ids.stop
        self.collector.emit_many(self.ROWS, ids)


class PartialCount(Bolt):
    """Emits a count after as many tuples as a task gets of one batch. Anchors the count only to the last tuple."""

    output_fields = Fields("count")
    PART = OPEN_TUPLES // PARTIAL_COUNTS

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1
        if self.count == self.PART:
            self.collector.emit((self.count,), tup)
            self.count = 0
        self.collector.ack(tup)


class GlobalCount(Bolt):
    """Adds the partial counts to the count of all."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def execute(self, tup: Tuple) -> None:
        self.tally.count_records(tup[0])
        self.collector.ack(tup)


SPOUTS = {"one by one": OneByOne, "in bursts": InBursts}


async def measure(tuples: int, emit: str) -> dict[str, float]:
    """Count tuples that are emitted "one by one" or "in bursts"."""
    tally = Tally(tuples)
    builder = TopologyBuilder("plain-count")
    builder.set_spout("words", lambda: SPOUTS[emit](tally), max_spout_pending=OPEN_TUPLES)
    builder.set_bolt("partial", PartialCount, PARTIAL_COUNTS).shuffle_grouping("words")
    builder.set_bolt("total", lambda: GlobalCount(tally)).global_grouping("partial")
    async with engine.run(builder.build(), Config()) as run:
        await run.completed()
        ended_at = time.monotonic()
    if tally.seen <= tuples - OPEN_TUPLES:  # tasks have not emitted their last, smaller counts
        raise SystemExit(f"{tally.seen:,} tuples of {tuples:,} were counted")
    return rate_figures(tuples - tally.warm, ended_at - tally.from_at)
