"""The user's side of the measured topologies: the global count of partial counts, in batches and without."""

import asyncio

from bench.kafka.job import Tally
from engine import Bolt, Fields, Spout, SpoutExhausted, Tuple
from engine.transactional import BatchBolt, Committer

WORD = ("word",)
PARTIAL_COUNTS = 5
TUPLES = 1000
"""Of one batch; of those without transactions, as many are open."""


class PartialCount(BatchBolt):
    """Counts a task's share of a batch."""

    output_fields = Fields("count")

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1

    def finish_batch(self) -> None:
        self.collector.emit((self.count,))


class WaitingCount(PartialCount):
    """The same, but the end of its batch waits, as for a service."""

    async def finish_batch(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.010)
        self.collector.emit((self.count,))


class GlobalCount(Committer):
    """Adds the partial counts of a batch to the count of all."""

    def __init__(self, tally: Tally) -> None:
        self.tally, self.count = tally, 0

    def execute(self, tup: Tuple) -> None:
        self.count += tup[1]

    def finish_batch(self) -> None:
        self.tally.add(self.count)


class OneByOne(Spout):
    """Emits one tuple for each call, with a message id."""

    output_fields = Fields("word")

    def __init__(self, tally: Tally) -> None:
        self.tally, self.emitted = tally, 0

    def next_tuple(self) -> None:
        if self.emitted == self.tally.expected:
            raise SpoutExhausted
        self.emitted += 1
        self.collector.emit(WORD, self.emitted)


class InBursts(OneByOne):
    """Emits `BURST` tuples for each call, each with a message id."""

    BURST = 250
    ROWS = [WORD] * BURST

    def next_tuple(self) -> None:
        if self.emitted == self.tally.expected:
            raise SpoutExhausted
        ids = range(self.emitted, self.emitted + self.BURST)
        self.emitted = ids.stop
        self.collector.emit_many(self.ROWS, ids)


class PlainPartialCount(Bolt):
    """Counts, and passes the count on as often as a task's share of a batch would end, anchored to the last tuple of it alone."""

    output_fields = Fields("count")
    SHARE = TUPLES // PARTIAL_COUNTS

    def prepare(self) -> None:
        self.count = 0

    def execute(self, tup: Tuple) -> None:
        self.count += 1
        if self.count == self.SHARE:
            self.collector.emit((self.count,), tup)
            self.count = 0
        self.collector.ack(tup)


class PlainGlobalCount(Bolt):
    """Adds the partial counts to the count of all."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def execute(self, tup: Tuple) -> None:
        self.tally.add(tup[0])
        self.collector.ack(tup)
