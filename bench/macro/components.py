"""Components of the measured topologies. Their callbacks do the same as those of the bare loop."""

from collections import Counter
from collections.abc import Iterator

from engine import Bolt, Fields, Spout, SpoutExhausted, Tuple


class ConstSpout(Spout):
    """Emits the same values forever, each with a message id. Counts acks."""

    output_fields = Fields("value")

    def __init__(self, values: tuple[object, ...]) -> None:
        self.values, self.emitted, self.acked = values, 0, 0

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit(self.values, self.emitted)

    def ack(self, message_id: object) -> None:
        self.acked += 1


class UntrackedSpout(ConstSpout):
    """Emits the same values forever, without a message id."""

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit(self.values)


class FiniteSpout(ConstSpout):
    """Emits the same values a given number of times, each with a message id."""

    def __init__(self, values: tuple[object, ...], tuples: int) -> None:
        super().__init__(values)
        self.tuples = tuples

    def next_tuple(self) -> None:
        if self.emitted == self.tuples:
            raise SpoutExhausted
        super().next_tuple()


class LineSpout(ConstSpout):
    """Emits the lines of an endless iterator, each with a message id."""

    def __init__(self, lines: Iterator[str]) -> None:
        super().__init__(())
        self.lines = lines

    def next_tuple(self) -> None:
        self.emitted += 1
        self.collector.emit((next(self.lines),), self.emitted)


class Null(Bolt):
    """Acks each tuple."""

    def execute(self, tup: Tuple) -> None:
        self.collector.ack(tup)


class Identity(Bolt):
    """Emits each tuple again, anchored."""

    output_fields = Fields("value")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


class Split(Bolt):
    """Emits each word, anchored."""

    output_fields = Fields("word")

    def execute(self, tup: Tuple) -> None:
        emit = self.collector.emit
        for word in tup[0].split():
            emit((word,), tup)
        self.collector.ack(tup)


class Count(Bolt):
    """Counts words in a dict."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Tuple) -> None:
        self.counts[tup[0]] += 1
        self.collector.ack(tup)
