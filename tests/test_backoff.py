"""Pauses of a backoff: growth, bound, and jitter."""

from itertools import islice, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backoff import Backoff

BACKOFFS = st.builds(
    lambda first, more, growth, jitter: Backoff(first, first + more, growth, jitter),
    st.floats(0, 10),
    st.floats(0, 100),
    st.floats(1, 10),
    st.floats(0, 1),
)


@given(BACKOFFS)
def test_pauses_grow_from_the_first_up_to_the_bound(backoff: Backoff) -> None:
    pauses = list(islice(backoff.pauses(), 50))
    assert pauses[0] == backoff.first_secs
    assert all(earlier <= later <= backoff.longest_secs for earlier, later in pairwise(pauses))


@given(BACKOFFS, st.integers(1, 100_000), st.integers())
def test_jitter_shortens_a_pause_and_never_exceeds_its_part(backoff: Backoff, failures: int, seed: int) -> None:
    whole = backoff.pause_secs(failures)
    drawn = backoff.pause_secs(failures, Random(seed).random)
    assert whole * (1 - backoff.jitter) <= drawn <= whole


def test_the_same_randomness_gives_the_same_pauses() -> None:
    backoff = Backoff(1, 60, jitter=0.5)
    assert list(islice(backoff.pauses(Random(7).random), 10)) == list(islice(backoff.pauses(Random(7).random), 10))


def test_no_failure_needs_no_pause() -> None:
    assert Backoff(1, 60).pause_secs(0) == 0


@pytest.mark.parametrize("fields", [(-1, 1), (2, 1), (1, 2, 0.5), (1, 2, 2, 1.5), (1, 2, 2, -0.1)])
def test_impossible_fields_are_refused(fields: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="first_secs <= longest_secs"):
        Backoff(*fields)
