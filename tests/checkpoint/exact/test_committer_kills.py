"""kill -9 of topologies with a committer behind the states: each row is published exactly once (EO-9).

The kinds of committers, their targets and their readers are in `outputs`. Their parallelism changes from process to process.
"""

import random
import secrets
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.checkpoint.exact.conftest import ServerOf
from tests.checkpoint.exact.outputs import KINDS
from tests.checkpoint.exact.plan import ROWS_A_DEATH_OF_COMMITTERS, deaths_at
from tests.checkpoint.exact.rounds import KilledExact
from tests.checkpoint.exact.steps import ExactStep, output_steps
from tests.checkpoint.exact.topology import Places
from tests.kills.rounds import Killed, play, play_until_met

WITHOUT_ARROW: Final = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
BY_KIND: Final = [pytest.param(kind, marks=WITHOUT_ARROW if kind == "spark" else ()) for kind in KINDS]
DAILY: Final = 3
"""Steps of a kind."""
INSTANTS: Final = 1


async def killed_at(steps: Sequence[ExactStep], kind: str, folder: Path, state: str, server: tuple[str, str]) -> Killed:
    """Kill a topology with a committer at these steps, and judge it."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    deaths = deaths_at(steps, INSTANTS, draws)
    places = Places(
        folder=str(folder),
        rows=ROWS_A_DEATH_OF_COMMITTERS * len(deaths),
        source=draws.choice(["class", "burst generator"]),
        bolts=draws.choice(["plain", "bursts"]),
        state=state,
        output=kind,
        server=server[0],
        name=server[1],
    )
    return await play(KilledExact(places, seed), deaths)


@pytest.mark.guarantee("EO-1", "EO-8", "EO-9", "FI-5")
@pytest.mark.parametrize("kind", BY_KIND)
async def test_killed_at_a_few_steps_it_publishes_each_row_once(
    kind: str, tmp_path: Path, server_of: ServerOf, request: pytest.FixtureRequest
) -> None:
    steps = random.SystemRandom().sample(output_steps(kind), DAILY)

    async def begin(folder: Path) -> Killed:
        redis = request.getfixturevalue("redis") if kind.startswith("redis") else ""
        state = f"{redis}?prefix={secrets.token_hex(4)}" if redis else f"sqlite:///{folder}/state.db"
        return await killed_at(steps, kind, folder, state, await server_of(kind))

    killed = await play_until_met(begin, tmp_path)

    assert killed.violations == []
    assert killed.deaths.keys() >= {step.name for step in steps}


@pytest.mark.guarantee("EO-1", "EO-8", "EO-9", "FI-5")
@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", BY_KIND)
async def test_killed_at_each_step_it_publishes_each_row_once(kind: str, tmp_path: Path, server_of: ServerOf) -> None:
    steps = output_steps(kind)

    async def begin(folder: Path) -> Killed:
        return await killed_at(steps, kind, folder, f"sqlite:///{folder}/state.db", await server_of(kind))

    killed = await play_until_met(begin, tmp_path)

    assert killed.violations == []
    assert killed.deaths.keys() >= {step.name for step in steps}
