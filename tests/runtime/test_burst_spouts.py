"""Spouts that emit many tuples in one call, and take lists of acks (BU-2)."""

import asyncio
from typing import Any

import pytest

from engine import Burst, BurstBolt, BurstSpout, Config, SpoutExhausted, TopologyBuilder, TopologyError
from engine.testing import Finished, run_topology
from tests.runtime.test_bursts import Doubles


class Counts(BurstSpout):
    """Emits numbers. Notes the limits of its calls, and the lists of acks."""

    output_fields = "number"

    def __init__(self, count: int) -> None:
        self.count = count
        self.limits: list[int] = []
        self.acks: list[list[int]] = []
        self.failed: list[int] = []
        self.next = 0

    def next_tuples(self, limit: int) -> Any:
        self.limits.append(limit)
        if self.next == self.count:
            raise SpoutExhausted
        numbers = range(self.next, min(self.count, self.next + limit))
        self.next = numbers.stop
        self.collector.emit_many([(number,) for number in numbers], message_ids=numbers)

    def ack_many(self, message_ids: list[Any]) -> Any:
        self.acks.append(message_ids)

    def fail(self, message_id: Any) -> None:
        self.failed.append(message_id)


def run_counts(spout: Any, bolt: Any = Doubles, **config: Any) -> Finished:
    builder = TopologyBuilder("counts")
    builder.set_spout("numbers", lambda: spout)
    builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
    return run_topology(builder.build(), Config(**config))


@pytest.mark.guarantee("BU-2", "ACK-9")
def test_a_spout_emits_as_many_tuples_as_may_be_pending() -> None:
    spout = Counts(100)
    run_counts(spout, max_spout_pending=30)
    assert max(spout.limits) == 30
    assert all(1 <= limit <= 30 for limit in spout.limits)
    assert [number for ids in spout.acks for number in ids] == list(range(100))
    assert len(spout.acks) < 20


@pytest.mark.guarantee("BU-2", "BP-4")
def test_the_first_call_has_few_tuples_because_nobody_knows_its_time() -> None:
    spout, bolts = Counts(100), list[Doubles]()

    def make() -> Doubles:
        bolts.append(Doubles())
        return bolts[-1]

    run_counts(spout, make)
    assert spout.limits[0] == bolts[0].sizes[0] == 16
    assert spout.limits[1] == 256 - 16


@pytest.mark.guarantee("BU-2", "BP-4")
def test_a_spout_is_asked_for_at_most_a_burst() -> None:
    spout = Counts(1000)
    run_counts(spout, burst=64)
    assert max(spout.limits) == 64


@pytest.mark.guarantee("BU-1", "ACK-4")
def test_failures_of_a_burst_come_one_by_one() -> None:
    class FailsOdd(BurstBolt):
        def execute_many(self, burst: Burst) -> None:
            for tup, number in burst.items("number"):
                if number % 2:
                    burst.fail(tup)

    spout = Counts(10)
    run_counts(spout, FailsOdd)
    assert spout.failed == [1, 3, 5, 7, 9]
    assert [number for ids in spout.acks for number in ids] == [0, 2, 4, 6, 8]


@pytest.mark.guarantee("BU-2", "ACK-6")
def test_acks_without_ackers_come_in_lists_too() -> None:
    spout = Counts(10)
    run_counts(spout, acker_executors=0)
    assert spout.acks == [list(range(10))]


@pytest.mark.guarantee("BU-2", "ACK-10")
def test_methods_of_a_burst_spout_may_wait_and_never_overlap() -> None:
    class Waits(Counts):
        busy = False

        async def next_tuples(self, limit: int) -> None:
            await self.alone()
            super().next_tuples(min(limit, 3))

        async def ack_many(self, message_ids: list[Any]) -> None:
            await self.alone()
            super().ack_many(message_ids)

        async def alone(self) -> None:
            assert not self.busy
            self.busy = True
            await asyncio.sleep(0.01)
            self.busy = False

    spout = Waits(20)
    finished = run_counts(spout)
    assert sorted(number for ids in spout.acks for number in ids) == list(range(20))
    assert finished.errors == ()


@pytest.mark.guarantee("BU-3")
def test_a_burst_spout_may_take_single_acks() -> None:
    acked: list[Any] = []

    class Single(Counts):
        ack_many = BurstSpout.ack_many  # type: ignore[assignment]

        def ack(self, message_id: Any) -> None:
            acked.append(message_id)

    run_counts(Single(10))
    assert acked == list(range(10))


@pytest.mark.guarantee("BU-2")
def test_a_spout_with_both_forms_of_ack_is_refused() -> None:
    class Both(Counts):
        def ack(self, message_id: Any) -> None:
            raise AssertionError

    with pytest.raises(TopologyError, match=r"Both has both ack\(\) and ack_many\(\).* Remove Both\.ack\(\)\."):
        run_counts(Both(10))
