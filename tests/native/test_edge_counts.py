"""Each outlet counts the tuples that its task sent, and a core sums them up."""

from _native.task import OutStream
from engine.kernel.codes import Choice
from tests.native.stage import Stage, bolt_with_words, source, take_next, to, wire


def test_each_outlet_counts_its_tuples() -> None:
    stage = Stage()
    spout, one, few, direct = stage.spout(), stage.bolt(), [stage.bolt() for _ in range(3)], stage.bolt()
    spout.core.wire(
        {
            "default": OutStream(source(), [to(one), to(*few, choice=Choice.TO_ALL)]),
            "direct": OutStream(source(stream="direct"), [to(direct, choice=Choice.DIRECT)], direct=True),
            "unread": OutStream(source(stream="unread"), []),
        }
    )
    assert (spout.core.sent_by_outlet()[0], spout.core.transferred) == (("default", [one.task_id], 0), 0)
    for number in range(5):
        spout.emit(("x",), number)
    spout.core.emit_direct(direct.task_id, ("x",), None, "direct")
    spout.emit(("x",), None, "unread")

    ids = [bolt.task_id for bolt in few]
    assert spout.core.sent_by_outlet() == [("default", [one.task_id], 5), ("default", ids, 15), ("direct", [direct.task_id], 1)]
    assert (spout.core.emitted, spout.core.transferred) == (7, 21)


def test_an_outlet_of_a_bolt_counts_control_tuples_too() -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    wire(bolt, to(last))
    tup = take_next(bolt)
    bolt.emit(("x",), tup, "default")
    bolt.emit_control(("barrier",), "default")
    assert bolt.sent_by_outlet() == [("default", [last.task_id], 2)]
    assert bolt.transferred == 2


def test_a_core_without_streams_has_sent_nothing() -> None:
    bolt = Stage().bolt()
    assert (bolt.sent_by_outlet(), bolt.transferred) == ([], 0)
