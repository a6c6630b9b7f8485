"""Rows per second while 1 % of the rows fail: once before any state, once behind it, or always behind it.

numbers -> check -> count (state in SQLite) -> check -> dropped. The source can rewind, so each row counts exactly once. A finite number of
rows is processed, and the clock runs until the run is complete, with the last checkpoint.
"""

import time

import engine
from bench.measuring import rate_figures
from bench.servers import store_url
from engine import BasicBolt, Config, Fields, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple

BAD_EVERY = 100
KEYS = 1000


class Numbers(Spout):
    """Emits a finite number of numbers. The number is the position."""

    output_fields = Fields("number")

    def __init__(self, rows: int) -> None:
        self.rows, self.next = rows, 0

    def next_tuple(self) -> None:
        if self.next == self.rows:
            raise SpoutExhausted
        self.next += 1
        self.collector.emit((self.next,))

    def seek(self, position: int | None) -> None:
        self.next = position or 0

    def position(self) -> int:
        return self.next


class Check(BasicBolt):
    """Refuses some numbers, once or always."""

    output_fields = Fields("number")

    def __init__(self, refuses: str, failed: set[int]) -> None:
        self.refuses, self.failed = refuses, failed

    def execute(self, tup: Tuple) -> tuple[int]:
        number: int = tup["number"]
        if self.refuses and number % BAD_EVERY == 0 and (self.refuses == "always" or number not in self.failed):
            self.failed.add(number)
            raise ValueError(f"{number} is bad")
        return (number,)


class Count(StatefulBasicBolt):
    """Counts the numbers by key."""

    output_fields = Fields("number")
    total = 0

    def execute(self, tup: Tuple) -> tuple[int]:
        key = tup["number"] % KEYS
        self.state.put(key, self.state.get(key, 0) + 1)
        return (tup["number"],)

    def cleanup(self) -> None:
        self.total = sum(number for _, number in self.state.items())


async def measure(case: str, rows: int) -> dict[str, float]:
    """Return the rate. case: "none", "once-before", "once-behind" or "always-behind"."""
    counters: list[Count] = []
    failed: set[int] = set()
    how, _, where = case.partition("-")

    def count() -> Count:
        counters.append(Count())
        return counters[-1]

    builder = TopologyBuilder("failures")
    builder.set_spout("numbers", lambda: Numbers(rows))
    builder.set_bolt("before", lambda: Check(how if where == "before" else "", failed)).shuffle_grouping("numbers")
    builder.set_bolt("count", count).shuffle_grouping("before")
    builder.set_bolt("behind", lambda: Check(how if where == "behind" else "", failed)).shuffle_grouping("count")
    with store_url("sqlite") as url:
        began = time.perf_counter()
        async with engine.run(builder.build(), Config(state_provider=url, processing_guarantee="exactly_once")) as run:
            await run.completed()
            secs = time.perf_counter() - began
    counted = counters[-1].total
    bad = rows // BAD_EVERY
    expected = rows - bad if how == "always" else rows
    if counted != expected or len(failed) != (0 if how == "none" else bad):
        raise SystemExit(f"{counted:,} rows were counted, not {expected:,}, and {len(failed):,} failed")
    return rate_figures(rows, secs)
