"""kill -9 of a flow with windows at steps of a checkpoint and at instants, restarted with another parallelism."""

import random
import secrets
from pathlib import Path

import pytest

from tests.kills.rounds import Killed, play, play_until_met
from tests.streams.killed.killing import SPECS, Places
from tests.streams.killed.rounds import NAMES, ROWS_A_DEATH, KilledWindows, death_at

STEPS_A_ROUND = 3


@pytest.mark.guarantee("WI-1", "WI-5", "WI-6", "ET-2", "ET-4", "EO-1")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("windows", SPECS)
async def test_killed_at_a_few_steps_each_window_is_published_once(windows: str, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    steps: list[str | None] = [*draws.sample(NAMES, STEPS_A_ROUND), None]

    async def begin(folder: Path) -> Killed:
        rows = ROWS_A_DEATH * len(steps)
        places = Places(folder=str(folder), rows=rows, windows=windows, state=f"sqlite:///{folder}/state.db")
        return await play(KilledWindows(places), [death_at(step, draws) for step in steps])

    killed = await play_until_met(begin, tmp_path)

    assert killed.violations == []
    assert killed.deaths.total() >= STEPS_A_ROUND
