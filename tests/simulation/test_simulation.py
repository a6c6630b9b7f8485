"""Simulates random topologies, schedules and faults under the virtual clock. A seed replays a run.

`python -m tests.soak --full` simulates 1,000 runs, and 500 with bolts in processes. `make soak` runs for a given time.
`python -m tests.simulation SEED` replays one.
"""

import gc
import sys
from typing import get_args

import pytest

from tests.simulation.plan import MESSAGES, BoltKind, SpoutKind, draw_plan
from tests.simulation.process_plan import draw_process_plan
from tests.simulation.simulate import simulate

GROUPS = 10
GROUPS_OF_MAKE_TEST = 2
PROCESS_GROUPS = 5
SEEDS_PER_PROCESS_GROUP = 3


@pytest.mark.guarantee("ACK-3", "ACK-4", "ACK-8", "ACK-12", "ACK-13", "ACK-15", "ACK-16", "BP-5", "GRP-4", "RUN-2")
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=[pytest.mark.deep] if group >= GROUPS_OF_MAKE_TEST else []) for group in range(GROUPS)]
)
def test_each_root_has_one_verdict_and_nothing_is_left_over(group: int) -> None:
    for seed in range(group, 100, GROUPS):
        simulated = simulate(seed)
        assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("PR-1", "PR-2", "PR-3", "BU-1", "BU-3", "ACK-3", "ACK-15", "GRP-4", "RUN-2", "SV-9")
@pytest.mark.parametrize("group", [pytest.param(group, marks=[pytest.mark.deep] if group else []) for group in range(PROCESS_GROUPS)])
def test_each_root_has_one_verdict_if_bolts_are_in_processes_that_die(group: int) -> None:
    for seed in range(group, PROCESS_GROUPS * SEEDS_PER_PROCESS_GROUP, PROCESS_GROUPS):
        simulated = simulate(seed, processes=True)
        assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("SV-13", "ACK-3", "ACK-4", "ACK-8", "ACK-15", "GRP-4", "RUN-2")
@pytest.mark.parametrize("group", [pytest.param(group, marks=[pytest.mark.deep] if group else []) for group in range(GROUPS)])
def test_each_root_has_one_verdict_if_calls_are_made_again(group: int) -> None:
    for seed in range(group, 100, GROUPS):
        simulated = simulate(seed, retries=True)
        assert not simulated.violations, simulated.describe()


@pytest.mark.deep
@pytest.mark.guarantee("SV-13", "PR-1", "PR-2")
@pytest.mark.parametrize("group", range(PROCESS_GROUPS))
def test_each_root_has_one_verdict_if_calls_in_processes_are_made_again(group: int) -> None:
    for seed in range(group, PROCESS_GROUPS * SEEDS_PER_PROCESS_GROUP, PROCESS_GROUPS):
        simulated = simulate(seed, processes=True, retries=True)
        assert not simulated.violations, simulated.describe()


@pytest.mark.guarantee("ACK-13")
def test_a_drain_closes_a_spout_that_died_and_was_not_yet_replaced() -> None:
    simulated = simulate(963548141049)
    assert simulated.state == "drained"
    assert not simulated.violations, simulated.describe()


def test_a_close_that_is_cancelled_before_its_first_step_leaves_no_coroutine() -> None:
    simulated = simulate(374389517972)
    assert not simulated.violations, simulated.describe()


@pytest.mark.parametrize("seed", [3, 15, 29])
def test_a_seed_replays_a_run_to_the_last_event(seed: int) -> None:
    first, again = simulate(seed), simulate(seed)
    assert first == again
    assert first.trace != simulate(seed + 1000).trace


def test_plans_contain_every_kind_of_component_fault_and_ending() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    assert {bolt.kind for plan in plans for bolt in plan.bolts} == set(get_args(BoltKind))
    assert {spout.kind for plan in plans for spout in plan.spouts} == set(get_args(SpoutKind))
    assert len({grouping for plan in plans for bolt in plan.bolts for _, grouping in bolt.inputs}) == 10
    assert {type(fault).__name__ for plan in plans for fault in plan.faults} == {"KillTask", "RaiseError", "DropTuple", "DelayTuple"}
    assert {plan.ending for plan in plans} == {"complete", "drain", "stop", "pause"}
    assert {plan.config.acker_executors for plan in plans} >= {0, 1, 2, 5}


def test_plans_with_processes_contain_every_kind_of_bolt_and_every_moment_of_a_kill() -> None:
    plans = [draw_process_plan(seed) for seed in range(200)]
    assert {bolt.kind for plan in plans for bolt in plan.bolts if bolt.processes} == set(get_args(BoltKind))
    assert {kill.message for plan in plans for kill in plan.child_kills} == {None, *MESSAGES}
    assert any(plan.restarts for plan in plans)
    assert any(bolt.crash for plan in plans for bolt in plan.bolts)


def test_bolts_in_processes_change_nothing_else_of_a_plan() -> None:
    for seed in range(50):
        plan, with_processes = draw_plan(seed), draw_process_plan(seed)
        assert with_processes.spouts == plan.spouts
        assert with_processes.faults == plan.faults
        assert [bolt.inputs for bolt in with_processes.bolts] == [bolt.inputs for bolt in plan.bolts]


@pytest.mark.guarantee("ACK-8")
@pytest.mark.parametrize("seed", [2, 15])
def test_repeated_runs_do_not_leak_memory(seed: int) -> None:
    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(4):
        roots = simulate(seed).roots
    before, runs = blocks(), 12
    for _ in range(runs):
        simulate(seed)
    per_run = (blocks() - before) / runs  # Python's own caches need a few blocks
    assert per_run < 20 < roots
