"""kill -9 of a counting topology at the steps of a checkpoint and of a rollback, and at random instants: each row counts exactly once.

Beside the kills, rows fail, and tasks and processes of bolts die. `python -m tests.soak.exact COUNT` repeats it in all combinations.
"""

import random
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.checkpoint.exact.plan import ROWS_A_DEATH, deaths_at, spread
from tests.checkpoint.exact.rounds import KilledExact
from tests.checkpoint.exact.steps import ExactStep, steps_of
from tests.checkpoint.exact.topology import SOURCES, Places
from tests.kills.rounds import Killed, play, play_until_met

DAILY: Final = (
    ("class", "plain", "redis", 5),
    ("generator", "processes", "sqlite", 3),
    ("burst generator", "bursts", "sqlite", 5),
    ("repeatable", "plain", "sqlite", 4),
    ("files", "bursts", "redis", 5),
    ("flow", "processes", "sqlite", 5),
)
"""Source, form of the bolts, store, and number of steps."""
INSTANTS: Final = 1
ALL_STEPS: Final = spread()


def sqlite_in(folder: Path) -> str:
    """Return the URL of a state in a folder."""
    return f"sqlite:///{folder}/state.db"


async def killed_at(steps: Sequence[ExactStep], source: str, bolts: str, folder: Path, state: str) -> Killed:
    """Kill a topology at these steps, and judge it."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rows = ROWS_A_DEATH * (len(steps) + INSTANTS)
    places = Places(folder=str(folder), rows=rows, source=source, bolts=bolts, state=state)
    return await play(KilledExact(places, seed), deaths_at(steps, INSTANTS, random.Random(seed)))


@pytest.mark.guarantee("EO-1", "EO-2", "EO-8", "FI-5")
@pytest.mark.parametrize(("source", "bolts", "store", "count"), DAILY)
async def test_killed_at_a_few_steps_it_counts_each_row_once(
    source: str, bolts: str, store: str, count: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    steps = random.SystemRandom().sample(steps_of(source), count)

    async def begin(folder: Path) -> Killed:
        redis = "" if store == "sqlite" else request.getfixturevalue("redis")
        return await killed_at(steps, source, bolts, folder, f"{redis}?prefix={secrets.token_hex(4)}" if redis else sqlite_in(folder))

    killed = await play_until_met(begin, tmp_path)

    assert killed.violations == []
    assert killed.deaths.keys() >= {step.name for step in steps}


@pytest.mark.guarantee("EO-1", "EO-2", "EO-8", "FI-5")
@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("source", SOURCES)
async def test_killed_at_each_step_it_counts_each_row_once(source: str, tmp_path: Path) -> None:
    steps = ALL_STEPS[source]

    killed = await play_until_met(lambda folder: killed_at(steps, source, "plain", folder, sqlite_in(folder)), tmp_path)

    assert killed.violations == []
    assert killed.deaths.keys() >= {step.name for step in steps}
