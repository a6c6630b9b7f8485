"""Acks that wait for a commit. Consecutive acks of one root share an entry. A call that raises takes back its acks."""

import random
from collections import Counter
from contextvars import ContextVar

import pytest

from _native.bolt import BoltCore
from _native.state import Layers
from _native.tuples import Tuple
from tests.native.stage import SpoutLog, Stage, bolt_with_words, take_next, to, wire

CALL: ContextVar[object] = ContextVar("call", default=None)
ALL = 1_000_000


def counting(lines: dict[str, int]) -> tuple[Stage, SpoutLog, BoltCore]:
    """Return a spout of lines, and a stateful bolt with deferred acks. It has the given number of words of each line."""
    stage, spout, split = bolt_with_words(*lines)
    count = stage.bolt(capacity=100_000)
    wire(split, to(count))
    count.defer_settles(True)
    count.guard_state(Layers(object()))
    for words in lines.values():
        line = take_next(split)
        for word in range(words):
            split.emit((word,), line, "default")
        split.ack(line)
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


@pytest.mark.guarantee("CP-5")
def test_consecutive_acks_of_a_root_share_an_entry() -> None:
    stage, spout, count = counting({"a": 5, "b": 3})
    for _ in range(8):
        run_call(count)
    assert (count.acked, len(count.deferred_acks), count.deferred_acks.prepare()) == (8, 2, 2)
    assert heard(stage, spout) == ([], set())
    count.deferred_acks.release_prepared(ALL)
    assert heard(stage, spout) == (["a", "b"], set())


@pytest.mark.guarantee("CP-5")
def test_acks_after_a_prepare_do_not_join_the_prepared_ones() -> None:
    stage, spout, count = counting({"a": 2})
    run_call(count)
    count.deferred_acks.prepare()
    run_call(count)
    assert len(count.deferred_acks) == 2
    count.deferred_acks.release_prepared(ALL)
    assert heard(stage, spout) == ([], set())
    count.deferred_acks.prepare()
    count.deferred_acks.release_prepared(ALL)
    assert heard(stage, spout) == (["a"], set())


@pytest.mark.guarantee("CP-5", "ACK-7")
@pytest.mark.parametrize("ackers", [1, 3])
def test_a_release_in_parts_reaches_the_acker_of_each_root(ackers: int) -> None:
    stage = Stage(ackers=ackers)
    spout, count = stage.spout(), stage.bolt()
    wire(spout.core, to(count))
    count.defer_settles(True)
    for number in range(500):
        spout.emit(("word",), number)
        count.ack(take_next(count))
    count.deferred_acks.prepare()

    left = [count.deferred_acks.release_prepared(180) for _ in range(3)]
    stage.settle()
    spout.hear()

    assert left == [320, 140, 0]
    assert (sorted(spout.acked), count.deferred_acks.released) == (list(range(500)), 500)


@pytest.mark.guarantee("SV-2")
def test_a_call_that_raises_takes_back_an_ack_that_was_joined() -> None:
    stage, spout, count = counting({"a": 2, "b": 1})
    run_call(count)
    run_call(count, raises=True)
    run_call(count)
    assert (count.acked, count.failed, len(count.deferred_acks)) == (2, 1, 2)
    assert heard(stage, spout) == ([], {"a"})
    count.deferred_acks.prepare()
    count.deferred_acks.release_prepared(ALL)
    assert heard(stage, spout) == (["b"], {"a"})


@pytest.mark.guarantee("SV-2")
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
    count.deferred_acks.prepare()
    count.deferred_acks.release_prepared(ALL)
    assert heard(stage, spout) == (["b"], {"a", "c"})


@pytest.mark.guarantee("CP-5", "SV-2")
@pytest.mark.parametrize("seed", range(40))
def test_random_acks_agree_with_a_set_of_words(seed: int) -> None:
    """The model counts the released words of each line, and has the lines of calls that raised."""
    chance = random.Random(seed)
    lines = {f"line {number}": chance.randrange(1, 6) for number in range(60)}
    stage, spout, count = counting(lines)
    words = [line for line, number in lines.items() for _ in range(number)]
    released, prepared, deferred = Counter[str](), Counter[str](), Counter[str]()
    failed: set[str] = set()
    while words:
        size = chance.choice([1, 1, 2, 5])
        taken, words = words[:size], words[size:]
        raises = chance.random() < 0.15
        run_call(count, len(taken), raises=raises)
        if raises:
            failed.update(taken)
        else:
            deferred.update(taken)
        if chance.random() < 0.2:
            prepared, deferred = prepared + deferred, Counter()
            count.deferred_acks.prepare()
        if chance.random() < 0.2:
            released, prepared = released + prepared, Counter()
            count.deferred_acks.release_prepared(ALL)
        acked, lost = heard(stage, spout)
        assert acked == sorted(line for line, number in lines.items() if released[line] == number)
        assert lost == failed
        assert len(count.deferred_acks) <= sum(prepared.values()) + sum(deferred.values())
