"""Random failing rows through deaths of tasks and processes: each row has its effect or a letter, exactly once (TX-13, DL-2)."""

import pytest

from tests.transactional.given_up_model import simulate


@pytest.mark.guarantee("TX-13", "DL-1", "DL-2")
@pytest.mark.parametrize("seed", range(25))
def test_each_row_has_its_effect_or_a_letter_exactly_once(seed: int) -> None:
    assert simulate(seed) == []


@pytest.mark.deep
@pytest.mark.guarantee("TX-13", "DL-1", "DL-2")
@pytest.mark.parametrize("seed", range(1000, 1600))
def test_the_same_of_many_more_runs(seed: int) -> None:
    assert simulate(seed) == []
