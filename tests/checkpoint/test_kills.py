"""kill -9 at every named step of a checkpoint, one process after the other (CP-10).

No acked tuple is lost, and none counts twice.
"""

import random
import secrets
from pathlib import Path

import pytest

from tests.checkpoint.killing import FOLD_STEPS, STEPS
from tests.checkpoint.rounds import ComparedWithTools, deaths_at
from tests.kills.lives import Death
from tests.kills.rounds import play

MESSAGES = 3000
"""Enough for the last process: at most 64 messages await a checkpoint, and 13 processes die at a second checkpoint."""
FEW_MESSAGES = 200


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.deep
async def test_after_a_kill_at_each_step_the_next_start_restores_the_state_that_the_tools_read(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    deaths = deaths_at([step for step in STEPS if step not in FOLD_STEPS], random.Random(seed))

    killed = await play(ComparedWithTools(tmp_path, f"sqlite:///{tmp_path}/state.db", MESSAGES), deaths)

    assert killed.violations == []
    assert len(killed.deaths) == len(deaths)


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", FOLD_STEPS)
async def test_after_a_kill_in_a_fold_the_next_start_restores_the_state_that_the_tools_read(step: str, tmp_path: Path) -> None:
    killed = await play(ComparedWithTools(tmp_path, f"sqlite:///{tmp_path}/state.db", FEW_MESSAGES), [Death(step=step)])

    assert killed.violations == []
    assert killed.deaths == {step: 1}


@pytest.mark.guarantee("PR-1", "PR-2", "BU-1", "CP-7", "CP-10")
@pytest.mark.deep
@pytest.mark.parametrize("bolts", ["bursts", "processes", "bursts in processes"])
async def test_after_kills_the_state_of_bursts_and_of_children_is_restored(bolts: str, tmp_path: Path) -> None:
    deaths = [Death(step=step, at=2) for step in ("before pre_prepare", "after stage", "before pre_commit")]

    killed = await play(ComparedWithTools(tmp_path, f"sqlite:///{tmp_path}/state.db", MESSAGES, bolts), deaths)

    assert killed.violations == []
    assert killed.deaths.total() == len(deaths)
