"""Alignment at one task: complete after a barrier from each source, ended by a newer round (CP-1, CP-2)."""

from collections import Counter
from itertools import permutations

import pytest

from engine.checkpoint.alignment import Alignment, Barrier

PREPARE, COMMIT = Barrier(5, 2, "prepare"), Barrier(6, 2, "commit")
SPOUT = 99
"""The checkpoint spout. It is no source of this task, so its barrier is a notice."""


@pytest.mark.guarantee("CP-1", "CP-2")
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_barrier_is_complete_after_it_came_from_every_source_and_holds_earlier_sources_until_then(order: tuple[int, ...]) -> None:
    alignment = Alignment(frozenset({1, 2, 3}))
    for position, source in enumerate(order):
        verdict, ended = alignment.arrives(PREPARE, source)
        assert not ended
        last = position == len(order) - 1
        assert verdict == ("complete" if last else "waits")
        assert [each for each in order if alignment.holds(each)] == ([] if last else list(order[: position + 1]))


@pytest.mark.guarantee("CP-2")
def test_only_prepare_and_rollback_hold_tuples_back() -> None:
    held: Counter[str] = Counter()
    for action in ("initstate", "prepare", "commit", "rollback"):
        alignment = Alignment(frozenset({1, 2}))
        alignment.arrives(Barrier(1, 0, action), 1)
        held[action] = alignment.holds(1)
    assert held == {"initstate": False, "prepare": True, "commit": False, "rollback": True}


@pytest.mark.guarantee("CP-2")
def test_a_newer_round_ends_an_alignment_and_an_older_one_is_ignored() -> None:
    alignment = Alignment(frozenset({1, 2}))
    alignment.arrives(PREPARE, 1)

    assert alignment.arrives(COMMIT, 2) == ("waits", True)
    assert not alignment.holds(1)
    assert alignment.arrives(PREPARE, 2) == ("old", False)
    assert alignment.arrives(COMMIT, 1) == ("complete", False)
    assert alignment.arrives(COMMIT, 1) == ("old", False)


@pytest.mark.guarantee("CP-1", "CP-2")
def test_a_notice_of_a_newer_round_ends_older_alignments_and_completes_none() -> None:
    alignment = Alignment(frozenset({1, 2}))
    alignment.arrives(PREPARE, 1)

    assert alignment.arrives(COMMIT, SPOUT) == ("waits", True)
    assert alignment.waits_for() == frozenset()
    assert alignment.arrives(COMMIT, 1) == ("waits", False)
    assert alignment.waits_for() == {2}
    assert alignment.arrives(COMMIT, 2) == ("complete", False)
