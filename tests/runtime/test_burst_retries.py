"""Retries of bursts that raised, one by one, beside renewals, timeouts and other tasks (BU-1)."""

import asyncio
import re
import time
from itertools import pairwise
from typing import Any

import pytest

import engine
from engine import Burst, BurstBolt, BurstSpout, Config, SpoutExhausted, TopologyBuilder
from engine.testing import Capture, Feeder, run_topology
from tests.runtime.test_bursts import NUMBERS, Doubles, Play, twice


@pytest.mark.guarantee("BU-1", "SV-1")
def test_a_renewal_fails_no_tuple_that_waits_for_its_retry() -> None:
    class FailsMany(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if number <= 150:
                raise ValueError(number)

    play = Play(FailsMany, numbers=range(1, 201))
    assert play.failed == list(range(1, 151))
    assert {failure.reason for _, failure in play.feeder.failed} == {"error"}
    assert play.feeder.acked == list(range(151, 201))
    assert len(play.bolts) == 2
    assert play.bolts[1].seen == list(range(101, 201))


@pytest.mark.guarantee("BU-1", "ACK-8")
def test_a_tuple_that_waits_for_its_retry_does_not_time_out() -> None:
    class Slow(Doubles):
        async def execute_many(self, burst: Burst) -> None:
            await asyncio.sleep(5)
            if len(burst) > 1:
                raise ConnectionError("away")

    play = Play(Slow, numbers=range(1, 41), message_timeout_secs=30)
    assert play.failed == []
    assert sorted(play.feeder.acked) == list(range(1, 41))


@pytest.mark.guarantee("BU-1")
def test_the_last_retry_may_wait_and_raise() -> None:
    class RaisesAtTen(Doubles):
        async def execute_many(self, burst: Burst) -> None:
            await asyncio.sleep(0.01)
            if 10 in burst["number"]:
                raise KeyError("ten")

    play = Play(RaisesAtTen)
    assert play.failed == [10]
    [report] = play.reports
    assert "input: <Tuple (10,)" in report


@pytest.mark.guarantee("BU-1")
def test_the_emits_of_a_call_with_a_wrong_result_are_taken_back() -> None:
    class WrongOnce(Doubles):
        def execute_many(self, burst: Burst) -> Any:
            super().execute_many(burst)
            return [1] if len(self.sizes) == 1 else None

    play = Play(WrongOnce)
    assert play.failed == []
    assert play.emitted == twice(NUMBERS)
    assert len(play.reports) == 1


@pytest.mark.guarantee("BU-1", "BP-4")
def test_failing_retries_let_other_tasks_run() -> None:
    calls_at_turn: list[int] = []

    class Fails(BurstBolt):
        calls = 0

        def prepare(self) -> None:
            self.context.create_task(self.note_turns())

        async def note_turns(self) -> None:
            while True:
                calls_at_turn.append(self.calls)
                await asyncio.sleep(0)

        def execute_many(self, burst: Burst) -> None:
            self.calls += 1
            if len(burst) == 1:
                time.sleep(0.002)  # real time: only the clock of the run ends a turn
            raise ValueError

    feeder = Feeder("number")
    builder = TopologyBuilder("fails")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", Fails).shuffle_grouping("numbers")
    for number in range(50):
        feeder.feed((number,))
    feeder.close()

    async def main() -> None:
        async with engine.run(builder.build()) as run:
            await run.completed()

    asyncio.run(main())
    assert len(feeder.failed) == 50
    assert max(later - earlier for earlier, later in pairwise(calls_at_turn)) <= 5


@pytest.mark.guarantee("BU-1")
def test_if_the_call_lets_another_task_emit_what_it_has_sent_stays() -> None:
    class Source(BurstSpout):
        output_fields = "number"
        ends = False

        def next_tuples(self, limit: int) -> None:
            if self.ends:
                raise SpoutExhausted

    source = Source()

    class Pokes(Doubles):
        def after(self, burst: Burst, tup: Any, number: int) -> None:
            if len(burst) > 1 and number == 3:
                source.collector.emit((100,), 100)
                source.ends = True
                raise ValueError("three")

    feeder, capture, acked = Feeder("number"), Capture(), list[Any]()
    source.ack = acked.append  # type: ignore[method-assign]
    builder = TopologyBuilder("pokes")
    builder.set_spout("numbers", feeder)
    builder.set_spout("source", lambda: source)
    builder.set_bolt("bolt", Pokes).shuffle_grouping("numbers")
    builder.set_bolt("capture", capture).shuffle_grouping("bolt").shuffle_grouping("source")
    for number in NUMBERS:
        feeder.feed((number,))
    feeder.close()
    run_topology(builder.build())
    assert feeder.failed == []
    assert sorted(feeder.acked) == list(NUMBERS)
    assert acked == [100]


class RaisesOnce(Doubles):
    """Raises after all emits of its first call."""

    raised = False

    def execute_many(self, burst: Burst) -> Any:
        super().execute_many(burst)
        if not self.raised:
            self.raised = True
            raise ValueError("once")


class ByRemainder:
    """Chooses the task by the value modulo the number of tasks."""

    def prepare(self, context: Any, stream: str, targets: Any) -> None:
        self.targets = targets

    def choose_tasks(self, source_task: int, values: Any) -> Any:
        return [self.targets[values[0] % len(self.targets)]]


@pytest.mark.guarantee("BU-1", "GRP-4")
def test_what_is_taken_back_from_several_subscribers_comes_once_to_each() -> None:
    feeder, captures = Feeder("number"), [Capture() for _ in range(4)]
    builder = TopologyBuilder("several")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", RaisesOnce).shuffle_grouping("numbers")
    builder.set_bolt("all", captures[0], parallelism=3).all_grouping("bolt")
    builder.set_bolt("chosen", captures[1], parallelism=2).custom_grouping("bolt", ByRemainder)
    builder.set_bolt("by-key", captures[2], parallelism=2).fields_grouping("bolt", "number")
    builder.set_bolt("first", captures[3]).global_grouping("bolt")
    for number in NUMBERS:
        feeder.feed((number,))
    feeder.close()
    finished = run_topology(builder.build())
    twice_each = twice(NUMBERS)
    assert [sorted(values[0] for values in capture.values) for capture in captures] == [sorted(3 * twice_each), *[twice_each] * 3]
    assert sorted(feeder.acked) == list(NUMBERS)
    assert finished.snapshot.components["bolt"].emitted == 20
    assert finished.snapshot.components["bolt"].executed == 10


@pytest.mark.guarantee("BU-1")
def test_a_traced_message_passes_a_retry() -> None:
    play = Play(RaisesOnce, trace_sample_rate=1.0)
    assert play.feeder.acked == list(NUMBERS)
    assert play.emitted == twice(NUMBERS)


@pytest.mark.guarantee("BU-1")
def test_a_run_that_stops_amid_retries_acks_none_of_them() -> None:
    retries = asyncio.Event()

    class Waits(Doubles):
        async def execute_many(self, burst: Burst) -> None:
            if len(burst) > 1:
                raise ConnectionError("away")
            retries.set()
            await asyncio.sleep(1000)

    feeder = Feeder("number")
    builder = TopologyBuilder("stops")
    builder.set_spout("numbers", feeder)
    builder.set_bolt("bolt", Waits).shuffle_grouping("numbers")
    for number in NUMBERS:
        feeder.feed((number,))

    async def main() -> None:
        async with engine.run(builder.build(), Config(drain_timeout_secs=0.1)) as run:
            await retries.wait()
            await run.stop()

    asyncio.run(main())
    assert feeder.acked == []


@pytest.mark.guarantee("BU-1", "ACK-15")
def test_a_burst_of_a_dead_instance_settles_nothing() -> None:
    class Keeps(Doubles):
        on_error = "restart"
        kept: Burst | None = None

        def execute_many(self, burst: Burst) -> Any:
            if Keeps.kept is None:
                Keeps.kept = burst
                raise ValueError("dies")
            for tup in Keeps.kept:
                Keeps.kept.ack(tup)
                Keeps.kept.fail(tup)
            return super().execute_many(burst)

    play = Play(Keeps)
    assert play.failed == list(NUMBERS)
    assert play.feeder.acked == []


@pytest.mark.guarantee("BU-1")
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda bolt, tup: bolt.collector.emit_each("ab", tup), r"bolt 'bolt' called emit_each\('ab'\).*\n?.*emit_each\(\[\.\.\.\], tup\)"),
        (lambda bolt, tup: bolt.collector.emit_many("ab", tup), r"bolt 'bolt' called emit_many\('ab'\)"),
        (lambda bolt, tup: bolt.collector.emit_each(None, tup), r"bolt 'bolt' called emit_each\(None\)"),
        (lambda bolt, tup: [(tup, (1,))], r"bolt 'bolt': execute_many\(\) returned \[.* A BurstBolt emits by"),
    ],
)
def test_a_wrong_use_says_what_to_write(call: Any, text: str) -> None:
    class Wrong(Doubles):
        def execute_many(self, burst: Burst) -> Any:
            return call(self, burst[0])

    play = Play(Wrong, numbers=[1])
    assert play.failed == [1]
    assert play.emitted == []
    [report] = play.reports
    assert re.search(text, report), report
