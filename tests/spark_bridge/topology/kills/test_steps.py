"""kill -9 of an engine at steps of both phases and around its jobs counts each word once (CL-1, CL-3)."""

import random
import secrets
from pathlib import Path

import pytest

from tests.kills.rounds import AT_AN_INSTANT, play
from tests.spark_bridge.topology.kills.killing import LEVELS
from tests.spark_bridge.topology.kills.steps import COMMITTING, JOB_STEPS, STEPS
from tests.transactional.kills.combinations import COMBINATIONS, Combination
from tests.transactional.kills.plan import chain, drawn_instant, spread
from tests.transactional.kills.rounds import KilledTransactions, Servers, drawn_lines


class FilesAlone(Combination):
    """Needs no server."""

    @property
    def other_values(self) -> str:
        return self.values


LINES = 300
STRUCK = [step for name, step in STEPS.items() if not name.startswith(COMMITTING)]
DEATHS = spread([COMBINATIONS[at] for at in (0, 4, 8, 9)], STRUCK)
"""Each spout, and each store of values and of state."""
ON_FILES = FilesAlone("file", "sqlite", "sqlite")
FEW = [JOB_STEPS[name] for name in ("job: planned, not called", "job: called, in flight", "job: returned, nothing settled")]


class OnLevels(KilledTransactions):
    spark = LEVELS


class OnSpark(KilledTransactions):
    spark = "local[2]"


def drawn() -> tuple[random.Random, str]:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed), f"cluster-kills-{secrets.token_hex(4)}"


@pytest.mark.guarantee("CL-1", "CL-3")
async def test_killed_around_a_job_it_counts_each_word_once(tmp_path: Path) -> None:
    draws, name = drawn()
    topology = OnLevels(ON_FILES, Servers(), tmp_path, name, drawn_lines(draws, 60))

    killed = await play(topology, chain(FEW, draws))

    assert killed.violations == []
    assert killed.deaths.keys() == {step.name for step in FEW}


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.guarantee("CL-1", "CL-3")
@pytest.mark.parametrize("combination", DEATHS, ids=str)
async def test_killed_at_steps_it_counts_each_word_once(combination: Combination, servers: Servers, tmp_path: Path) -> None:
    draws, name = drawn()
    topology = OnLevels(combination, servers, tmp_path, name, drawn_lines(draws, LINES))
    at_steps = chain(DEATHS[combination], draws)

    killed = await play(topology, [*at_steps, drawn_instant(draws)])

    assert killed.violations == []
    assert killed.deaths.total() - killed.deaths[AT_AN_INSTANT] == len(at_steps)


@pytest.mark.deep
@pytest.mark.timeout(400)
@pytest.mark.guarantee("CL-1", "CL-3")
async def test_killed_around_a_job_of_a_real_spark_it_counts_each_word_once(spark_here: None, tmp_path: Path) -> None:
    draws, name = drawn()
    topology = OnSpark(ON_FILES, Servers(), tmp_path, name, drawn_lines(draws, 60))

    killed = await play(topology, chain(FEW, draws))

    assert killed.violations == []
    assert killed.deaths.keys() == {step.name for step in FEW}


def test_each_step_is_struck_once() -> None:
    assert sorted(step.name for steps in DEATHS.values() for step in steps) == sorted(step.name for step in STRUCK)
