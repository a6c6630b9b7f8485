"""Tuples as a bolt sees them, and the list of a task's taken tuples."""

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from _native.bolt import BoltCore
from _native.bolt_collector import BoltCollector
from _native.tuples import Source, Tuple, make_tuple
from engine import Fields, UsageError
from engine.kernel.codes import Signal
from engine.transactional import TransactionAttempt
from tests.native.stage import SpoutLog, Stage, bolt_with_words, source, take_next, to, wire
from tests.tiers import cases


def test_values_are_found_by_position_and_by_name() -> None:
    tup = make_tuple(("to", 2), source("word", "count"))
    assert (tup[0], tup[-1], tup["word"], tup["count"]) == ("to", 2, "to", 2)
    assert tup[0:1] == ("to",)  # type: ignore[index]
    assert (len(tup), list(tup), "to" in tup, "be" in tup) == (2, ["to", 2], True, False)
    assert tup.values == ("to", 2)
    assert (tup.fields, tup.stream, tup.source_component, tup.source_task) == (Fields("word", "count"), "default", "words", 1)
    assert (tup.is_tick, tup.is_control, tup.is_settled, tup.roots) == (False, False, False, ())


def test_the_error_for_an_unknown_field_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"Fields\('word', 'count'\) has no field 'wrod'\nFix: Did you mean 'word'\?"):
        make_tuple(("to", 2), source("word", "count"))["wrod"]
    with pytest.raises(IndexError):
        make_tuple(("to",), source())[1]


def test_a_tuple_equals_only_itself_and_is_immutable() -> None:
    origin = source()
    one, other = make_tuple(("to",), origin), make_tuple(("to",), origin)
    assert one == one
    assert one != other
    assert len({one, other}) == 2
    with pytest.raises(AttributeError):
        one.values = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        one[0] = "be"  # type: ignore[index]


def test_the_text_of_a_tuple_names_its_source_and_is_shortened() -> None:
    assert repr(make_tuple(("to",), source())) == "<Tuple ('to',) from words[1] on default>"
    long = repr(make_tuple(("x" * 1000,), source()))
    assert len(long) < 250
    assert long.endswith("... from words[1] on default>")
    assert repr(source()) == "Source('words', 'default', task 1)"


def test_a_tuple_is_small_and_the_garbage_collector_never_sees_one_of_atoms() -> None:
    _, _, bolt = bolt_with_words("to")
    tup = take_next(bolt)
    assert not gc.is_tracked(tup)
    assert sys.getsizeof(tup) <= 104


def test_the_garbage_collector_sees_a_tuple_that_holds_more_than_atoms_only_once_it_is_taken() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    spout.emit(([1],))
    assert [gc.is_tracked(tup) for tup in bolt.mailbox.waiting()] == [False]
    tup = take_next(bolt)
    assert gc.is_tracked(tup)
    bolt.ack(tup)
    assert gc.is_tracked(tup)
    assert tup.values in gc.get_referents(tup)


def test_the_attempt_of_a_row_counts_as_an_atom() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt), fields=["attempt", "word"])
    for row in ("word", ["word"]):
        spout.emit((TransactionAttempt(1, 2), row))
    assert [gc.is_tracked(take_next(bolt)) for _ in range(2)] == [False, True]


class Leads:
    """A value that leads back to its tuple."""

    def __init__(self) -> None:
        self.back: object = None


def emit_rows(spout: SpoutLog, bolt: BoltCore, value: object) -> None:
    spout.emit((value,))


def emit_from_many_trees(spout: SpoutLog, bolt: BoltCore, value: object) -> None:
    middle = bolt_of_many_trees(spout)
    wire(middle, to(bolt))
    middle.emit((value,), [take_next(middle) for _ in range(3)], "default")


def emit_each(spout: SpoutLog, bolt: BoltCore, value: object) -> None:
    middle = bolt_of_many_trees(spout)
    wire(middle, to(bolt))
    BoltCollector(middle).emit_each([value], anchors=take_next(middle))


def bolt_of_many_trees(spout: SpoutLog) -> BoltCore:
    """Return a bolt with an input of each of three trees."""
    middle = Stage().bolt()
    wire(spout.core, to(middle))
    for number in range(3):
        spout.emit((number,), number)
    return middle


Emit = Callable[[SpoutLog, BoltCore, object], None]


@pytest.mark.guarantee("ACK-15")
@pytest.mark.parametrize("settle", [BoltCore.ack, BoltCore.fail, lambda bolt, tup: None], ids=["acked", "failed", "forgotten"])
@pytest.mark.parametrize("emit", [emit_rows, emit_from_many_trees, emit_each])
def test_a_value_that_leads_back_to_its_tuple_is_freed(emit: Emit, settle: Callable[[BoltCore, Tuple], None]) -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    value = Leads()
    seen = weakref.ref(value)
    emit(spout, bolt, value)
    value.back = tup = take_next(bolt)
    assert tup[0] is value
    settle(bolt, tup)
    del value, tup
    gc.collect()
    assert seen() is None
    assert bolt.taken == 0


@pytest.mark.guarantee("ACK-15")
def test_a_long_chain_of_tuples_that_hold_each_other_is_freed() -> None:
    origin, last = source(), Leads()
    seen = weakref.ref(last)
    chain = make_tuple((last,), origin)
    del last
    for _ in range(300_000):
        chain = make_tuple((chain,), origin)
    del chain
    assert seen() is None


@pytest.mark.guarantee("ACK-15")
def test_a_long_chain_of_forgotten_tuples_is_freed() -> None:
    bolt, origin, last = Stage().bolt(), source(), Leads()
    seen = weakref.ref(last)
    chain: object = last
    del last
    for _ in range(100_000):
        bolt.mailbox.post(make_tuple((chain,), origin))
        chain = take_next(bolt)
    assert bolt.taken == 100_000
    del chain
    assert seen() is None
    assert bolt.taken == 0


@pytest.mark.guarantee("ACK-15")
def test_a_long_chain_of_emit_each_is_freed() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt(capacity=16)
    wire(spout.core, to(bolt))
    wire(bolt, to(bolt))
    last = Leads()
    seen = weakref.ref(last)
    spout.emit((last,))
    del last
    for _ in range(300_000):  # without a tuple of Python between two of them
        tup = take_next(bolt)
        BoltCollector(bolt).emit_each([tup], anchors=tup)
        bolt.ack(tup)
    del tup
    gc.collect()
    bolt.mailbox.take()
    assert seen() is None


def test_the_memory_of_a_refused_tuple_is_not_tracked_when_it_is_used_again() -> None:
    for _ in range(3):
        with pytest.raises(TypeError, match="only the engine makes tuples"):
            Tuple()
    made = [make_tuple((number,), source()) for number in range(5)]
    assert not any(map(gc.is_tracked, made))


def test_a_source_knows_how_many_values_its_stream_has() -> None:
    assert Source("words", "default", 1, Fields()).arity == 0
    assert source("a", "b", "c").arity == 3


@pytest.mark.guarantee("ACK-2")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 40])
def test_a_tuple_belongs_to_every_tree_of_its_anchors(count: int) -> None:
    stage = Stage()
    spout, middle, last = stage.spout(), stage.bolt(), stage.bolt()
    wire(spout.core, to(middle))
    wire(middle, to(last))
    for number in range(count):
        spout.emit(("to",), number)
    anchors = [take_next(middle) for _ in range(count)]
    middle.emit(("be",), anchors, "default")
    child = take_next(last)
    assert set(child.roots) == {anchor.roots[0] for anchor in anchors}
    assert len(child.roots) == count
    for anchor in anchors:
        middle.ack(anchor)
    stage.settle()
    spout.hear()
    assert spout.acked == []
    last.ack(child)
    stage.settle()
    spout.hear()
    assert sorted(spout.acked) == list(range(count))


# Taken tuples


class Taker(RuleBasedStateMachine):
    """A bolt takes, settles, holds and forgets tuples. The model is a list of the tuples that a user's variable holds."""

    @initialize(fails_forgotten=st.booleans())
    def begin(self, fails_forgotten: bool) -> None:
        self.stage = Stage()
        self.bolt: BoltCore = self.stage.bolt(fails_forgotten=fails_forgotten)
        self.spout = self.stage.spout()
        wire(self.spout.core, to(self.bolt))
        self.fails_forgotten = fails_forgotten
        self.kept: list[Tuple] = []
        self.sent = self.forgotten = 0
        self.dead: list[Tuple] = []

    @rule(tracked=st.booleans())
    def take(self, tracked: bool) -> None:
        self.sent += 1
        self.spout.emit((self.sent,), self.sent if tracked else None)
        self.kept.append(take_next(self.bolt))

    @precondition(lambda self: self.kept)
    @rule(data=st.data(), settle=st.sampled_from(["ack", "fail"]))
    def settle(self, data: st.DataObject, settle: str) -> None:
        tup = self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1)))
        call: Callable[[Tuple], Any] = getattr(self.bolt, settle)
        call(tup)
        assert tup.is_settled

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        tup = self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1)))
        self.forgotten += bool(tup.roots)
        roots = tup.roots
        waiting = len(self.stage.rings[0].waiting())
        del tup
        self.bolt.flush_forgotten()
        told = self.stage.rings[0].waiting()[waiting:]
        assert [(kind, root) for kind, root, _, _ in told] == [(Signal.FAIL, root) for root in roots if self.fails_forgotten]

    @rule()
    def die(self) -> None:
        assert self.bolt.fail_taken("died") == len(self.kept)
        self.dead += self.kept
        self.kept = []

    @rule()
    def settle_the_dead(self) -> None:
        acked, failed = self.bolt.acked, self.bolt.failed
        for tup in self.dead:
            self.bolt.ack(tup)
            self.bolt.fail(tup)
        assert (self.bolt.acked, self.bolt.failed, self.bolt.settled_twice) == (acked, failed, 0)

    @invariant()
    def the_list_is_what_the_user_holds(self) -> None:
        assert self.bolt.taken_tuples() == self.kept
        assert self.bolt.taken == len(self.kept)
        assert self.bolt.forgotten_tuples == self.forgotten
        assert all(not tup.is_settled for tup in self.kept)
        assert all(tup.is_settled for tup in self.dead)


Taker.TestCase.settings = settings(stateful_step_count=40, max_examples=cases(50))
TestTaker = pytest.mark.guarantee("ACK-15")(Taker.TestCase)


@pytest.mark.guarantee("ACK-15")
def test_a_tuple_may_outlive_its_task() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    spout.emit(("to",), 1)
    tup = take_next(bolt)
    wire(spout.core)
    del bolt
    gc.collect()
    assert tup.is_settled
    assert tup["word"] == "to"


def test_the_age_of_a_taken_tuple_uses_the_given_clock() -> None:
    stage = Stage()
    spout, bolt = stage.spout(), stage.bolt()
    wire(spout.core, to(bolt))
    spout.emit(("to",))
    stage.secs = 4_294_967.0  # 0.3 s before the milliseconds no longer fit 32 bits
    tup = take_next(bolt)
    assert bolt.taken_age_ms(tup, stage.secs + 2.5) == 2500


def test_only_the_engine_can_create_a_tuple() -> None:
    with pytest.raises(TypeError, match="only the engine makes tuples"):
        type(make_tuple((1,), source()))()
    assert make_tuple((2,), source()).values == (2,)


def test_reused_memory_of_tuples_carries_nothing_over() -> None:
    class Value:
        pass

    values = [Value() for _ in range(5000)]
    tuples = [make_tuple((value,), source()) for value in values]
    counted = [sys.getrefcount(value) for value in values]
    del tuples
    assert [sys.getrefcount(value) for value in values] == [count - 1 for count in counted]
    again = [make_tuple((number,), source()) for number in range(5000)]
    assert [tup.values for tup in again] == [(number,) for number in range(5000)]
    assert not any(tup.is_settled or tup.is_control or tup.is_tick or tup.roots for tup in again)
