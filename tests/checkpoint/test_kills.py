"""kill -9 at every named step of a checkpoint, one process after the other: no acked tuple is lost, none counts twice (CP-10)."""

import random
import secrets
from pathlib import Path

import pytest

from tests.checkpoint.killing import FOLD_STEPS, STEPS
from tests.checkpoint.rounds import LookedAt, deaths_at
from tests.kills.lives import Death
from tests.kills.rounds import play

MESSAGES = 3000
"""64 at most await a checkpoint: 13 processes that die at a second checkpoint leave some to the last one."""
FEW_MESSAGES = 200


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.deep
async def test_killed_at_every_step_each_start_goes_on_with_what_the_tools_find(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    deaths = deaths_at([step for step in STEPS if step not in FOLD_STEPS], random.Random(seed))

    killed = await play(LookedAt(tmp_path, f"sqlite:///{tmp_path}/state.db", MESSAGES), deaths)

    assert killed.violations == []
    assert len(killed.deaths) == len(deaths)


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.parametrize("step", FOLD_STEPS)
async def test_killed_in_a_fold_the_next_start_goes_on_with_what_the_tools_find(step: str, tmp_path: Path) -> None:
    killed = await play(LookedAt(tmp_path, f"sqlite:///{tmp_path}/state.db", FEW_MESSAGES), [Death(step=step)])

    assert killed.violations == []
    assert killed.deaths == {step: 1}
