"""A seed replays a run, and the draws of one user do not depend on those of another."""

from hypothesis import given
from hypothesis import strategies as st

from engine.randomness import RunRandom

_NAMES = st.lists(st.text(max_size=5) | st.integers(-5, 2**70), max_size=4)


def test_the_same_seed_and_names_give_the_same_numbers() -> None:
    first, second = RunRandom(7), RunRandom(7)

    assert first.uint64("edge", 3) == second.uint64("edge", 3)
    assert [first.stream("jitter").random() for _ in range(3)] == [second.stream("jitter").random() for _ in range(3)]


def test_the_numbers_of_a_seed_never_change() -> None:
    """A seed noted by a user must also replay the run after an upgrade."""
    assert RunRandom(7).uint64("edge", 3) == 3138885742380574983
    assert RunRandom(7).stream("jitter", 1).getrandbits(64) == 10043019842962248953


def test_a_stream_restarts_independently_of_others() -> None:
    randomness = RunRandom(7)
    expected = randomness.stream("a").random()
    other = randomness.stream("b")
    other.random()

    assert randomness.stream("a").random() == expected


@given(_NAMES, _NAMES)
def test_other_names_give_other_numbers(one: list[str | int], other: list[str | int]) -> None:
    randomness = RunRandom(7)

    assert (randomness.uint64(*one) == randomness.uint64(*other)) == (one == other)


@given(st.integers(0, 2**80), st.integers(0, 2**80))
def test_other_seeds_give_other_numbers(one: int, other: int) -> None:
    assert (RunRandom(one).uint64("edge") == RunRandom(other).uint64("edge")) == (one == other)


def test_a_drawn_seed_is_available_and_replays_the_numbers() -> None:
    drawn = RunRandom()

    assert 0 <= drawn.seed < 2**63
    assert RunRandom(drawn.seed).uint64("edge") == drawn.uint64("edge")
    assert RunRandom().seed != drawn.seed


def test_a_number_has_64_bits() -> None:
    numbers = [RunRandom(7).uint64("n", index) for index in range(200)]

    assert 2**63 < max(numbers) < 2**64
