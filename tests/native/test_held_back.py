"""Tuples of held sources that a task holds back, and acks that it defers until a commit."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _native.bolt import BoltCore
from _native.queues import DeferredAcks
from _native.tuples import Tuple
from engine.kernel.codes import Signal
from tests.native.stage import SpoutLog, Stage, bolt_with_words, signals_to_acker, take_next, to, wire
from tests.tiers import cases


def two_sources() -> tuple[Stage, SpoutLog, SpoutLog, BoltCore]:
    """Two spouts, tasks 1 and 2, that feed one bolt."""
    stage = Stage(spouts=2)
    first, second, bolt = stage.spout(), stage.spout(), stage.bolt()
    for spout in (first, second):
        wire(spout.core, to(bolt))
    bolt.connect({1: first.core, 2: second.core}, {})
    return stage, first, second, bolt


class HoldsAgainstAModel(RuleBasedStateMachine):
    """Two sources send. The model has lists of the held and of the released tuples of each."""

    @initialize()
    def begin(self) -> None:
        self.stage, first, second, self.bolt = two_sources()
        self.spouts = {1: first, 2: second}
        self.sent = 0
        self.mailbox: deque[tuple[int, int]] = deque()
        self.aside: dict[int, list[tuple[int, int]]] = {}
        self.released: deque[tuple[int, int]] = deque()

    @rule(task=st.sampled_from([1, 2]))
    def send(self, task: int) -> None:
        self.sent += 1
        self.spouts[task].emit(((task, self.sent),), self.sent)
        self.mailbox.append((task, self.sent))

    @rule(task=st.sampled_from([1, 2]))
    def hold(self, task: int) -> None:
        self.bolt.hold(task)
        self.aside.setdefault(task, [])

    @rule(task=st.sampled_from([1, 2]))
    def release(self, task: int) -> None:
        self.bolt.release(task)
        self.released.extend(self.aside.pop(task, []))

    @rule()
    def take(self) -> None:
        expected = self.next_in_line()
        tup = self.bolt.take_next()
        assert (None if tup is None else tup[0]) == expected
        if tup is not None:
            self.bolt.ack(tup)

    def next_in_line(self) -> tuple[int, int] | None:
        while self.released or self.mailbox:
            task, number = (self.released or self.mailbox).popleft()
            if task not in self.aside:
                return task, number
            self.aside[task].append((task, number))
        return None

    @invariant()
    def the_held_are_stopped_and_counted(self) -> None:
        assert [self.spouts[task].core.backpressure.stopped_by for task in (1, 2)] == [task in self.aside for task in (1, 2)]
        kept = [*(row for aside in self.aside.values() for row in aside), *self.released]
        assert [tup[0] for tup in self.bolt.held_tuples.tuples()] == kept
        assert len(self.bolt.held_tuples) == len(kept)


HoldsAgainstAModel.TestCase.settings = settings(stateful_step_count=40, max_examples=cases(60))
TestHoldsAgainstAModel = pytest.mark.guarantee("GRP-4")(HoldsAgainstAModel.TestCase)


@pytest.mark.guarantee("ACK-8")
def test_held_tuples_are_refreshed() -> None:
    stage, first, second, bolt = two_sources()
    bolt.hold(1)
    first.emit(("held",), 1)
    second.emit(("flows",), 2)
    [held, flows] = [root for _, root, _, _ in stage.rings[0].waiting()]
    tup = take_next(bolt)
    assert (tup[0], tup.roots) == ("flows", (flows,))
    bolt.refresh_held()
    bolt.release(1)
    bolt.refresh_held()
    assert signals_to_acker(stage) == [(Signal.RESET, held)] * 2


def test_held_tuples_do_not_count_for_the_bound_of_the_mailbox() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt(capacity=4)
    wire(spout.core, to(bolt))
    bolt.connect({1: spout.core}, {})
    bolt.hold(1)
    for number in range(20):
        spout.emit((number,), number)
    assert bolt.take_next() is None
    assert (len(bolt.mailbox), len(bolt.held_tuples), spout.core.backpressure.stopped_by) == (0, 20, 1)
    bolt.release(1)
    assert spout.core.backpressure.stopped_by == 0
    assert [take_next(bolt)[0] for _ in range(20)] == list(range(20))


# Acks until a commit


def deferring(*words: str) -> tuple[Stage, SpoutLog, BoltCore]:
    """Return a bolt that has taken these words, with deferred acks."""
    stage, spout, bolt = bolt_with_words(*words)
    bolt.defer_settles(True)
    for _ in words:
        bolt.ack(take_next(bolt))
    return stage, spout, bolt


def hear(stage: Stage, spout: SpoutLog) -> tuple[list[object], list[tuple[object, object]]]:
    stage.settle()
    spout.hear()
    return sorted(spout.acked), spout.failed


def test_deferred_acks_are_sent_after_prepare_and_release() -> None:
    stage, spout, bolt = deferring("a", "b")
    assert hear(stage, spout) == ([], [])
    assert (bolt.acked, len(bolt.deferred_acks), bolt.deferred_acks.prepare()) == (2, 2, 2)
    spout.emit(("c",), "c")
    bolt.ack(take_next(bolt))
    assert len(bolt.deferred_acks) == 3
    assert bolt.deferred_acks.release_prepared(1) == 1
    assert bolt.deferred_acks.release_prepared(99) == 0
    assert hear(stage, spout) == (["a", "b"], [])
    assert (len(bolt.deferred_acks), bolt.deferred_acks.prepare()) == (1, 1)


def test_acks_that_are_prepared_twice_add_up_in_order() -> None:
    stage, spout, bolt = deferring("a")
    assert bolt.deferred_acks.prepare() == 1
    for word in ("b", "c"):
        spout.emit((word,), word)
        bolt.ack(take_next(bolt))
    assert bolt.deferred_acks.prepare() == 3
    assert bolt.deferred_acks.release_prepared(1) == 2
    assert hear(stage, spout) == (["a"], [])
    assert bolt.deferred_acks.release_prepared(99) == 0
    assert hear(stage, spout) == (["a", "b", "c"], [])


@pytest.mark.guarantee("EO-5")
def test_deferred_and_prepared_acks_are_dropped_with_the_inputs() -> None:
    stage, spout, bolt = deferring("a")
    bolt.deferred_acks.prepare()
    spout.emit(("b",), "b")
    bolt.ack(take_next(bolt))
    assert len(bolt.deferred_acks) == 2
    bolt.drop_inputs("rolled back")
    assert (len(bolt.deferred_acks), bolt.deferred_acks.release_prepared(99)) == (0, 0)
    spout.core.fail_open_trees("rolled back")
    acked, failed = hear(stage, spout)
    assert (acked, sorted(failed)) == ([], [("a", "rolled back"), ("b", "rolled back")]), "open trees have no order"


def test_a_deferred_ack_keeps_all_trees_of_its_tuple() -> None:
    stage, spout, bolt = bolt_with_words("a", "b")
    last = stage.bolt()
    wire(bolt, to(last))
    anchors: list[Tuple] = [take_next(bolt), take_next(bolt)]
    bolt.emit(("x",), anchors, "default")
    last.defer_settles(True)
    last.ack(take_next(last))
    for anchor in anchors:
        bolt.ack(anchor)
    assert hear(stage, spout) == ([], [])
    assert (len(last.deferred_acks), last.deferred_acks.prepare()) == (2, 2)
    last.deferred_acks.release_prepared(99)
    assert hear(stage, spout)[0] == ["a", "b"]


def test_fails_are_not_deferred_and_later_acks_are_sent_at_once() -> None:
    stage, spout, bolt = bolt_with_words("a", "b")
    bolt.defer_settles(True)
    bolt.fail(take_next(bolt))
    bolt.defer_settles(False)
    bolt.ack(take_next(bolt))
    assert hear(stage, spout) == (["b"], [("a", "failed")])


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_deferred_acks_are_refreshed_in_slices(limit: int) -> None:
    stage, spout, bolt = deferring("a", "b", "c")
    bolt.deferred_acks.prepare()
    for word in ("d", "e"):
        spout.emit((word,), word)
        bolt.ack(take_next(bolt))
    roots = [root for kind, root, _, _ in stage.rings[0].waiting() if kind == Signal.INIT]
    position = 0
    while position >= 0:
        position = bolt.deferred_acks.refresh(position, limit)
    assert signals_to_acker(stage) == [(Signal.RESET, root) for root in roots]


def test_deferred_acks_belong_to_one_task() -> None:
    kept = DeferredAcks([], 1)
    assert (len(kept), kept.prepare(), kept.release_prepared(5), kept.refresh(0, 5)) == (0, 0, 0, -1)
