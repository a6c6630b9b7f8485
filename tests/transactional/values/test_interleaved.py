"""Two tasks replay a batch at the same time, with their database calls in many orders (TX-8)."""

from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import pytest

from engine.backoff import Backoff
from engine.errors import StateFenced
from engine.state import retry
from engine.state.redis import values as redis
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpenValues
from tests.tiers import cases
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.tasks import add, attempt, open_values, read_values
from tests.transactional.values.turns import Turns

ORDERS = cases(60)
FIRST, SECOND = ["a", "b", "c", "d", "e"], ["v", "w", "x", "y", "z"]
"""Keys of each task."""
ORDERS_WITH_ZOMBIES = {"memory": cases(150), "sqlite": cases(30), "redis": cases(40), "postgres": cases(15)}
Batch = dict[str, int]


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
async def test_two_tasks_that_replay_a_batch_in_any_order_keep_each_others_writes(
    new_map: NewMap, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis, "KEYS_PER_PART", 2)
    for seed in range(ORDERS):
        draws = Random(seed)
        values = new_map(f"map{seed}")
        before = dict.fromkeys(FIRST + SECOND, 10)
        again = dict.fromkeys(FIRST + SECOND if kind == "transactional" else draws.sample(FIRST + SECOND, 7), 1)
        async with open_values(values, task_index=0) as one, open_values(values, task_index=1) as other:
            for number, count in (1, 10), (2, 1):
                await one.update(attempt(number, number), dict.fromkeys(FIRST, count), add, kind=kind)
                await other.update(attempt(number, number), dict.fromkeys(SECOND, count), add, kind=kind)
        async with open_values(values, task_index=0) as one, open_values(values, task_index=1) as other:
            turns = Turns(draws)
            turns.hold(one)
            turns.hold(other)
            await turns.play(
                one.update(attempt(2, 3), {key: again[key] for key in FIRST if key in again}, add, kind=kind),
                other.update(attempt(2, 3), {key: again[key] for key in SECOND if key in again}, add, kind=kind),
            )
        assert await read_values(values) == {key: count + again.get(key, 0) for key, count in before.items()}, f"order {seed}"


def shares(batch: Batch) -> tuple[Batch, Batch]:
    """Return the batch of each task."""
    return {key: batch[key] for key in FIRST if key in batch}, {key: batch[key] for key in SECOND if key in batch}


async def fenced(values: OpenValues[Any, Any], attempt: TransactionAttempt, share: Batch, kind: Any) -> None:
    """Update as a zombie, which may be refused."""
    with suppress(StateFenced):
        await values.update(attempt, share, add, kind=kind)


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
async def test_zombies_and_late_calls_do_not_change_the_values_of_the_newest_attempt(
    new_map: NewMap, place: str, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts of a batch at two tasks, and the next batch. Any call may be lost or late."""
    monkeypatch.setattr(redis, "KEYS_PER_PART", 2)
    monkeypatch.setattr(retry, "BACKOFF", Backoff(0.0001, 5.0))
    keys, delivered = FIRST + SECOND, 0
    for seed in range(ORDERS_WITH_ZOMBIES[place]):
        draws, values = Random(seed), new_map(f"map{seed}")
        turns = Turns(draws, faults=8)

        def batch(draws: Random = draws) -> Batch:
            return dict.fromkeys(keys if kind == "transactional" else draws.sample(keys, 7), draws.randint(1, 9))

        batches = [batch() for _ in range(3)]
        if kind == "transactional":
            batches[1] = batches[0]
        async with AsyncExitStack() as open_ones:
            first, second, third, fourth = [await open_ones.enter_async_context(open_values(values, task_index=at % 2)) for at in range(4)]
            for one, share in ((first, FIRST), (second, SECOND)):
                await one.update(attempt(1, 1), dict.fromkeys(share, 10), add, kind=kind)
            for one in (first, second, third, fourth):
                turns.hold(one)
            (old_1, old_2), (new_1, new_2), (next_1, next_2) = map(shares, batches)
            await turns.play(
                fenced(first, attempt(2, 2), old_1, kind),
                fenced(second, attempt(2, 2), old_2, kind),
                third.update(attempt(2, 2**32 + 1), new_1, add, kind=kind),
                fourth.update(attempt(2, 2**32 + 1), new_2, add, kind=kind),
            )
            await turns.play(
                third.update(attempt(3, 2**32 + 2), next_1, add, kind=kind),
                fourth.update(attempt(3, 2**32 + 2), next_2, add, kind=kind),
            )
            await turns.deliver()
        expected = {key: 10 + batches[1].get(key, 0) + batches[2].get(key, 0) for key in keys}
        assert await read_values(values) == expected, f"order {seed}"
        delivered += turns.delivered
    assert delivered > ORDERS_WITH_ZOMBIES[place]
