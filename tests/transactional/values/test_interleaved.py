"""Two tasks of a component that replay a batch at the same time, their calls to the database in many orders (TX-8)."""

from random import Random

import pytest

from engine.transactional.values import redis
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.tasks import add, attempt, opened, stored
from tests.transactional.values.turns import Turns

ORDERS = 60
FIRST, SECOND = ["a", "b", "c", "d", "e"], ["v", "w", "x", "y", "z"]
"""The keys of each task."""


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
async def test_in_whatever_order_two_tasks_replay_a_batch_none_undoes_what_the_other_has_written(
    new_map: NewMap, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "KEYS_PER_PART", 2)
    for seed in range(ORDERS):
        draws = Random(seed)
        values = new_map(f"map{seed}")
        before = dict.fromkeys(FIRST + SECOND, 10)
        again = dict.fromkeys(FIRST + SECOND if kind == "transactional" else draws.sample(FIRST + SECOND, 7), 1)
        async with opened(values, task_index=0) as one, opened(values, task_index=1) as other:
            for number, count in (1, 10), (2, 1):
                await one.update(attempt(number, number), dict.fromkeys(FIRST, count), add, kind=kind)
                await other.update(attempt(number, number), dict.fromkeys(SECOND, count), add, kind=kind)
        async with opened(values, task_index=0) as one, opened(values, task_index=1) as other:
            turns = Turns(draws)
            turns.hold(one)
            turns.hold(other)
            await turns.play(
                one.update(attempt(2, 3), {key: again[key] for key in FIRST if key in again}, add, kind=kind),
                other.update(attempt(2, 3), {key: again[key] for key in SECOND if key in again}, add, kind=kind),
            )
        assert await stored(values) == {key: count + again.get(key, 0) for key, count in before.items()}, f"order {seed}"
