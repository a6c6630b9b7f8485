"""Tuples that only wait, and the methods of a bolt's core for checkpoints and transactions."""

import pytest

from _native.queues import SignalRing
from _native.tuples import Source, make_tuple
from engine import Fields
from engine.kernel.codes import BoltOutcome, Signal
from tests.native.stage import Stage, bolt_with_words, signals_to_acker, take_next, to, wire

# Tuples that only wait


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_waiting_tuples_are_refreshed_in_slices(limit: int) -> None:
    stage, _, bolt = bolt_with_words(*"abcde")
    roots = [root for _, root, _, _ in stage.rings[0].waiting()]
    position, slices = 0, 0
    while position >= 0:
        position = bolt.refresh_waiting(position, limit)
        slices += 1
    assert signals_to_acker(stage) == [(Signal.RESET, root) for root in roots]
    assert slices == -(-5 // limit)


@pytest.mark.guarantee("ACK-8")
def test_a_refresh_continues_correctly_after_the_mailbox_was_drained() -> None:
    stage, spout, bolt = bolt_with_words(*"abcde")
    position = bolt.refresh_waiting(0, 2)
    for _ in range(3):
        bolt.ack(take_next(bolt))
    before = len(signals_to_acker(stage))
    spout.emit(("f",), "f")
    while position >= 0:
        position = bolt.refresh_waiting(position, 2)
    assert len(signals_to_acker(stage)) - before == 3
    for _ in range(3):
        take_next(bolt)
    assert bolt.refresh_waiting(4, 2) == -1


def test_at_most_one_tick_waits_and_settling_it_does_nothing() -> None:
    stage, _, bolt = bolt_with_words("a")
    ticks = Source("__system", "$tick", 0, Fields())
    for _ in range(3):
        bolt.post_tick(make_tuple((), ticks))
    assert bolt.waiting == 2
    bolt.ack(take_next(bolt))
    before = signals_to_acker(stage)
    tick = take_next(bolt)
    wire(bolt, to(stage.bolt()))
    assert tick.is_tick
    bolt.emit(("x",), tick, "default")
    bolt.ack(tick)
    bolt.fail(tick)
    assert (signals_to_acker(stage), bolt.settled_twice, bolt.taken, bolt.acked) == (before, 0, 0, 1)
    bolt.post_tick(make_tuple((), ticks))
    assert bolt.waiting == 1


# Methods for checkpoints and transactions


def test_a_control_tuple_goes_to_every_task_even_a_full_one_and_is_not_executed() -> None:
    stage, _, bolt = bolt_with_words(*"abc")
    first, second = stage.bolt(capacity=2), stage.bolt(capacity=2)
    wire(bolt, to(first, second))
    anchor = take_next(bolt)
    for _ in range(4):
        bolt.emit(("x",), None, "default")
    assert bolt.backpressure.stopped_by == 2
    bolt.emit_control(("barrier",), "default", anchor)
    assert bolt.backpressure.stopped_by == 2
    for task in (first, second):
        assert task.run_burst(256) == BoltOutcome.CONTROL
        assert task.executed == 2
        assert task.current is not None
        assert task.current.is_control
        assert task.taken == 0
        task.settle_control(task.current)
        task.settle_control(task.current, "too late")
    bolt.ack(anchor)
    stage.settle()
    assert (stage.ackers[0].acked, stage.ackers[0].failed) == (1, 0)


def test_a_control_tuple_may_fail() -> None:
    stage, spout, bolt = bolt_with_words()
    spout.core.emit_control(("barrier",), "default", "txid")
    tup = bolt.take_next()
    assert tup is not None
    bolt.settle_control(tup, "why")
    stage.settle()
    spout.hear()
    assert spout.failed == [("txid", "why")]


def test_tuples_sent_are_counted_per_target_since_the_mark() -> None:
    stage, _, bolt = bolt_with_words("a")
    first, second = stage.bolt(), stage.bolt()
    wire(bolt, to(first, second, start=0))
    bolt.emit(("x",), None, "default")
    assert bolt.count_sent(True) == {}
    for _ in range(3):
        bolt.emit(("x",), None, "default")
    bolt.emit_control(("barrier",), "default")
    assert bolt.count_sent(True) == {first.task_id: 1, second.task_id: 2}
    bolt.emit(("x",), None, "default")
    assert bolt.count_sent(False) == {first.task_id: 1}
    bolt.emit(("x",), None, "default")
    assert bolt.count_sent(False) == {}


def test_a_trace_records_every_delivery_and_settle_of_a_tracked_tuple() -> None:
    stage, spout, bolt = bolt_with_words()
    last = stage.bolt()
    wire(bolt, to(last))
    heard: list[tuple[str, int]] = []
    for core in (spout.core, bolt, last):
        core.set_trace(lambda event, roots, task: heard.append((event, task)))
    spout.emit(("tracked",), 1)
    spout.emit(("not",))
    tup, untracked = take_next(bolt), take_next(bolt)
    bolt.emit(("x",), tup, "default")
    bolt.ack(tup)
    bolt.ack(untracked)
    last.fail(take_next(last))
    assert heard == [("opened", 1), ("sent", bolt.task_id), ("sent", last.task_id), ("acked", bolt.task_id), ("failed", last.task_id)]
    spout.core.set_trace(None)
    spout.emit(("tracked",), 2)
    assert len(heard) == 5


def test_an_ack_is_reported_to_a_spout_that_asked_and_a_fail_is_not() -> None:
    stage, spout, bolt = bolt_with_words()
    settled: list[tuple[object, int, float]] = []
    spout.core.listen(lambda message_id, task, secs: settled.append((message_id, task, round(secs, 6))))
    bolt.connect({1: spout.core}, {1: spout.core.verdicts})
    spout.emit(("a",), "a")
    spout.emit(("b",), "b")
    first, second = take_next(bolt), take_next(bolt)
    stage.secs += 0.25
    bolt.fail(second)
    stage.secs += 0.5
    bolt.ack(first)
    spout.hear()
    assert settled == [("a", bolt.task_id, 0.75)]


def test_an_acker_is_reached_through_a_ring() -> None:
    stage = Stage()
    stage.rings = ["ring"]  # type: ignore[list-item]
    with pytest.raises(TypeError, match="acker 0 must be a SignalRing, not 'ring'"):
        stage.bolt()


@pytest.mark.guarantee("ACK-7")
@pytest.mark.parametrize("ackers", [2, 5])
def test_the_remainder_of_a_root_selects_its_acker(ackers: int) -> None:
    stage = Stage(ackers=ackers)
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    for number in range(40):
        spout.emit((number,), number)
    bolt.bind(bolt.ack, basic=False)
    bolt.run_burst(256)
    for index, ring in enumerate(stage.rings):
        assert isinstance(ring, SignalRing)
        assert {root % ackers for _, root, _, _ in ring.waiting()} == {index}
    stage.settle()
    spout.hear()
    assert sorted(spout.acked) == list(range(40))


def test_no_tick_is_posted_while_the_gate_is_closed() -> None:
    bolt = Stage().bolt()
    ticks = Source("__system", "$tick", 0, Fields())
    bolt.gate(True)
    bolt.post_tick(make_tuple((), ticks))
    bolt.gate(False)
    assert bolt.take_next() is None
    bolt.post_tick(make_tuple((), ticks))
    assert take_next(bolt).is_tick
