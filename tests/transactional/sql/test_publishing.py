"""Rows of a batch are applied exactly once, by every attempt, task and parallelism (TX-12)."""

import asyncio
from typing import Any

import pytest

from engine.errors import FatalError, StateFenced
from engine.transactional.values import ValuesMismatch
from tests.transactional.sql.places import INSERT, Place, published
from tests.transactional.values.tasks import attempt

pytestmark = pytest.mark.guarantee("TX-12")


async def test_a_txid_is_applied_once(place: Place) -> None:
    async with place.task() as task:
        await published(task, attempt(1, 1), (1, "a"), (2, "b"))
        await published(task, attempt(1, 1), (1, "a"), (2, "b"))
        await published(task, attempt(1, 2), (1, "a"), (2, "b"))
    async with place.task() as task:
        await published(task, attempt(1, 2**32 + 1), (1, "a"), (2, "b"))
        await published(task, attempt(2, 2**32 + 2), (1, "a"))
    assert await place.rows() == [(1, "a"), (1, "a"), (2, "b")]


async def test_the_fence_can_be_read_with_sql(place: Place) -> None:
    async with place.task(tasks=2, task_index=1) as task:
        await published(task, attempt(1, 4), (1, "a"))
    found = await place.rows("SELECT topology, component, task, tasks, txid, attempt FROM stormcell_batches ORDER BY task")
    assert found == [("words", "count", -1, 2, 1, 4), ("words", "count", 1, 2, 1, 4)]


async def test_an_empty_batch_fences_older_attempts(place: Place) -> None:
    async with place.task() as zombie, place.task() as task:
        await published(zombie, attempt(1, 1), (1, "a"))
        await published(task, attempt(2, 2**32))
        with pytest.raises(StateFenced, match="a later attempt"):
            await published(zombie, attempt(2, 2), (9, "z"))
        with pytest.raises(StateFenced, match="a later attempt"):
            await published(zombie, attempt(3, 3), (9, "z"))
    assert await place.rows() == [(1, "a")]


async def test_an_older_txid_ends_the_run(place: Place) -> None:
    async with place.task() as task:
        for txid in (1, 2):
            await published(task, attempt(txid, txid), (txid, "a"))
        with pytest.raises(ValuesMismatch, match="the state of the coordinator is older than this table") as caught:
            await published(task, attempt(1, 7), (1, "a"))
        assert "delete the rows of 'count'" in (caught.value.hint or "")
        with pytest.raises(ValuesMismatch, match="the transactions in between are missing"):
            await published(task, attempt(4, 9), (1, "a"))
    assert await place.rows() == [(1, "a"), (2, "a")]


async def test_tasks_of_one_batch_write_at_the_same_time(place: Place) -> None:
    async with place.task(tasks=2, task_index=0) as first, place.task(tasks=2, task_index=1) as second:
        for txid in range(1, 6):
            await asyncio.gather(
                published(first, attempt(txid, txid), (txid, "first")), published(second, attempt(txid, txid), (txid, "second"))
            )
            await published(second, attempt(txid, txid), (txid, "second"))
    assert await place.rows() == [(txid, task) for txid in range(1, 6) for task in ("first", "second")]


async def test_the_parallelism_may_change_between_batches_but_not_in_one(place: Place) -> None:
    async with place.task(tasks=2, task_index=0) as first, place.task(tasks=2, task_index=1) as second:
        await published(first, attempt(1, 1), (1, "a"))
        await published(second, attempt(1, 1), (2, "b"))
        async with place.task() as alone:
            await published(alone, attempt(1, 2), (1, "a"), (2, "b"))
            await published(alone, attempt(2, 3), (3, "c"))
        with pytest.raises(StateFenced):
            await published(second, attempt(2, 2), (9, "zombie"))
    async with place.task(tasks=3, task_index=2) as third:
        await published(third, attempt(3, 4), (4, "d"))
    async with place.task() as alone:
        with pytest.raises(ValuesMismatch, match=r"had 3 when it wrote transaction 3. The rows of task 0, 1") as caught:
            await published(alone, attempt(3, 5), (4, "d"), (5, "e"))
        assert "parallelism of 3 until" in (caught.value.hint or "")
    assert await place.rows() == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


async def test_topologies_and_components_have_fences_of_their_own(place: Place) -> None:
    for topology, component in (("words", "count"), ("words", "other"), ("lines", "count")):
        async with place.task(topology_name=topology, component_id=component) as task:
            await published(task, attempt(1, 1), (1, component))
    assert len(await place.rows()) == 3


async def test_a_refused_row_takes_its_whole_batch_back(place: Place) -> None:
    async with place.task() as task:
        with pytest.raises(FatalError) as caught:
            await published(task, attempt(1, 1), (1, "a"), (2, None), (3, "c"))
        assert await place.rows() == []
        await published(task, attempt(1, 2), (1, "a"), (3, "c"))
    assert await place.rows() == [(1, "a"), (3, "c")]
    assert "the row user_id=2, page=None" in str(caught.value)
    assert INSERT.split(" VALUES")[0] in str(caught.value)
    assert "null" in str(caught.value).lower()


@pytest.mark.parametrize(
    "row", [(2**63, "a"), ("seven", None), ({}, "a"), (1, "\ud800"), (1, ["a"])], ids=["overflow", "type", "dict", "surrogate", "list"]
)
async def test_a_value_that_does_not_fit_is_named(place: Place, row: tuple[Any, ...]) -> None:
    async with place.task() as task:
        with pytest.raises(FatalError, match="refuses the row user_id=") as caught:
            await published(task, attempt(1, 1), (1, "before"), row)
        assert getattr(caught.value, "rows", None) == (1,)
        await published(task, attempt(1, 2), (2, "behind"))
    assert await place.rows() == [(2, "behind")]


async def test_a_check_and_a_trigger_refuse_rows(place: Place) -> None:
    async with place.task("INSERT INTO visits(user_id, page, times) VALUES ($1, 'x', $2)", ("user_id", "times")) as task:
        with pytest.raises(FatalError, match="user_id=1, times=1000"):
            await published(task, attempt(1, 1), (1, 999), (1, 1000))
    assert await place.rows() == []
