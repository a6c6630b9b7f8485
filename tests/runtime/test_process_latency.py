"""Process latency: the time from taking a tuple to its ack or fail."""

import asyncio
from typing import Any

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.testing import Feeder, run_topology


def process_ms(bolt: Any, *, tuples: int, every_secs: float = 0.0) -> float:
    """Return the mean process latency of a run."""
    feeder, builder = Feeder("number"), TopologyBuilder("latency")
    builder.set_spout("feed", feeder)
    builder.set_bolt("work", bolt).shuffle_grouping("feed")

    async def feed(run: Any) -> None:
        for number in range(tuples):
            feeder.feed((number,))
            if every_secs:
                await asyncio.sleep(every_secs)
        feeder.close()

    found = run_topology(builder.build(), during=feed).snapshot.components["work"].process_ms
    assert found is not None
    return found


def test_slow_concurrent_calls_count_too() -> None:
    class Work(Bolt):
        concurrency = 10

        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.1 if tup["number"] % 2 else 1.9)
            self.collector.ack(tup)

    assert process_ms(Work, tuples=200) == pytest.approx(1000, rel=0.02)


def test_a_fail_counts_like_an_ack() -> None:
    class Fails(Bolt):
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(1)
            self.collector.fail(tup)

    assert process_ms(Fails, tuples=5) == pytest.approx(1000, rel=0.01)


def test_a_tuple_that_is_acked_later_counts_with_its_whole_time() -> None:
    class ByTick(Bolt):
        tick_tuple_freq_secs = 1.0

        def prepare(self) -> None:
            self.kept: list[Tuple] = []

        def execute(self, tup: Tuple) -> None:
            if not tup.is_tick:
                self.kept.append(tup)
                return
            while self.kept:
                self.collector.ack(self.kept.pop())

    assert process_ms(ByTick, tuples=95, every_secs=0.1) == pytest.approx(500, rel=0.2)
