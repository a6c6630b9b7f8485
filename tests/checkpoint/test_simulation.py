"""Random topologies with state under the virtual clock, on slow stores that fail, compared with a simple model of barriers."""

import pytest

from tests.checkpoint.simulate import simulate
from tests.tiers import cases

CALM_RUNS = cases(40)
FAULTY_RUNS = cases(160)


@pytest.mark.guarantee("CP-1", "CP-2", "CP-5")
@pytest.mark.parametrize("seed", range(CALM_RUNS))
def test_without_faults_no_tuple_is_replayed_and_every_cut_is_consistent(seed: int) -> None:
    simulated = simulate(seed, is_calm=True)

    assert not simulated.violations, simulated.describe()
    assert simulated.outcomes == ["complete"]
    assert not simulated.replayed


@pytest.mark.guarantee("CP-3", "CP-4", "CP-5", "CP-7", "CP-10")
@pytest.mark.parametrize("seed", range(1000, 1000 + FAULTY_RUNS))
def test_after_any_deaths_states_fall_back_to_the_last_commit_and_no_acked_tuple_is_lost(seed: int) -> None:
    simulated = simulate(seed, is_calm=False)

    assert not simulated.violations, simulated.describe()
