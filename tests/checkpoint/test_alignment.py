"""Alignment at one task: complete after a barrier from each source (CP-1, CP-2)."""

from itertools import permutations

import pytest

from engine.checkpoint.alignment import Alignment


@pytest.mark.guarantee("CP-1", "CP-2")
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_barrier_is_complete_after_it_came_from_every_source(order: tuple[int, ...]) -> None:
    alignment = Alignment(frozenset({1, 2, 3}))
    assert alignment.waits_for() == frozenset()
    for position, source in enumerate(order):
        assert alignment.arrives(source) is (position == 2)
        assert alignment.waits_for() == (set(order[position + 1 :]) if position < 2 else frozenset())


@pytest.mark.guarantee("CP-2")
def test_the_next_round_needs_a_barrier_from_every_source_again() -> None:
    alignment = Alignment(frozenset({1, 2}))
    rounds = [[alignment.arrives(source) for source in (2, 1)] for _ in range(3)]
    assert rounds == [[False, True]] * 3
