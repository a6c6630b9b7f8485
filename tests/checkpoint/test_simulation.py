"""Random runs with state under the virtual clock: nothing acked is lost, nothing that never failed is counted twice (CP-2, CP-5)."""

import random
from collections import Counter

import pytest

from engine import Config
from engine.testing import ACKER, Fault, Finished, KillTask, RaiseError, run_topology
from tests.checkpoint.world import World, random_world

CALM_RUNS = 40
FAULTY_RUNS = 160
MESSAGES = 60
HOOKS = ("init_state", "pre_prepare", "pre_commit", "pre_rollback", "execute", "prepare")


def config(draws: random.Random) -> Config:
    return Config(
        max_spout_pending=draws.choice([None, 1, 7, 50]),
        state_checkpoint_interval_ms=draws.choice([100, 150, 1000]),
        acker_executors=draws.choice([1, 1, 2]),
        executor_receive_buffer_size=draws.choice([2, 16, 32768]),
        burst=draws.choice([1, 8, 256]),
        max_task_restarts=10_000,
        key_groups=16,
    )


def play(seed: int, *, faulty: bool) -> tuple[World, Finished]:
    draws = random.Random(seed)
    world = random_world(draws, MESSAGES)
    faults: list[Fault] = []
    if faulty:
        bolts = [spec.component_id for spec in world.topology.bolts]
        for _ in range(draws.randint(1, 5)):
            kind = draws.random()
            if kind < 0.5:
                victim = draws.choice([*bolts, *(source.name for source in world.sources), ACKER])
                tasks = 1 if victim == ACKER else world.topology.components[victim].parallelism
                faults.append(KillTask(victim, task_index=draws.randrange(tasks), at_secs=draws.uniform(0.0, 1.2)))
            else:
                method = draws.choice(HOOKS)
                victim = draws.choice(world.stateful)
                faults.append(RaiseError(victim, at_call=draws.randint(1, 40 if method == "execute" else 4), method=method))
    return world, run_topology(world.topology, config(draws), faults=faults, seed=seed, shuffle=True)


def check_counts(world: World) -> None:
    for component_id in world.stateful:
        counted = world.effects.counted(component_id)
        for source in world.sources:
            for number in range(MESSAGES):
                message = f"{source.name}:{number}"
                expected = world.expected(component_id, message)
                if message in source.replayed:
                    assert counted[message] >= expected, f"{message} is lost at {component_id}"
                else:
                    assert counted[message] == expected, f"{message} never failed, and {component_id} counted it {counted[message]} times"
    for source in world.sources:
        assert set(source.acked) == {f"{source.name}:{number}" for number in range(MESSAGES)}
        assert set(source.acked.values()) == {1}


@pytest.mark.guarantee("CP-1", "CP-2", "CP-5")
@pytest.mark.parametrize("seed", range(CALM_RUNS))
def test_without_faults_everything_is_counted_once_and_every_cut_is_consistent(seed: int) -> None:
    world, finished = play(seed, faulty=False)

    assert finished.state == "complete"
    assert not any(source.replayed for source in world.sources)
    check_counts(world)
    check_cuts(world)


def check_cuts(world: World) -> None:
    """What a bolt has counted when its state is set aside, all stateful bolts before it have counted by then, as often as it takes."""
    cuts: dict[tuple[int, str], Counter[str]] = {}
    for (txid, component_id, _), held in world.effects.cuts.items():
        cuts.setdefault((txid, component_id), Counter()).update(held)
    for (txid, component_id), held in cuts.items():
        for upstream in world.feeds[component_id]:
            if upstream in world.stateful and world.feeds[component_id] == [upstream]:
                assert held <= cuts[txid, upstream], f"at txid {txid} {component_id} is ahead of {upstream}"


@pytest.mark.guarantee("CP-3", "CP-4", "CP-5", "CP-7")
@pytest.mark.parametrize("seed", range(FAULTY_RUNS))
def test_with_deaths_in_every_phase_nothing_acked_is_lost_and_nothing_is_counted_twice_that_never_failed(seed: int) -> None:
    world, finished = play(1000 + seed, faulty=True)

    assert finished.state == "complete"
    check_counts(world)
