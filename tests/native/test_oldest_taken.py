"""The oldest taken tuples of a bolt task, after settles in any order (ACK-15)."""

import random

import pytest

from _native.bolt import BoltCore
from _native.bolt_collector import BoltCollector
from _native.tuples import Tuple
from engine.errors import Failure
from tests.native.stage import bolt_with_words

pytestmark = pytest.mark.guarantee("ACK-15")


def taken(words: int) -> tuple[BoltCore, list[Tuple]]:
    kept: list[Tuple] = []
    _, _, bolt = bolt_with_words(*map(str, range(words)), execute=kept.append)
    while bolt.waiting:
        bolt.run_burst(256)
    return bolt, kept


def test_the_oldest_come_first() -> None:
    bolt, kept = taken(5)
    assert bolt.oldest_taken(3) == kept[:3]
    assert bolt.oldest_taken(9) == kept
    assert bolt.oldest_taken(0) == bolt.oldest_taken(-1) == []


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_settles_keeps_the_order(seed: int) -> None:
    chosen = random.Random(seed)
    bolt, kept = taken(200)
    emitter = BoltCollector(bolt)
    expected = list(kept)
    while expected:
        tup = expected.pop(chosen.choice([0, -1, chosen.randrange(len(expected))]))
        kept.remove(tup)
        settle = chosen.choice(["ack", "fail", "lose", "forget"])
        if settle == "forget":
            del tup  # the last reference
        elif settle == "lose":
            bolt.lose(tup)
        else:
            getattr(emitter, settle)(tup)
        assert bolt.oldest_taken(4) == bolt.taken_tuples()[:4] == expected[:4]
    assert bolt.taken == 0


def test_a_task_that_failed_all_its_inputs_begins_again() -> None:
    bolt, kept = taken(3)
    bolt.fail_taken(Failure("task_died"))
    assert bolt.oldest_taken(3) == []
    assert len(kept) == 3
