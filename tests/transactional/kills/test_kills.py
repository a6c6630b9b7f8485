"""kill -9 at every step of both phases and at random times: each word is counted exactly once (TX-9, TX-10).

Each step is struck once. `python -m tests.soak.transactions COUNT` repeats them in all combinations.
"""

import random
import secrets
from pathlib import Path

import pytest

from tests.kills.rounds import AT_AN_INSTANT, play
from tests.transactional.kills.combinations import COMBINATIONS, SPOUTS, STATES, STORES, Combination
from tests.transactional.kills.plan import chain, drawn_instant, spread
from tests.transactional.kills.rounds import KilledTransactions, Servers, drawn_lines
from tests.transactional.kills.steps import STEPS

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]

LINES = 300
DEATHS = spread()


def test_the_combinations_have_all_pairs() -> None:
    assert {(each.spout, each.values) for each in COMBINATIONS} == {(spout, store) for spout in SPOUTS for store in STORES}
    assert {(each.spout, each.state) for each in COMBINATIONS} == {(spout, state) for spout in SPOUTS for state in STATES}
    assert {(each.values, each.state) for each in COMBINATIONS} == {(store, state) for store in STORES for state in STATES}


def test_each_step_is_struck_once() -> None:
    assert sorted(step.name for steps in DEATHS.values() for step in steps) == sorted(STEPS)


@pytest.mark.guarantee("TX-8", "TX-9", "TX-10")
@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
async def test_killed_at_steps_it_counts_each_word_once(combination: Combination, servers: Servers, tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    topology = KilledTransactions(combination, servers, tmp_path, f"kills-{secrets.token_hex(4)}", drawn_lines(draws, LINES))
    at_steps = chain(DEATHS[combination], draws)

    killed = await play(topology, [*at_steps, drawn_instant(draws)])

    assert killed.violations == []
    assert killed.deaths.total() - killed.deaths[AT_AN_INSTANT] == len(at_steps)
