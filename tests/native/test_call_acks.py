"""Acks of a bolt with a state leave when their call returns. A call that raises takes its acks back (SV-2)."""

import random
from collections import Counter
from contextvars import ContextVar

import pytest

from _native.bolt import BoltCore
from _native.state import Layers
from _native.tuples import Tuple
from engine.kernel.codes import Signal
from tests.native.stage import SpoutLog, Stage, bolt_with_words, signals_to_acker, take_next, to, wire

CALL: ContextVar[object] = ContextVar("call", default=None)

pytestmark = pytest.mark.guarantee("SV-2")


def counting(lines: dict[str, int], *, ackers: int = 1) -> tuple[Stage, SpoutLog, BoltCore]:
    """Return a spout of lines, and a bolt with a state. It has the given number of words of each line."""
    stage = Stage(ackers=ackers)
    spout, split, count = stage.spout(), stage.bolt(), stage.bolt(capacity=100_000)
    wire(spout.core, to(split))
    wire(split, to(count))
    count.guard_state(Layers(object()))
    for line, words in lines.items():
        spout.emit((line,), line)
        tup = take_next(split)
        for word in range(words):
            split.emit((word,), tup, "default")
        split.ack(tup)
    return stage, spout, count


def heard(stage: Stage, spout: SpoutLog) -> tuple[list[str], set[str]]:
    """Return the lines that are acked and those that have failed."""
    stage.settle()
    spout.hear()
    return sorted(spout.acked), {line for line, _ in spout.failed}


def run_call(core: BoltCore, words: int = 1, *, raises: bool = False) -> None:
    """Ack words in one call."""
    tuples: list[Tuple] = [take_next(core) for _ in range(words)]
    for tup in tuples:
        core.ack(tup)
    if raises:
        core.undo_call("raised")
    else:
        core.end_call(0.0)


@pytest.mark.guarantee("EO-4")
def test_an_ack_leaves_when_its_call_returns() -> None:
    stage, spout, count = counting({"a": 1, "b": 1})
    count.ack(take_next(count))
    assert heard(stage, spout) == ([], set()), "the call may still raise"
    count.end_call(0.0)
    assert heard(stage, spout) == (["a"], set())
    count.ack(take_next(count))
    count.end_call(0.0)
    assert heard(stage, spout) == (["a", "b"], set())


@pytest.mark.guarantee("EO-4")
def test_an_ack_of_a_basic_bolt_leaves_at_once_because_its_call_has_returned() -> None:
    stage, spout, bolt = bolt_with_words("a", "b")
    bolt.bind(lambda tup: None, basic=True)
    bolt.guard_state(Layers(object()))
    stage.settle()
    bolt.run_burst(1)
    assert [kind for kind, _ in signals_to_acker(stage)] == [Signal.ACK]


def test_a_call_that_raises_takes_back_its_acks_and_no_others() -> None:
    stage, spout, count = counting({"a": 2, "b": 1})
    run_call(count)
    run_call(count, raises=True)
    run_call(count)
    assert (count.acked, count.failed) == (2, 1)
    assert heard(stage, spout) == (["b"], {"a"})


def test_acks_of_other_code_stay_when_the_call_raises() -> None:
    stage, spout, count = counting({"a": 2, "b": 2, "c": 1})
    run_call(count)
    mine, held, also_held, also_mine = (take_next(count) for _ in range(4))
    call = object()
    count.guard_only(CALL, call)
    for tup, owner in ((mine, call), (held, None), (also_held, None), (also_mine, call)):
        token = CALL.set(owner)
        count.ack(tup)
        CALL.reset(token)
    count.undo_call("raised")
    assert heard(stage, spout) == (["b"], {"a", "c"})
    assert (count.acked, count.failed) == (3, 2)


def test_acks_between_two_calls_leave_at_once() -> None:
    stage, spout, count = counting({"a": 1, "b": 1})
    kept = take_next(count)
    count.end_call(0.0)
    count.ack(kept)
    assert heard(stage, spout) == (["a"], set())
    run_call(count, raises=True)
    assert (count.acked, count.failed) == (1, 1)


def test_an_ack_with_several_roots_is_taken_back_for_each() -> None:
    stage, spout, split = bolt_with_words("a", "b", "c", "d")
    count = stage.bolt()
    wire(split, to(count))
    count.guard_state(Layers(object()))
    for _ in range(2):
        pair = [take_next(split), take_next(split)]
        split.emit(("x",), pair, "default")
        for anchor in pair:
            split.ack(anchor)
    run_call(count)
    run_call(count, raises=True)
    assert heard(stage, spout) == (["a", "b"], {"c", "d"})


@pytest.mark.guarantee("ACK-15")
def test_the_acks_of_a_call_fail_with_its_task() -> None:
    stage, spout, count = counting({"a": 1, "b": 1})
    first, second = take_next(count), take_next(count)
    count.ack(first)
    count.fail_taken("died")
    assert second.is_settled
    assert heard(stage, spout) == ([], {"a", "b"})


@pytest.mark.guarantee("EO-5")
def test_the_acks_of_a_call_are_dropped_with_all_inputs() -> None:
    stage, spout, count = counting({"a": 1})
    count.ack(take_next(count))
    count.drop_inputs("rolled back")
    count.end_call(0.0)
    assert heard(stage, spout) == ([], set())
    spout.core.fail_open_trees("rolled back")
    assert heard(stage, spout) == ([], {"a"})


@pytest.mark.guarantee("EO-4", "ACK-7")
@pytest.mark.parametrize("ackers", [1, 3])
@pytest.mark.parametrize("seed", range(20))
def test_random_acks_agree_with_a_set_of_words(seed: int, ackers: int) -> None:
    """The model counts the acked words of each line, and has the lines of calls that raised."""
    chance = random.Random(seed)
    lines = {f"line {number}": chance.randrange(1, 6) for number in range(60)}
    stage, spout, count = counting(lines, ackers=ackers)
    words = [line for line, number in lines.items() for _ in range(number)]
    acked, failed = Counter[str](), set[str]()
    while words:
        size = chance.choice([1, 1, 2, 5])
        taken, words = words[:size], words[size:]
        raises = chance.random() < 0.15
        run_call(count, len(taken), raises=raises)
        if raises:
            failed.update(taken)
        else:
            acked.update(taken)
        assert heard(stage, spout) == (sorted(line for line, number in lines.items() if acked[line] == number), failed)
