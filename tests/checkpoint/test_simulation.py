"""Random topologies with state under the virtual clock, on slow stores that fail, compared with a simple model of barriers."""

import pytest

from tests.checkpoint.plan import draw_plan
from tests.checkpoint.process_plan import MOMENTS, draw_process_plan
from tests.checkpoint.simulate import simulate
from tests.checkpoint.world import PassOn, PassOnLater, PassOnMany, Remember, RememberByParts, RememberMany, Tells
from tests.tiers import cases

CALM_RUNS = cases(40)
FAULTY_RUNS = cases(130)
PROCESS_RUNS = cases(10)
"""Each starts several processes. `python -m tests.soak --full` has 300."""


@pytest.mark.guarantee("CP-1", "CP-2", "CP-5")
@pytest.mark.parametrize("seed", range(CALM_RUNS))
def test_without_faults_no_tuple_is_replayed_and_every_cut_is_consistent(seed: int) -> None:
    simulated = simulate(seed, is_calm=True)

    assert not simulated.violations, simulated.describe()
    assert simulated.outcomes == ["complete"]
    assert not simulated.replayed


@pytest.mark.guarantee("CP-3", "CP-4", "CP-5", "CP-7", "CP-10", "EO-1", "EO-2", "EO-3", "EO-5", "EO-8", "EO-9")
@pytest.mark.parametrize("seed", range(1000, 1000 + FAULTY_RUNS))
def test_after_any_deaths_states_fall_back_to_the_last_commit_and_no_acked_tuple_is_lost(seed: int) -> None:
    simulated = simulate(seed, is_calm=False)

    assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("PR-1", "PR-2", "PR-3", "BU-1", "SV-2", "SV-9", "CP-3", "CP-4", "CP-5", "CP-7")
@pytest.mark.parametrize("seed", range(PROCESS_RUNS))
def test_states_in_processes_that_die_fall_back_to_the_last_commit(seed: int) -> None:
    simulated = simulate(seed, processes=True)

    assert not simulated.violations, simulated.describe()


def test_plans_with_processes_contain_every_kind_of_bolt_and_every_moment_of_a_kill() -> None:
    plans = [draw_process_plan(seed) for seed in range(300)]
    processes = [process for plan in plans for process in plan.processes]

    kinds = {bolt.kind for plan in plans for bolt in plan.world.bolts if bolt.processes}
    assert kinds == {Remember, RememberByParts, RememberMany, Tells, PassOn, PassOnLater, PassOnMany}
    assert all(any(bolt.processes for bolt in plan.world.stateful) for plan in plans)
    assert {kill.message for process in processes for kill in process.child_kills} == {None, *MOMENTS}
    assert any(process.restarts for process in processes)
    assert any(process.crash for process in processes)


def test_bolts_in_processes_change_nothing_else_of_a_plan() -> None:
    for seed in range(50):
        plan, with_processes = draw_plan(seed), draw_process_plan(seed)
        assert [process.faults for process in with_processes.processes] == [process.faults for process in plan.processes]
        assert [bolt.inputs for bolt in with_processes.world.bolts] == [bolt.inputs for bolt in plan.world.bolts]
