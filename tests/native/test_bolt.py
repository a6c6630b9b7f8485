"""Core of a bolt: the end of a burst, signals of settles, and forgotten tuples."""

import gc
import threading
from collections.abc import Iterator

import pytest

from _native.tuples import Tuple
from engine.kernel.codes import BoltOutcome, Signal
from tests.native.stage import Misused, bolt_with_words, signals_to_acker, take_next, to, wire

# How a burst ends


def test_a_burst_ends_when_nothing_waits_or_at_its_limit() -> None:
    got: list[str] = []
    _, _, bolt = bolt_with_words("a", "b", "c", execute=lambda tup: got.append(tup[0]))
    assert bolt.run_burst(2) == BoltOutcome.MORE
    assert (got, bolt.executed, bolt.waiting) == (["a", "b"], 2, 1)
    assert bolt.run_burst(2) == BoltOutcome.EMPTY
    assert (got, bolt.executed, bolt.current) == (["a", "b", "c"], 3, None)
    assert bolt.run_burst(2) == BoltOutcome.EMPTY


@pytest.mark.guarantee("BP-4")
def test_a_burst_ends_after_5_ms() -> None:
    stage, _, bolt = bolt_with_words(*"abcdefghij")

    def slow(tup: Tuple) -> None:
        stage.secs += 0.002

    bolt.bind(slow, basic=False)
    assert bolt.run_burst(256) == BoltOutcome.MORE
    assert 3 <= bolt.executed <= 5
    assert bolt.busy_secs == pytest.approx(0.002 * bolt.executed)


@pytest.mark.guarantee("BP-2")
def test_a_full_target_stops_the_burst_until_it_has_drained_to_half() -> None:
    stage, _, bolt = bolt_with_words(*"abcdef")
    bolt.bind(lambda tup: bolt.emit(tup.values, None, "default"), basic=False)
    last = stage.bolt(capacity=4)
    wire(bolt, to(last))
    resumed: list[int] = []
    bolt.backpressure.set_on_resume(lambda: resumed.append(1))
    assert bolt.run_burst(256) == BoltOutcome.STOPPED
    assert (bolt.executed, len(last.mailbox)) == (4, 4)
    assert bolt.run_burst(256) == BoltOutcome.STOPPED
    assert last.run_burst(1) == BoltOutcome.MORE
    assert resumed == []
    assert last.run_burst(1) == BoltOutcome.MORE
    assert resumed == [1]
    assert bolt.run_burst(256) == BoltOutcome.STOPPED
    assert bolt.executed == 6


def test_a_result_or_an_exception_of_execute_ends_the_burst_and_names_its_input() -> None:
    def execute(tup: Tuple) -> object:
        if tup[0] == "raise":
            raise ValueError("no")
        return tup[0] if tup[0] == "return" else None

    _, _, bolt = bolt_with_words("a", "return", "b", "raise", "c", execute=execute)
    assert bolt.run_burst(256) == BoltOutcome.RETURNED
    assert bolt.returned == "return"
    assert bolt.current is not None
    assert bolt.current.values == ("return",)
    with pytest.raises(ValueError, match="no"):
        bolt.run_burst(256)
    assert bolt.current.values == ("raise",)
    bolt.forget_current()
    assert bolt.executed == 4
    assert bolt.run_burst(256) == BoltOutcome.EMPTY


def test_the_longest_call_is_recorded_if_it_was_too_long() -> None:
    stage, _, bolt = bolt_with_words(*"abcd", slow_call_secs=0.5)

    def execute(tup: Tuple) -> None:
        stage.secs += 0.7 if tup[0] == "c" else 0.0

    bolt.bind(execute, basic=False)
    while bolt.run_burst(256) == BoltOutcome.MORE:
        pass
    assert bolt.take_slow_call() == pytest.approx(0.7)
    assert bolt.take_slow_call() == 0


def test_a_bolt_with_more_than_a_burst_waiting_is_behind() -> None:
    stage, _, bolt = bolt_with_words(*"abc")
    assert stage.backlog.bolts_behind == 0
    bolt.run_burst(1)
    assert stage.backlog.bolts_behind == 1
    bolt.leave_burst()
    assert stage.backlog.bolts_behind == 0
    bolt.run_burst(1)
    bolt.run_burst(256)
    assert stage.backlog.bolts_behind == 0


# Basic bolts


@pytest.mark.guarantee("ACK-11")
def test_a_basic_bolt_anchors_its_results_and_acks() -> None:
    def execute(tup: Tuple) -> object:
        def two() -> Iterator[tuple[str]]:
            yield (tup[0] + "1",)
            yield (tup[0] + "2",)

        return {"yield": two(), "return": ("once",)}.get(tup[0])

    stage, spout, bolt = bolt_with_words("yield", "return", "nothing", execute=execute, basic=True)
    last = stage.bolt()
    wire(bolt, to(last))
    assert bolt.run_burst(256) == BoltOutcome.EMPTY
    assert bolt.acked == 3
    children = [take_next(last) for _ in range(3)]
    assert [child[0] for child in children] == ["yield1", "yield2", "once"]
    stage.settle()
    spout.hear()
    assert spout.acked == ["nothing"]
    for child in reversed(children):
        last.ack(child)
    stage.settle()
    spout.hear()
    assert spout.acked == ["nothing", "return", "yield"]


@pytest.mark.guarantee("ACK-11")
def test_an_input_that_a_basic_bolt_settled_itself_is_not_acked_again() -> None:
    stage, _, bolt = bolt_with_words("a")
    bolt.bind(lambda tup: bolt.fail(tup), basic=True)
    bolt.run_burst(256)
    assert (bolt.acked, bolt.failed, bolt.settled_twice) == (0, 1, 0)
    assert [kind for kind, _ in signals_to_acker(stage)] == [Signal.FAIL]


# One by one


def test_an_awaited_call_takes_one_tuple_and_its_time_is_counted() -> None:
    stage, _, bolt = bolt_with_words("a", "b", basic=True)
    tup = take_next(bolt)
    assert (tup.values, bolt.executed, bolt.taken_tuples()) == (("a",), 1, [tup])
    stage.secs += 2
    bolt.end_call(2, tup)
    assert (bolt.acked, bolt.taken) == (1, 0)
    assert (bolt.busy_secs, bolt.plain_secs) == (2, 0)
    assert bolt.process_latency.mean() == pytest.approx(2)
    assert take_next(bolt)[0] == "b"
    assert bolt.take_next() is None


# Settle


@pytest.mark.guarantee("ACK-3")
def test_an_ack_carries_the_edge_and_its_children() -> None:
    stage, _, bolt = bolt_with_words("a")
    last = stage.bolt()
    wire(bolt, to(last))
    tup = take_next(bolt)
    [(_, root, edge, _)] = stage.rings[0].waiting()
    bolt.emit(("child",), tup, "default")
    bolt.ack(tup)
    (_, acked_root, value, task) = stage.rings[0].waiting()[-1]
    assert (acked_root, task) == (root, bolt.task_id)
    last.ack(take_next(last))
    (_, _, child_value, _) = stage.rings[0].waiting()[-1]
    assert value ^ child_value == edge


@pytest.mark.guarantee("ACK-5")
@pytest.mark.parametrize("first", ["ack", "fail"])
@pytest.mark.parametrize("second", ["ack", "fail"])
def test_a_second_settle_is_ignored_and_counted(first: str, second: str) -> None:
    stage, _, bolt = bolt_with_words("a")
    tup = take_next(bolt)
    getattr(bolt, first)(tup)
    before = signals_to_acker(stage)
    getattr(bolt, second)(tup)
    bolt.reset_timeout(tup)
    assert signals_to_acker(stage) == before
    assert (bolt.settled_twice, bolt.acked + bolt.failed) == (1, 1)


@pytest.mark.guarantee("ACK-4")
def test_a_fail_is_sent_for_every_root_with_the_reason() -> None:
    stage, _, bolt = bolt_with_words("a", "b")
    last = stage.bolt()
    wire(bolt, to(last))
    anchors = [take_next(bolt), take_next(bolt)]
    bolt.emit(("child",), anchors, "default")
    child = take_next(last)
    last.fail(child, "why")
    assert signals_to_acker(stage) == [(Signal.FAIL, root) for root in child.roots]
    assert list(stage.rings[0].objects) == ["why", "why"]
    bolt.fail(anchors[0])
    assert stage.rings[0].objects[-1] == "failed"


@pytest.mark.guarantee("ACK-8")
def test_a_reset_is_sent_for_every_root_of_a_taken_tuple() -> None:
    stage, _, bolt = bolt_with_words("a")
    tup = take_next(bolt)
    bolt.reset_timeout(tup)
    assert signals_to_acker(stage) == [(Signal.RESET, tup.roots[0])]


def test_the_tuple_of_another_task_is_refused() -> None:
    stage, _, bolt = bolt_with_words("a")
    other = stage.bolt()
    tup = take_next(bolt)
    for settle in (other.ack, other.fail):
        with pytest.raises(Misused, match="not_mine") as caught:
            settle(tup)
        assert caught.value.what == {"tuple": tup}
    assert not tup.is_settled


# Forgotten


@pytest.mark.guarantee("ACK-15")
def test_tuples_that_a_burst_forgets_fail_at_its_end() -> None:
    stage, spout, bolt = bolt_with_words("a", "b")
    bolt.run_burst(256)
    assert (bolt.forgotten_tuples, bolt.failed) == (2, 2)
    stage.settle()
    spout.hear()
    assert spout.failed == [("a", "forgotten"), ("b", "forgotten")]


@pytest.mark.guarantee("ACK-15")
def test_a_tuple_that_another_thread_forgets_is_queued_and_wakes_the_loop() -> None:
    rung: list[int] = []
    stage, _, bolt = bolt_with_words("a", "b", on_forgotten=lambda: rung.append(1))
    held = [take_next(bolt), take_next(bolt)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert (rung, signals_to_acker(stage), bolt.forgotten_tuples) == ([1], [], 2)
    bolt.flush_forgotten()
    assert len(signals_to_acker(stage)) == 2


@pytest.mark.guarantee("ACK-15")
def test_tuples_forgotten_while_closing_or_without_a_tree_are_ignored() -> None:
    stage, _, bolt = bolt_with_words("a")
    tup = take_next(bolt)
    bolt.closing = True
    del tup
    bolt.flush_forgotten()
    assert (signals_to_acker(stage), bolt.forgotten_tuples) == ([], 0)
    stage, _, bolt = bolt_with_words("a", tracked=False)
    bolt.run_burst(256)
    assert (signals_to_acker(stage), bolt.forgotten_tuples) == ([], 0)


@pytest.mark.guarantee("ACK-15")
def test_tuples_of_a_dead_instance_fail_at_once_oldest_first_even_if_still_referenced() -> None:
    stage, spout, bolt = bolt_with_words("a", "b", "c")
    held = [take_next(bolt), take_next(bolt)]
    assert bolt.fail_taken("died") == 2
    stage.settle()
    spout.hear()
    assert spout.failed == [("a", "died"), ("b", "died")]
    bolt.ack(held[0])
    assert (bolt.settled_twice, bolt.acked, bolt.waiting) == (0, 0, 1)
    del held
    gc.collect()
    assert bolt.forgotten_tuples == 0
