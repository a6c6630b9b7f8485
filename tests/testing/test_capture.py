"""`Capture` keeps the inputs of a bolt, and lets the test settle them."""

import asyncio

import pytest

from engine import Config, Run, Topology, TopologyBuilder, UsageError
from engine.testing import Capture, Feeder, run_topology
from tests.runtime.stage import number_feeder


def topology(feeder: Feeder, sink: Capture, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("captured")
    builder.set_spout("feed", feeder)
    builder.set_bolt("sink", sink, parallelism=tasks).shuffle_grouping("feed")
    return builder.build()


def test_arrivals_have_task_and_time() -> None:
    sink = Capture()
    run_topology(topology(number_feeder(4), sink, tasks=2))
    assert sorted(sink.values) == [(0,), (1,), (2,), (3,)]
    assert {arrival.task_id for arrival in sink.arrivals} == {2, 3}
    assert all(arrival.secs < 1 for arrival in sink.arrivals)
    assert sink.unsettled == []


def test_a_test_may_settle_inputs_in_any_order() -> None:
    feeder, sink = number_feeder(3), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(3)
        first, second, third = sink.tuples
        sink.ack(third)
        sink.fail(first)
        assert sink.unsettled == [second]
        assert feeder.verdicts == []
        await feeder.settled(1, 3)
        assert feeder.open == [2]
        sink.ack(second)

    run_topology(topology(feeder, sink), during=script)
    assert feeder.acked == [3, 2]
    assert [message_id for message_id, _ in feeder.failed] == [1]


def test_the_oldest_unsettled_input_is_settled_next() -> None:
    feeder, sink = number_feeder(4), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(4)
        sink.ack(sink.tuples[1])
        sink.settle_next(ack=False)
        sink.settle_next()
        assert sink.unsettled == [sink.tuples[3]]
        sink.settle_next()

    run_topology(topology(feeder, sink), during=script)
    assert feeder.acked == [2, 3, 4]
    assert [message_id for message_id, _ in feeder.failed] == [1]


def test_field_returns_one_field_of_all_inputs_by_name_or_index() -> None:
    sink = Capture()
    run_topology(topology(number_feeder(3), sink))
    assert sink.field("number") == sink.field(0) == [0, 1, 2]


def test_a_reset_restarts_the_clock() -> None:
    feeder, sink = number_feeder(1), Capture(settles=False)

    async def script(run: Run) -> None:
        await sink.arrived(1)
        for _ in range(5):
            sink.reset_timeout(sink.tuples[0])
            await asyncio.sleep(20)
        sink.ack(sink.tuples[0])

    finished = run_topology(topology(feeder, sink), Config(message_timeout_secs=30), during=script)
    assert finished.secs > 90
    assert feeder.acked == [1]


def test_an_acked_input_cannot_be_settled_again() -> None:
    sink = Capture()
    run_topology(topology(number_feeder(1), sink))
    with pytest.raises(UsageError, match="settles=False"):
        sink.ack(sink.tuples[0])
