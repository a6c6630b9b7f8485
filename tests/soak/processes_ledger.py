"""Source and sink of the kill campaign of processes."""

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from engine import BasicBolt, BurstSpout, Spout, SpoutExhausted, Tuple


class Ledger:
    """Numbers of the source, and the paths that the sink has seen. It is the factory of the source."""

    def __init__(self, draws: random.Random, paths: frozenset[str]) -> None:
        self.paths = paths
        self.is_burst = draws.random() < 0.5
        self.queue: deque[int] = deque()
        self.count = 0
        self.acked: Counter[int] = Counter()
        self.failed = 0
        self.seen: dict[int, set[str]] = defaultdict(set)
        self.violations: list[str] = []
        self.is_closed = False
        self.wake: Callable[[], None] = lambda: None

    def create(self) -> Spout:
        """Return the spout."""
        return Many(self) if self.is_burst else One(self)

    def feed(self, count: int) -> None:
        """Add numbers."""
        self.queue.extend(range(self.count, self.count + count))
        self.count += count
        self.wake()

    def note_ack(self, number: int) -> None:
        """Note an ack. All paths of the number must be there."""
        self.acked[number] += 1
        if missing := self.paths - self.seen[number]:
            self.violations.append(f"{number} was acked, and {len(missing)} of {len(self.paths)} paths have not arrived: {min(missing)}")

    def note_fail(self, number: int) -> None:
        """Note a failure, and replay."""
        self.failed += 1
        self.queue.append(number)

    def judge(self) -> None:
        """Check the numbers after the end."""
        if set(self.acked) != set(range(self.count)) or self.acked.total() != self.count:
            self.violations.append(f"{self.acked.total()} acks of {len(self.acked)} numbers, and {self.count} were emitted")
        if unknown := set().union(*self.seen.values()) - self.paths:
            self.violations.append(f"unknown paths: {unknown}")


class One(Spout):
    output_fields = ("number", "path")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def open(self) -> None:
        self.ledger.wake = self.context.wake

    def next_tuple(self) -> None:
        if self.ledger.queue:
            number = self.ledger.queue.popleft()
            self.collector.emit((number, ""), message_id=number)
        elif self.ledger.is_closed:
            raise SpoutExhausted

    def ack(self, message_id: Any) -> None:
        self.ledger.note_ack(message_id)

    def fail(self, message_id: Any) -> None:
        self.ledger.note_fail(message_id)


class Many(BurstSpout):
    output_fields = ("number", "path")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def open(self) -> None:
        self.ledger.wake = self.context.wake

    def next_tuples(self, limit: int) -> None:
        queue = self.ledger.queue
        numbers = [queue.popleft() for _ in range(min(limit, len(queue)))]
        if numbers:
            self.collector.emit_many([(number, "") for number in numbers], message_ids=numbers)
        elif self.ledger.is_closed:
            raise SpoutExhausted

    def ack_many(self, message_ids: list[Any]) -> None:
        for number in message_ids:
            self.ledger.note_ack(number)

    def fail(self, message_id: Any) -> None:
        self.ledger.note_fail(message_id)


class Sink(BasicBolt):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def execute(self, tup: Tuple) -> None:
        self.ledger.seen[tup["number"]].add(tup["path"])
