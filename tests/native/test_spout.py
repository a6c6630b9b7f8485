"""A spout's core: its polls, its open trees and their verdicts."""

import gc
import weakref
from collections.abc import Callable

import pytest

from _native.bolt import BoltCore
from _native.queues import Mailbox
from _native.task import Outlet, OutStream
from engine.kernel.codes import Choice, Signal, SpoutOutcome
from tests.native.stage import Misused, SpoutLog, Stage, source, take_next, to, wire


class Source:
    """A next_tuple that emits n, n + 1, … with the number as message id, until it has emitted `count`."""

    def __init__(self, count: int) -> None:
        self.count, self.polls = count, 0
        self.spout: SpoutLog

    def __call__(self) -> None:
        self.polls += 1
        if self.polls <= self.count:
            self.spout.emit((self.polls,), self.polls)


def polling(count: int, **options: int) -> tuple[Stage, SpoutLog, BoltCore, Source]:
    """A spout that polls a source, and the bolt behind it."""
    stage, emits = Stage(), Source(count)
    spout, bolt = stage.spout(emits, **options), stage.bolt()
    emits.spout = spout
    wire(spout.core, to(bolt))
    spout.core.polling = True
    return stage, spout, bolt, emits


# How a burst ends


def test_a_turn_polls_until_nothing_is_new_or_the_turn_is_over() -> None:
    _, spout, bolt, emits = polling(5)
    assert spout.core.run_burst(3) == SpoutOutcome.POLL_AGAIN
    assert (emits.polls, spout.core.emitted, bolt.waiting) == (3, 3, 3)
    assert spout.core.run_burst(256) == SpoutOutcome.NOTHING_NEW
    assert (emits.polls, spout.core.pending) == (6, 5)
    spout.core.polling = False
    assert spout.core.run_burst(256) == SpoutOutcome.QUIET
    assert emits.polls == 6


@pytest.mark.guarantee("ACK-9")
def test_the_number_of_open_trees_is_tested_before_each_poll() -> None:
    stage, spout, bolt, emits = polling(5, max_pending=2)
    assert spout.core.run_burst(256) == SpoutOutcome.QUIET
    assert (emits.polls, spout.core.pending) == (2, 2)
    bolt.ack(take_next(bolt))
    stage.settle()
    assert spout.core.run_burst(256) == SpoutOutcome.QUIET
    assert (spout.acked, emits.polls, spout.core.pending) == ([1], 3, 2)


@pytest.mark.guarantee("BP-2")
def test_a_full_mailbox_stops_polls_but_not_verdicts() -> None:
    stage, spout, _, emits = polling(9)
    bolt = stage.bolt(capacity=3)
    wire(spout.core, to(bolt))
    assert spout.core.run_burst(256) == SpoutOutcome.HELD_UP
    assert (emits.polls, bolt.waiting) == (3, 3)
    bolt.ack(take_next(bolt))
    stage.settle()
    assert spout.core.run_burst(256) == SpoutOutcome.HELD_UP
    assert (emits.polls, spout.acked) == (3, [1])
    take_next(bolt)
    assert spout.core.run_burst(256) == SpoutOutcome.HELD_UP
    assert emits.polls == 5


@pytest.mark.guarantee("BP-4")
def test_a_turn_lasts_5_ms() -> None:
    stage, spout, _, _ = polling(100)

    def slow() -> None:
        stage.secs += 0.002
        spout.emit(("x",))

    spout.core.bind(slow, None, lambda message_id, failure: None)
    assert spout.core.run_burst(256) == SpoutOutcome.POLL_AGAIN
    assert 3 <= spout.core.executed <= 5


def test_a_spout_yields_to_bolts_that_are_behind_but_not_for_ever() -> None:
    stage, spout, _, emits = polling(99)
    busy = stage.bolt()
    wire(spout.core, to(busy))
    spout.core.run_burst(3)
    busy.run_burst(1)
    assert stage.backlog.bolts_behind == 1
    turns = 0
    while spout.core.run_burst(1) == SpoutOutcome.GAVE_WAY:
        turns += 1
    assert turns == 64
    assert emits.polls == 4


@pytest.mark.guarantee("ACK-10")
def test_an_awaitable_of_a_method_is_returned_and_no_other_method_is_called_meanwhile() -> None:
    stage, spout, bolt, _ = polling(0)
    calls: list[str] = []

    def next_tuple() -> str | None:
        calls.append("next_tuple")
        spout.emit(("x",), len(calls))
        return "awaitable" if len(calls) == 2 else None

    spout.core.bind(next_tuple, lambda message_id: f"ack {message_id}", lambda message_id, failure: f"fail {message_id}")
    assert spout.core.run_burst(256) == SpoutOutcome.AWAITABLE
    assert (spout.core.returned, calls) == ("awaitable", ["next_tuple"] * 2)
    assert not spout.core.polled_in_vain()
    spout.core.forget_returned()
    spout.core.add_awaited_secs(0.5)
    assert spout.core.busy_secs == spout.core.plain_secs + 0.5
    bolt.ack(take_next(bolt))
    bolt.fail(take_next(bolt))
    stage.settle()
    for returned in ("ack 1", "fail 2"):
        assert spout.core.run_burst(256) == SpoutOutcome.AWAITABLE
        assert spout.core.returned == returned
    assert calls == ["next_tuple"] * 2


def test_an_awaited_poll_without_an_emit_counts_as_idle() -> None:
    _, spout, _, _ = polling(0)
    spout.core.bind(lambda: "awaitable", None, lambda message_id, failure: None)
    assert spout.core.run_burst(256) == SpoutOutcome.AWAITABLE
    assert spout.core.polled_in_vain()


# Verdicts


@pytest.mark.guarantee("ACK-1", "ACK-3")
def test_init_carries_the_xor_of_the_edges_to_every_subscriber() -> None:
    stage = Stage()
    spout, bolts = stage.spout(), [stage.bolt() for _ in range(4)]
    wire(spout.core, to(*bolts[:3], choice=Choice.TO_ALL), to(bolts[3]))
    spout.emit(("x",), "id")
    assert spout.core.transferred == 4
    [(kind, root, value, task)] = stage.rings[0].waiting()
    assert (kind, task) == (Signal.INIT, 1)
    edges = 0
    for bolt in bolts:
        tup = take_next(bolt)
        assert tup.roots == (root,)
        bolt.ack(tup)
        edges ^= stage.rings[0].waiting()[-1][2]
    assert edges == value
    stage.settle()
    spout.hear()
    assert (spout.acked, spout.core.pending, spout.core.acked) == (["id"], 0, 1)


@pytest.mark.guarantee("ACK-4")
def test_a_repeated_verdict_is_ignored() -> None:
    _, spout, _, _ = polling(2)
    spout.core.run_burst(256)
    roots = spout.core.open_trees.roots()
    for root in roots:
        spout.core.verdicts.signal(Signal.FAILED, root, carried="why")
        spout.core.verdicts.signal(Signal.ACKED, root)
        spout.core.verdicts.signal(Signal.FAILED, root, carried="again")
    spout.core.verdicts.signal(Signal.ACKED, 12345)
    spout.hear()
    assert spout.acked == []
    assert sorted(spout.failed) == [(1, "why"), (2, "why")]
    assert (spout.core.acked, spout.core.failed, spout.core.pending) == (0, 2, 0)


def test_complete_latency_is_from_emit_to_ack_and_excludes_failures() -> None:
    stage, spout, bolt, _ = polling(0)
    spout.emit(("x",), "id")
    stage.secs += 1.5
    bolt.ack(take_next(bolt))
    spout.emit(("x",), "fails")
    stage.secs += 30
    bolt.fail(take_next(bolt))
    stage.settle()
    spout.hear()
    assert spout.core.complete_latency.count == 1
    assert spout.core.complete_latency.mean() == pytest.approx(31.5)


@pytest.mark.guarantee("ACK-13")
def test_the_death_of_an_acker_fails_only_its_trees() -> None:
    stage = Stage(ackers=3)
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    for number in range(30):
        spout.emit((number,), number)
    of_acker = {index: len(ring) for index, ring in enumerate(stage.rings)}
    spout.core.verdicts.signal(Signal.ACKER_DIED, value=1)
    spout.hear()
    assert len(spout.failed) == of_acker[1]
    assert {failure for _, failure in spout.failed} == {"acker died"}
    assert {root % 3 for root in spout.core.open_trees.roots()} == {0, 2}


@pytest.mark.guarantee("ACK-13")
def test_trees_of_a_dead_instance_are_forgotten_here_and_at_the_ackers() -> None:
    stage, spout, bolt, _ = polling(3)
    spout.core.run_burst(256)
    bolt.ack(take_next(bolt))
    stage.settle()
    assert len(spout.core.verdicts) == 1
    assert spout.core.drop_instance() == 3
    assert (spout.core.pending, len(spout.core.verdicts)) == (0, 0)
    heard: list[object] = []
    spout.core.bind(lambda: None, heard.append, lambda message_id, failure: heard.append(failure))
    bolt.ack(take_next(bolt))
    bolt.fail(take_next(bolt))
    stage.settle()
    spout.hear()
    assert (heard, spout.acked, spout.failed) == ([], [], [])


def test_message_ids_are_released_by_a_verdict_or_at_the_end() -> None:
    class Id:
        pass

    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    ids = [Id(), Id(), Id()]
    watched = [weakref.ref(message_id) for message_id in ids]
    while ids:
        spout.emit(("x",), ids.pop(0))
    bolt.ack(take_next(bolt))
    stage.settle()
    spout.hear()
    spout.acked.clear()
    assert [ref() is None for ref in watched] == [True, False, False]
    spout.core.drop_instance()
    assert [ref() is None for ref in watched] == [True, True, True]
    last = Id()
    spout.emit(("x",), last)
    watched = [weakref.ref(last)]
    del last, spout, stage, bolt
    gc.collect()
    assert watched[0]() is None


def test_the_memory_of_closed_trees_is_freed_after_some_seconds() -> None:
    stage, spout, _, _ = polling(0)
    least = spout.core.open_trees.nbytes
    for number in range(100_000):
        spout.emit(("x",), number)
    most = spout.core.open_trees.nbytes
    assert least < most <= 64 * 100_000
    for root in spout.core.open_trees.roots():
        spout.core.verdicts.signal(Signal.ACKED, root)
    spout.hear()
    assert len(spout.acked) == 100_000
    for secs, nbytes in ((0.0, most), (4.9, most), (0.2, least)):  # the trees of the next checkpoint may need it again
        stage.secs += secs
        spout.hear()
        assert spout.core.open_trees.nbytes == nbytes


# Without an acker


@pytest.mark.guarantee("ACK-6")
def test_without_ackers_ack_is_called_after_the_poll_and_not_inside_emit() -> None:
    stage = Stage(ackers=0)
    events: list[str] = []

    def next_tuple() -> None:
        for half in "ab":
            spout.emit((half,), half)
            events.append(f"emitted {half}")

    spout, bolt = stage.spout(), stage.bolt()
    spout.core.bind(next_tuple, lambda message_id: events.append(f"acked {message_id}"), lambda message_id, failure: None)
    wire(spout.core, to(bolt))
    spout.core.polling = True
    spout.core.run_burst(2)
    assert events == ["emitted a", "emitted b", "acked a", "acked b"] * 2
    assert (spout.core.pending, spout.core.acked, bolt.waiting) == (0, 4, 4)
    assert take_next(bolt).roots == ()


@pytest.mark.guarantee("ACK-6")
@pytest.mark.parametrize("outlets", [[], [Outlet(Choice.CUSTOM, [(11, Mailbox())], chooser=lambda values: [])]])
def test_a_tree_without_a_first_tuple_is_acked_at_once_but_not_inside_emit(outlets: list[Outlet]) -> None:
    stage, spout, _, _ = polling(0)
    wire(spout.core, *outlets)
    spout.emit(("x",), "id")
    assert spout.acked == []
    assert spout.core.has_acks_to_flush
    spout.hear()
    assert (spout.acked, spout.core.pending, len(stage.rings[0])) == (["id"], 0, 0)


@pytest.mark.guarantee("ACK-6")
@pytest.mark.parametrize("ackers", [0, 1])
def test_an_emit_that_raises_opens_no_tree_and_is_not_acked(ackers: int) -> None:
    stage = Stage(ackers=ackers)
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt, choice=Choice.BY_FIELDS, positions=[0], names=["word"]))
    with pytest.raises(Misused, match="key"):
        spout.emit(({},), "id")
    spout.hear()
    assert (spout.acked, spout.core.pending, spout.core.has_acks_to_flush, bolt.waiting) == ([], 0, False, 0)


def test_acks_after_one_that_raises_or_is_awaited_are_still_called() -> None:
    stage = Stage(ackers=0)
    spout = stage.spout()
    wire(spout.core, to(stage.bolt()))
    acked: list[object] = []

    def ack(message_id: object) -> str | None:
        acked.append(message_id)
        if message_id == 2:
            raise ValueError("no")
        return "awaitable" if message_id == 3 else None

    spout.core.bind(lambda: None, ack, lambda message_id, failure: None)
    for number in range(1, 6):
        spout.emit((number,), number)
    with pytest.raises(ValueError, match="no"):
        spout.core.run_burst(256)
    assert spout.core.run_burst(256) == SpoutOutcome.AWAITABLE
    assert spout.core.run_burst(256) == SpoutOutcome.QUIET
    assert acked == [1, 2, 3, 4, 5]


# Emit


def test_direct_and_control_tuples_are_tracked_too() -> None:
    stage = Stage()
    spout, first, second = stage.spout(), stage.bolt(), stage.bolt()
    wire(spout.core, to(first, second, choice=Choice.DIRECT), direct=True)
    spout.core.emit_direct(second.task_id, ("x",), "direct", "default")
    spout.core.emit_control(("barrier",), "default", "control", 60.0)
    assert [(Signal(kind).name, task) for kind, _, _, task in stage.rings[0].waiting()] == [("INIT", 1), ("OWN_CLOCK", 1), ("INIT", 1)]
    second.ack(take_next(second))
    for bolt in (first, second):
        tup = bolt.take_next()
        assert tup is not None
        assert tup.is_control
        bolt.settle_control(tup)
    stage.settle()
    spout.hear()
    assert spout.acked == ["direct", "control"]


@pytest.mark.parametrize(
    ("kind", "emit"),
    [
        ("unknown_stream", lambda spout: spout.emit(("x",), "id", "late")),
        ("arity", lambda spout: spout.emit(("x", "y"), "id")),
        ("not_values", lambda spout: spout.emit("x", "id")),
        ("direct_stream", lambda spout: spout.emit(("x",), "id", "direct")),
        ("not_direct", lambda spout: spout.core.emit_direct(11, ("x",), "id", "default")),
        ("direct_target", lambda spout: spout.core.emit_direct(99, ("x",), "id", "direct")),
    ],
)
def test_a_wrong_emit_opens_no_tree(kind: str, emit: Callable[[SpoutLog], None]) -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    direct = OutStream(source(stream="direct"), [to(bolt, choice=Choice.DIRECT)], direct=True)
    spout.core.wire({"default": OutStream(source(), [to(bolt)]), "direct": direct})
    with pytest.raises(Misused) as caught:
        emit(spout)
    assert caught.value.kind == kind
    assert (spout.core.pending, spout.core.emitted, bolt.waiting, len(stage.rings[0])) == (0, 0, 0, 0)


@pytest.mark.guarantee("ACK-6")
def test_an_ack_that_emits_and_is_awaited_leaves_the_order_of_acks() -> None:
    stage, acked = Stage(ackers=0), list[object]()
    spout = stage.spout()
    wire(spout.core, to(stage.bolt()))

    def ack(message_id: object) -> str | None:
        acked.append(message_id)
        if message_id != 1:
            return None
        spout.emit(("later",), 4)
        return "awaitable"

    spout.core.bind(lambda: None, ack, lambda message_id, failure: None)
    for number in (1, 2, 3):
        spout.emit((number,), number)
    for _ in range(3):
        spout.core.run_burst(256)
    assert acked == [1, 2, 3, 4]
