"""Random transactional topologies with their processing phase on Spark's levels: the plans and the judge of tests/transactional/model."""

import pytest

from tests.spark_bridge.topology.model.simulate import simulate
from tests.tiers import cases

CALM_RUNS = cases(10)
FAULTY_RUNS = cases(30)
# Seeds of earlier defects.
CALM_FINDS = (
    0,  # rows of a quick emitter came one batch late
    2,  # there was no bolt before the committers
    7,  # an emitter was never woken up
)
FAULTY_FINDS = (
    1014,  # a file of blocks stayed open
    1018,  # result files stayed open
    1064,  # a batch began where the replay of the batch before did not end
    347997529002,  # actors of emitters outlived a close that was cancelled
    499466437571,  # the same of a killed job runner, and the loop could not end
)


@pytest.mark.guarantee("CL-1", "CL-2")
@pytest.mark.parametrize("seed", [*range(100, 100 + CALM_RUNS), *CALM_FINDS])
def test_without_faults_no_batch_is_replayed_and_results_equal_the_interpreters(seed: int) -> None:
    simulated = simulate(seed, is_calm=True)

    assert not simulated.violations, simulated.describe()
    assert simulated.outcomes == ["complete"]
    assert not simulated.replayed


@pytest.mark.guarantee("CL-1", "CL-3")
@pytest.mark.parametrize("seed", [*range(2000, 2000 + FAULTY_RUNS), *FAULTY_FINDS])
def test_after_failures_of_spark_and_of_the_engine_every_batch_counts_once_and_in_order(seed: int) -> None:
    simulated = simulate(seed, is_calm=False)

    assert not simulated.violations, simulated.describe()


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (simulate(2001, is_calm=False) for _ in range(2))

    assert first == second
