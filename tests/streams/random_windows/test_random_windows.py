"""Random flows with windows under the virtual clock, on slow stores that fail, through deaths and restarts with other parallelism."""

import pytest

from engine.streams.windows import Calendar, Session, Sliding
from tests.streams.random_windows.plan import STEPS, draw_plan
from tests.streams.random_windows.simulate import simulate
from tests.tiers import cases

CALM_RUNS = cases(150)
FAULTY_RUNS = cases(600)
INEXACT_RUNS = cases(150)
FOUND = [11003662]
"""Seeds that have found faults which few others find: the checkpoint spout dies while it writes a commit, and then the process."""


@pytest.mark.guarantee("WI-1", "WI-2", "WI-3", "WI-6", "ET-1", "ET-2", "ET-5")
@pytest.mark.parametrize("seed", range(CALM_RUNS))
def test_without_faults_the_results_are_those_of_a_plain_computation(seed: int) -> None:
    simulated = simulate(seed, is_calm=True)

    assert not simulated.violations, simulated.describe()
    assert simulated.outcomes == ["complete"]


@pytest.mark.guarantee("WI-1", "WI-2", "WI-3", "WI-4", "WI-5", "WI-6", "ET-1", "ET-2", "ET-4", "ET-5")
@pytest.mark.parametrize("seed", range(1000, 1000 + FAULTY_RUNS))
def test_after_any_deaths_each_row_counts_once_or_is_late(seed: int) -> None:
    simulated = simulate(seed, is_calm=False, is_exact=True)

    assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("EO-9")
@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_have_found_faults(seed: int) -> None:
    simulated = simulate(seed)

    assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("WI-5", "WI-6", "ET-1", "ET-2")
@pytest.mark.parametrize("seed", range(5000, 5000 + INEXACT_RUNS))
def test_with_rows_at_least_once_no_result_is_lost(seed: int) -> None:
    simulated = simulate(seed, is_calm=False, is_exact=False)

    assert not simulated.violations, simulated.describe()


def test_plans_contain_every_kind_of_windows_and_stages() -> None:
    plans = [draw_plan(seed) for seed in range(300)]

    assert {type(plan.spec) for plan in plans} == {Sliding, Session, Calendar}
    assert {type(plan.second) for plan in plans} == {Sliding, Session, type(None)}
    assert {step for plan in plans for step in plan.steps} == set(STEPS)
    assert {plan.aggregation for plan in plans} == {"collect", "count", "sum"}
    assert any(source.pauses for plan in plans for source in plan.sources)
    assert any(plan.unbound for plan in plans)
    assert {type(plan.spec) for plan in plans if plan.updates} == {Sliding, Session, Calendar}
    assert {tuple(plan.updates) for plan in plans} == {(), ("early",), ("allowed_lateness", "early")}
