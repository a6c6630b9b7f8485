"""kill -9 at every named step of flow control, then another start: no record is lost (FC-6).

Each step is struck once. `python -m tests.soak.flow COUNT` repeats it in all combinations, at random instants too.
"""

import random
import secrets
from itertools import combinations
from pathlib import Path

import pytest

from tests.flow.kills.combinations import COMBINATIONS, PAIRS, Combination
from tests.flow.kills.plan import chain, spread
from tests.flow.kills.rounds import KilledFlow
from tests.flow.kills.steps import STEPS
from tests.kills.rounds import play
from tests.servers.required import required

pytestmark = pytest.mark.deep

COUNT = 700
STEPS_OF = spread(PAIRS)


def test_the_combinations_contain_all_pairs() -> None:
    fields = ("positions", "producer", "tasks", "state")
    for one, other in combinations(fields, 2):
        all_pairs = {(getattr(each, one), getattr(each, other)) for each in COMBINATIONS}
        assert {(getattr(each, one), getattr(each, other)) for each in PAIRS} == all_pairs


def test_each_step_is_planned_once() -> None:
    assert sorted(step.name for steps in STEPS_OF.values() for step in steps) == sorted(STEPS)


@pytest.mark.guarantee("FC-6")
@pytest.mark.parametrize("combination", PAIRS, ids=str)
async def test_after_kills_at_its_steps_a_combination_loses_no_record(combination: Combination, redis: str, tmp_path: Path) -> None:
    if combination.state == "redis":
        from tests.servers.redis_server import why_not

        required(why_not())
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    topology = KilledFlow(combination, f"{redis}?prefix=kills-{secrets.token_hex(4)}", tmp_path, COUNT)

    killed = await play(topology, chain(STEPS_OF[combination], 0, draws))

    assert killed.violations == []
    assert sorted(killed.deaths) == sorted(step.name for step in STEPS_OF[combination])
