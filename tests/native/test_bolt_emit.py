"""Emits of a bolt's core, and its errors."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _native.bolt_collector import BoltCollector
from _native.burst import Burst
from _native.task import OutStream
from _native.tuples import Tuple
from engine.kernel.codes import Choice
from tests.native.stage import Misused, bolt_with_words, signals_to_acker, source, take_next, to, wire

WRONG_EMITS: list[tuple[str, Callable[[Any, Tuple], None]]] = [
    ("unknown_stream", lambda bolt, tup: bolt.emit(("x",), tup, "late")),
    ("unknown_stream", lambda bolt, tup: bolt.emit_direct(12, ("x",), tup, "late")),
    ("arity", lambda bolt, tup: bolt.emit(("x", "y"), tup, "default")),
    ("arity", lambda bolt, tup: bolt.emit([], tup, "default")),
    ("not_values", lambda bolt, tup: bolt.emit("x", tup, "default")),
    ("not_values", lambda bolt, tup: bolt.emit(None, tup, "default")),
    ("not_direct", lambda bolt, tup: bolt.emit_direct(12, ("x",), tup, "default")),
    ("direct_stream", lambda bolt, tup: bolt.emit(("x",), tup, "direct")),
    ("direct_target", lambda bolt, tup: bolt.emit_direct(99, ("x",), tup, "direct")),
    ("anchors", lambda bolt, tup: bolt.emit(("x",), "tup", "default")),
    ("anchors", lambda bolt, tup: bolt.emit(("x",), [tup, None], "default")),
    ("anchors", lambda bolt, tup: bolt.emit(("x",), iter([tup]), "default")),
    ("anchors", lambda bolt, tup: bolt.emit_direct(12, ("x",), iter([tup]), "direct")),
    ("anchors", lambda bolt, tup: bolt.emit_direct(12, ("x",), 5, "direct")),
]


@pytest.mark.parametrize(("kind", "emit"), WRONG_EMITS)
def test_a_wrong_emit_sends_nothing(kind: str, emit: Callable[[Any, Tuple], None]) -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    direct = stage.bolt()
    to_direct = to(direct, choice=Choice.DIRECT)
    bolt.wire(
        {
            "default": OutStream(source(), [to(last)]),
            "direct": OutStream(source(stream="direct"), [to_direct], direct=True),
        }
    )
    tup = take_next(bolt)
    with pytest.raises(Misused) as caught:
        emit(bolt, tup)
    assert caught.value.kind == kind
    assert (bolt.emitted, bolt.transferred, len(last.mailbox), len(direct.mailbox)) == (0, 0, 0, 0)
    bolt.ack(tup)
    stage.settle()
    assert stage.ackers[0].acked == 1


def test_an_emit_of_a_bolt_without_streams_is_a_clear_error() -> None:
    _, _, bolt = bolt_with_words("a")
    bolt.wire({})
    with pytest.raises(Misused, match="unknown_stream"):
        bolt.emit(("x",), None, "default")


def test_an_anchor_is_an_unsettled_input_of_this_task() -> None:
    stage, _, bolt = bolt_with_words("a", "b")
    other = stage.bolt()
    wire(bolt, to(other))
    settled, held = take_next(bolt), take_next(bolt)
    bolt.ack(settled)
    with pytest.raises(Misused, match="anchor"):
        bolt.emit(("x",), settled, "default")
    with pytest.raises(Misused, match="anchor"):
        bolt.emit(("x",), [held, settled], "default")
    with pytest.raises(Misused, match="anchor"):
        other.emit(("x",), held, "default")
    assert len(other.mailbox) == 0


@pytest.mark.guarantee("GRP-2")
def test_the_error_for_a_key_without_a_hash_names_it() -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    wire(bolt, to(last, choice=Choice.BY_FIELDS, positions=[1, 0], names=["count", "word"]), fields=("word", "count"))
    with pytest.raises(Misused, match="key") as caught:
        bolt.emit(("x", {}), None, "default")
    assert caught.value.what["names"] == ("count", "word")
    assert caught.value.what["keys"] == [{}, "x"]


@pytest.mark.guarantee("GRP-1")
def test_an_exception_of_a_chooser_is_raised_unchanged() -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    routes = {"known": [last.task_id], "wrong": [99], "none": None, "nested": [[last.task_id]]}
    wire(bolt, to(last, choice=Choice.CUSTOM, chooser=lambda values: routes[values[0]]))
    bolt.emit(("known",), None, "default")
    with pytest.raises(KeyError, match="unknown"):
        bolt.emit(("unknown",), None, "default")
    for word in ("wrong", "none", "nested"):
        with pytest.raises(Misused, match="custom_target") as caught:
            bolt.emit((word,), None, "default")
        assert caught.value.what == {"chosen": routes[word], "targets": [last.task_id]}
    assert len(last.mailbox) == 1


@pytest.mark.guarantee("ACK-10")
def test_another_thread_is_refused() -> None:
    stage, _, bolt = bolt_with_words("a")
    wire(bolt, to(stage.bolt()))
    tup = take_next(bolt)
    emitter = BoltCollector(bolt)
    caught: list[Any] = []

    def misuse() -> None:
        calls: list[Callable[[], None]] = [
            lambda: emitter.emit(("x",), tup),
            lambda: bolt.emit_direct(1, ("x",), tup, "default"),
            lambda: emitter.ack(tup),
            lambda: emitter.fail(tup),
            lambda: emitter.reset_timeout(tup),
        ]
        for call in calls:
            try:
                call()
            except Misused as error:
                caught.append(error.kind)

    thread = threading.Thread(target=misuse)
    thread.start()
    thread.join()
    assert caught == ["thread"] * 5
    assert not tup.is_settled


def test_a_retired_emitter_cannot_settle_or_emit() -> None:
    stage, _, bolt = bolt_with_words("a")
    wire(bolt, to(stage.bolt()))
    tup = take_next(bolt)
    emitter = BoltCollector(bolt)
    emitter.retire()
    assert emitter.retired
    emitter.ack(tup)
    emitter.fail(tup)
    emitter.reset_timeout(tup)
    assert not tup.is_settled
    assert signals_to_acker(stage) == []
    for call in (emitter.check_alive, lambda: emitter.emit(("x",))):
        with pytest.raises(Misused, match="retired"):
            call()


NESTED = st.tuples(st.integers()) | st.tuples() | st.lists(st.integers(), max_size=2)
VALUES = st.text(max_size=5) | st.integers() | st.none() | NESTED


@pytest.mark.guarantee("GRP-2")
@given(values=st.lists(VALUES, max_size=20), groups=st.integers(1, 300))
def test_every_way_to_emit_a_value_sends_it_to_the_task_of_its_key(values: list[Any], groups: int) -> None:
    stage, _, bolt = bolt_with_words("a")
    bolts = [stage.bolt() for _ in range(3)]
    outlet = to(*bolts, choice=Choice.BY_FIELDS, positions=[0], key_groups=groups)
    wire(bolt, outlet)
    expected: list[list[Any]] = [[] for _ in bolts]
    for value in values:
        expected[outlet.choose((value,))[0] - bolts[0].task_id].append((value,))
    tup, emitter = take_next(bolt), BoltCollector(bolt)
    for emit in (
        lambda: emitter.emit_each(values, tup),
        lambda: emitter.emit_many([(value,) for value in values], tup),
        lambda: [emitter.emit((value,), tup) for value in values],
    ):
        emit()
        assert [[got.values for got in iter(each.mailbox.take, None)] for each in bolts] == expected


@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_tuples_of_emit_each_look_like_all_others(values: list[Any]) -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    wire(bolt, to(last))
    BoltCollector(bolt).emit_each(values, take_next(bolt))
    tuples = [take_next(last) for _ in values]
    burst = Burst(tuples, None)
    for _ in range(2):      # before and after somebody has asked for all values
        assert burst["word"] == values
        assert [value for _, value in burst.items("word")] == values
        assert burst.rows == [(value,) for value in values]
    for tup, value in zip(tuples, values, strict=True):
        assert (tup.values, tup[0], tup["word"], tup[-1], list(tup), len(tup)) == ((value,), value, value, value, [value], 1)
        assert value in tup
        assert tup.values is tup.values


@pytest.mark.parametrize(
    "read",
    [
        lambda tup: tup.values,
        lambda tup: tup[0],
        lambda tup: tup["word"],
        lambda tup: list(tup),
        lambda tup: len(tup),
        lambda tup: "x" in tup,
        repr,
        lambda tup: Burst([tup], None)["word"],
        lambda tup: Burst([tup], None).rows,
    ],
)
def test_the_first_read_of_a_tuple_of_emit_each_may_be_any(read: Callable[[Tuple], object]) -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    wire(bolt, to(last))
    tup, value = take_next(bolt), object()
    BoltCollector(bolt).emit_each([value, value], tup)
    lazy, plain = take_next(last), take_next(last)
    assert plain.values == (value,)
    assert str(read(lazy)) == str(read(plain))
    count = sys.getrefcount(value)
    del lazy, plain
    assert sys.getrefcount(value) == count - 2
