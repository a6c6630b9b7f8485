"""Each wrong use of a collector raises an error with the place and the fix, and sends nothing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import Bolt, Config, Fields, Run, Spout, SpoutExhausted, TopologyBuilder, Tuple, UsageError
from engine.testing import Capture, Feeder, run_topology

STREAMS = {"default": Fields("word", "count"), "late": Fields("word"), "pair": Fields("a", "b"), "direct": Fields("word", direct=True)}
Wrong = Callable[[Any, Any], object]
"""Does something wrong with a bolt, or a spout, and its input."""


class WrongBolt(Bolt):
    """Calls `wrong` with each input, keeps the error, and acks."""

    output_fields = STREAMS

    def __init__(self, wrong: Wrong) -> None:
        self.wrong = wrong
        self.errors: list[Exception] = []

    def execute(self, tup: Tuple) -> None:
        try:
            self.wrong(self, tup)
        except Exception as error:
            self.errors.append(error)
        self.collector.ack(tup)


class WrongSpout(Spout):
    """Calls `wrong` once, keeps the error, and is exhausted."""

    output_fields = STREAMS

    def __init__(self, wrong: Wrong) -> None:
        self.wrong = wrong
        self.errors: list[Exception] = []
        self.verdicts: list[object] = []

    def next_tuple(self) -> None:
        if self.errors:
            raise SpoutExhausted
        try:
            self.wrong(self, None)
        except Exception as error:
            self.errors.append(error)

    def ack(self, message_id: object) -> None:
        self.verdicts.append(message_id)

    def fail(self, message_id: object) -> None:
        self.verdicts.append(message_id)


def subscribe(builder: TopologyBuilder, source: str) -> Capture:
    """Subscribe a sink to all streams, by a fields grouping if there is a key."""
    sink = Capture()
    bolt = builder.set_bolt("sink", sink, parallelism=2)
    bolt.fields_grouping(source, "count").shuffle_grouping(source, stream="late").direct_grouping(source, stream="direct")
    bolt.partial_key_grouping(source, "b", "a", stream="pair")
    return sink


def in_bolt(wrong: Wrong) -> UsageError:
    """Return the error in a bolt. Check that nothing was sent, and that the tree of the input is intact."""
    feeder, builder = Feeder("word"), TopologyBuilder("misuse")
    feeder.feed(("storm",))
    feeder.close()
    bolt = WrongBolt(wrong)
    builder.set_spout("feed", feeder)
    builder.set_bolt("wrong", lambda: bolt).shuffle_grouping("feed")
    sink = subscribe(builder, "wrong")
    run_topology(builder.build())
    assert feeder.acked == [1]
    assert sink.arrivals == []
    [error] = bolt.errors
    assert isinstance(error, UsageError), error
    return error


def in_spout(wrong: Wrong, ackers: int = 1) -> UsageError:
    """Return the error in a spout. Check that nothing was sent, and that no verdict comes."""
    builder = TopologyBuilder("misuse")
    spout = WrongSpout(wrong)
    builder.set_spout("wrong", lambda: spout)
    sink = subscribe(builder, "wrong")
    run_topology(builder.build(), Config(acker_executors=ackers))
    assert sink.arrivals == spout.verdicts == []
    [error] = spout.errors
    assert isinstance(error, UsageError), error
    return error


EMITS: list[tuple[str, tuple[Any, ...], str, str]] = [
    (
        "an unknown stream",
        (("storm",), "lat"),
        "emitted to stream 'lat', which it does not declare",
        "Declare it in {declared}. Did you mean 'late'?",
    ),
    (
        "too few values",
        (("storm",), "default"),
        "emitted to stream 'default' ('storm',): 1 value, but the stream has 2 fields (word, count)",
        "Emit one value for each field, or change output_fields.",
    ),
    (
        "too many values",
        (["a", "b"], "late"),
        "emitted to stream 'late' ('a', 'b'): 2 values, but the stream has 1 field (word)",
        "Emit one value for each field, or change output_fields.",
    ),
    (
        "no tuple",
        ("storm", "late"),
        "emitted 'storm' (str), which is not a tuple of values",
        "Write ('storm',). A single value needs a tuple too.",
    ),
    (
        "a dict",
        ({}, "late"),
        "emitted {{}} (dict), which is not a tuple of values",
        "Write ({{}},). A single value needs a tuple too.",
    ),
    (
        "emit on a direct stream",
        (("storm",), "direct"),
        "used emit() on stream 'direct', which is direct",
        "Name the task: emit_direct(task, values, ...), or declare the stream without direct=True.",
    ),
]


@pytest.mark.parametrize(("arguments", "message", "hint"), [case[1:] for case in EMITS], ids=[case[0] for case in EMITS])
def test_a_wrong_emit_raises_in_bolts_and_spouts(arguments: tuple[Any, str], message: str, hint: str) -> None:
    values, stream = arguments
    for error, where in (
        (in_bolt(lambda bolt, tup: bolt.collector.emit(values, tup, stream)), "bolt 'wrong' "),
        (in_spout(lambda spout, tup: spout.collector.emit(values, 1, stream)), "spout 'wrong' "),
        (in_spout(lambda spout, tup: spout.collector.emit(values, 1, stream), ackers=0), "spout 'wrong' "),
    ):
        declared = "WrongBolt.output_fields" if where.startswith("bolt") else "WrongSpout.output_fields"
        assert error.message == where + message.format()
        assert error.hint == hint.format(declared=declared)


DIRECT_EMITS: list[tuple[str, tuple[Any, ...], str]] = [
    ("not direct", (3, ("storm",), "late"), "used emit_direct() on stream 'late', which is not direct"),
    ("no subscriber", (99, ("storm",), "direct"), "used emit_direct() to task 99, which does not subscribe to stream 'direct'"),
    ("an unknown stream", (3, ("storm",), "dir"), "emitted to stream 'dir', which it does not declare"),
    ("too many values", (3, ("a", "b"), "direct"), "emitted to stream 'direct' ('a', 'b'): 2 values, but the stream has 1 field (word)"),
]


@pytest.mark.parametrize(("arguments", "message"), [case[1:] for case in DIRECT_EMITS], ids=[case[0] for case in DIRECT_EMITS])
def test_a_wrong_emit_direct_raises(arguments: tuple[Any, ...], message: str) -> None:
    task, values, stream = arguments
    assert in_bolt(lambda bolt, tup: bolt.collector.emit_direct(task, values, tup, stream)).message == f"bolt 'wrong' {message}"
    task = task - 1 if task == 3 else task
    assert in_spout(lambda spout, tup: spout.collector.emit_direct(task, values, 1, stream)).message == f"spout 'wrong' {message}"


@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize(
    ("values", "stream", "field"),
    [(("storm", {1}), "default", "'count'"), (([], {}), "pair", "'b'"), (({}, 1), "pair", "'a'"), (({}, {}), "pair", "'b', 'a'")],
)
def test_the_error_for_an_unhashable_key_names_its_field(values: tuple[Any, ...], stream: str, field: str) -> None:
    for error in (
        in_bolt(lambda bolt, tup: bolt.collector.emit(values, tup, stream)),
        in_spout(lambda spout, tup: spout.collector.emit(values, 1, stream)),
        in_spout(lambda spout, tup: spout.collector.emit(values, 1, stream), ackers=0),
    ):
        assert f" 'wrong': a fields grouping cannot use the value of field {field} as a key: " in error.message
        assert error.hint is not None
        assert "__stable_hash__" in error.hint


# Anchors


@pytest.mark.parametrize(
    ("anchors", "told"),
    [
        (lambda bolt, tup: "storm", "emitted with anchors='storm', which is not one of its input tuples"),
        (lambda bolt, tup: [tup, None], "emitted with anchors=None, which is not one of its input tuples"),
        (lambda bolt, tup: tup.values, "emitted with anchors='storm', which is not one of its input tuples"),
        (lambda bolt, tup: (one for one in [tup]), "emitted with anchors=<generator object "),
    ],
    ids=["a text", "nothing in a list", "values", "a generator"],
)
def test_only_inputs_of_the_bolt_can_be_anchors(anchors: Callable[[Any, Any], Any], told: str) -> None:
    for error in (
        in_bolt(lambda bolt, tup: bolt.collector.emit(("storm",), anchors(bolt, tup), "late")),
        in_bolt(lambda bolt, tup: bolt.collector.emit_direct(3, ("storm",), anchors(bolt, tup), "direct")),
    ):
        assert error.message.startswith(f"bolt 'wrong' {told}")
        assert error.hint == "Pass anchors=tup, a list of such tuples, or nothing."


@pytest.mark.parametrize("settle", ["ack", "fail"])
def test_a_settled_tuple_cannot_be_an_anchor(settle: str) -> None:
    errors: list[UsageError] = []

    class EmitsLate(Bolt):
        output_fields = Fields("word")

        def execute(self, tup: Tuple) -> None:
            getattr(self.collector, settle)(tup)
            emits: list[Callable[[], None]] = [
                lambda: self.collector.emit(("late",), tup),
                lambda: self.collector.emit(("late",), [tup]),
            ]
            for emit in emits:
                with pytest.raises(UsageError) as caught:
                    emit()
                errors.append(caught.value)

    feeder, sink, builder = Feeder("word"), Capture(), TopologyBuilder("settled")
    feeder.feed(("storm",))
    feeder.close()
    builder.set_spout("feed", feeder)
    builder.set_bolt("late", EmitsLate).shuffle_grouping("feed")
    builder.set_bolt("sink", sink).shuffle_grouping("late")
    run_topology(builder.build())
    assert sink.arrivals == []
    assert [error.message for error in errors] == [
        "bolt 'late' emitted anchored to <Tuple ('storm',) from feed[1] on default>, which is settled already"
    ] * 2
    assert errors[0].hint == "Emit before ack() or fail(), since the tree of a settled tuple may be complete."


def test_a_tuple_of_another_task_can_be_neither_settled_nor_anchored_to() -> None:
    given: list[Tuple] = []
    told: list[str] = []

    class Lends(Bolt):
        output_fields = Fields("word")

        def execute(self, tup: Tuple) -> None:
            given.append(tup)
            if len(given) == 1:
                return
            uses: list[Callable[[], object]] = [
                lambda: self.collector.ack(given[0]),
                lambda: self.collector.fail(given[0]),
                lambda: self.collector.emit(("x",), given[0]),
            ]
            for use in uses:
                with pytest.raises(UsageError) as caught:
                    use()
                told.append(caught.value.message)
            self.collector.ack(tup)

    feeder, builder = Feeder("word"), TopologyBuilder("lends")
    builder.set_spout("feed", feeder)
    builder.set_bolt("lends", Lends, parallelism=2).shuffle_grouping("feed")
    builder.set_bolt("sink", Capture()).shuffle_grouping("lends")

    async def script(run: Run) -> None:
        feeder.feed(("mine",))
        await asyncio.sleep(1)
        feeder.feed(("yours",))
        feeder.close()

    run_topology(builder.build(), Config(message_timeout_secs=5), during=script)
    what = "<Tuple ('mine',) from feed[1] on default>, which is an input of another task"
    assert told == [f"bolt 'lends' settled {what}", f"bolt 'lends' settled {what}", f"bolt 'lends' emitted anchored to {what}"]
    assert feeder.acked == [2]
    assert [failure.reason for _, failure in feeder.failed] == ["timeout"]


# Threads


@pytest.mark.guarantee("ACK-10")
@pytest.mark.parametrize("use", ["emit", "emit_direct", "ack", "fail", "reset_timeout"])
def test_the_collector_of_a_bolt_works_only_on_the_loops_thread(use: str) -> None:
    arguments = {"emit": (("x",), None, "late"), "emit_direct": (3, ("x",), None, "direct")}

    def in_a_thread(bolt: Any, tup: Tuple) -> None:
        caught: list[Exception] = []

        def work() -> None:
            try:
                getattr(bolt.collector, use)(*arguments.get(use, (tup,)))
            except Exception as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise caught[0]

    error = in_bolt(in_a_thread)
    assert error.message == "bolt 'wrong' used its collector on a thread other than the loop's"
    assert error.hint is not None
    assert "threads=n" in error.hint


@pytest.mark.guarantee("ACK-10")
@pytest.mark.parametrize("use", ["emit", "emit_direct", "emit_many"])
def test_the_collector_of_a_spout_works_only_on_the_loops_thread(use: str) -> None:
    arguments = {"emit": (("x",), 1, "late"), "emit_direct": (2, ("x",), 1, "direct"), "emit_many": ([("x",)], [1], "late")}

    def in_a_thread(spout: Any, _: object) -> None:
        caught: list[Exception] = []

        def work() -> None:
            try:
                getattr(spout.collector, use)(*arguments[use])
            except Exception as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise caught[0]

    assert in_spout(in_a_thread).message == "spout 'wrong' used its collector on a thread other than the loop's"


def test_emit_many_needs_as_many_ids_as_rows() -> None:
    error = in_spout(lambda spout, _: spout.collector.emit_many([("a",), ("b",)], [1], "late"))
    assert error.message == "spout 'wrong' called emit_many() with 2 rows and 1 message ids"


@pytest.mark.parametrize("arguments", [(5,), (None,), ("ab",), ([("a",), ("b",)], 5), ([("a",), ("b",)], "ab")])
def test_emit_many_of_a_spout_takes_rows_and_ids(arguments: tuple[Any, ...]) -> None:
    error = in_spout(lambda spout, _: spout.collector.emit_many(*arguments, stream="late"))
    assert error.message == (
        f"spout 'wrong' called emit_many({arguments[-1]!r}), which takes a list, or another iterable with one tuple of values, "
        "or one message id, for each tuple"
    )
    assert error.hint == "Write emit_many([(value,), ...], [message_id, ...])."


def test_emit_many_of_a_spout_takes_generators() -> None:
    def emit(spout: Any, _: object) -> None:
        spout.collector.emit_many(((word,) for word in "ab"), (number for number in (1, 2)), "late")
        raise ValueError("all emitted")

    builder = TopologyBuilder("generators")
    spout = WrongSpout(emit)
    builder.set_spout("wrong", lambda: spout)
    sink = subscribe(builder, "wrong")
    run_topology(builder.build())
    assert [str(error) for error in spout.errors] == ["all emitted"]
    assert (sink.values, spout.verdicts) == ([("a",), ("b",)], [1, 2])
