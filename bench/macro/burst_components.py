"""Components that take and emit bursts. Their callbacks do the same as those of the bare loop with bursts."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from engine import Burst, BurstBolt, BurstSpout, Fields


class ConstBurstSpout(BurstSpout):
    """Emits the same values forever, each with a message id. Counts acks."""

    output_fields = Fields("value")

    def __init__(self, values: tuple[object, ...]) -> None:
        self.values, self.emitted, self.acked = values, 0, 0

    def next_tuples(self, limit: int) -> None:
        first = self.emitted + 1
        self.emitted += limit
        self.collector.emit_many([self.values] * limit, list(range(first, first + limit)))

    def ack_many(self, message_ids: list[Any]) -> None:
        self.acked += len(message_ids)


class UntrackedBurstSpout(ConstBurstSpout):
    """Emits the same values forever, without message ids."""

    def next_tuples(self, limit: int) -> None:
        self.emitted += limit
        self.collector.emit_many([self.values] * limit)


class LineBurstSpout(ConstBurstSpout):
    """Emits the lines of an endless iterator, each with a message id."""

    def __init__(self, lines: Iterator[str]) -> None:
        super().__init__(())
        self.lines = lines

    def next_tuples(self, limit: int) -> None:
        first = self.emitted + 1
        self.emitted += limit
        self.collector.emit_many([(line,) for line in islice(self.lines, limit)], list(range(first, first + limit)))


class NullMany(BurstBolt):
    """Does nothing with each tuple."""

    def execute_many(self, burst: Burst) -> None:
        return None


class IdentityMany(BurstBolt):
    """Emits each tuple again, anchored."""

    output_fields = Fields("value")

    def execute_many(self, burst: Burst) -> None:
        emit = self.collector.emit
        for tup in burst:
            emit(tup.values, tup)


class SplitMany(BurstBolt):
    """Emits each word, anchored."""

    output_fields = Fields("word")

    def execute_many(self, burst: Burst) -> None:
        emit = self.collector.emit_each
        for tup, line in burst.items("value"):
            emit(line.split(), tup)


class CountMany(BurstBolt):
    """Counts words in a dict."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute_many(self, burst: Burst) -> None:
        self.counts.update(burst["word"])
