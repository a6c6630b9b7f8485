"""Bolts of the benchmark of processes, in a module that a child process imports."""

import time

from engine import BasicBolt, Burst, BurstBolt, BurstSpout, Fields, Tuple

ADDITIONS: int = 1_500
"""Additions of one call, which take about 50 µs."""


class Compute(BasicBolt):
    """Computes in Python for about 50 µs."""

    def execute(self, tup: Tuple) -> None:
        total = 0
        for number in range(ADDITIONS):
            total += number


class Pass(BurstBolt):
    """Emits each input again."""

    output_fields = Fields("text")

    def execute_many(self, burst: Burst) -> None:
        for tup, text in burst.items("text"):
            self.collector.emit((text,), anchors=tup)


class Sleep(BurstBolt):
    """Sleeps 145 µs for each input, in place of a computation. 16 of these tasks take 110,000 tuples/s."""

    def execute_many(self, burst: Burst) -> None:
        time.sleep(len(burst) * 145e-6)


class Texts(BurstSpout):
    """Emits a text of 100 bytes, at most `per_second` times. Counts acks."""

    output_fields = Fields("text")

    def __init__(self, per_second: float | None = None) -> None:
        self.per_second = per_second
        self.emitted = self.acked = 0
        self.began = 0.0

    def next_tuples(self, limit: int) -> None:
        if self.per_second is not None:
            now = time.perf_counter()
            self.began = self.began or now
            limit = min(limit, int((now - self.began) * self.per_second) - self.emitted)
            if limit <= 0:
                return
        first = self.emitted + 1
        self.emitted += limit
        self.collector.emit_many([("x" * 100,)] * limit, list(range(first, first + limit)))

    def ack_many(self, message_ids: list[int]) -> None:
        self.acked += len(message_ids)
