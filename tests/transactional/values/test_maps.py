"""Behaviour of all maps of values, on every database."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from engine.errors import FatalError, StateError, StateFenced, UsageError
from engine.transactional.values import ValuesMismatch
from tests.transactional.values.conftest import NewMap
from tests.transactional.values.tasks import add, attempt, newest, open_values, read_values

KINDS = pytest.mark.parametrize("kind", ["transactional", "opaque"])


@KINDS
@pytest.mark.guarantee("TX-8")
async def test_a_txid_counts_once(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        assert await values.update(attempt(1, 1), {"a": 1, "b": 2}, add, kind=kind) == {"a": 1, "b": 2}
        assert await values.update(attempt(2, 2), {"a": 10, "c": 5}, add, kind=kind) == {"a": 11, "c": 5}
        assert await values.update(attempt(2, 3), {"a": 10, "c": 5}, add, kind=kind) == {"a": 11, "c": 5}
    async with open_values(words) as values:
        assert await values.update(attempt(2, 2**32 + 1), {"a": 10, "c": 5}, add, kind=kind) == {"a": 11, "c": 5}
        assert await values.update(attempt(3, 2**32 + 2), {"b": 1}, add, kind=kind) == {"b": 3}
    assert await read_values(words) == {"a": 11, "b": 3, "c": 5}


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize("key_fields", [(), ("user", "start")])
async def test_a_key_without_a_value_is_deleted_on_demand(new_map: NewMap, key_fields: Any) -> None:
    words, many = new_map("words"), {("b", start): None for start in range(9000)}
    settings = {"key_fields": key_fields, "deletes": True}
    async with open_values(words) as values:
        await values.update(attempt(1, 1), {("a", 1): 1, ("a", 2): 2, **many}, newest, **settings)
        assert await values.update(attempt(2, 2), {("a", 1): 5, ("a", 2): None, ("c", 3): None}, newest, **settings) == {
            ("a", 1): 5,
            ("a", 2): None,
            ("c", 3): None,
        }
    async with open_values(words) as values:
        await values.update(attempt(2, 2**32), {("a", 1): 5, ("a", 2): None, ("c", 3): None}, newest, **settings)
        assert await read_values(words) == {("a", 1): 5}
        await values.update(attempt(3, 2**32 + 1), dict.fromkeys(many, 7), newest, **settings)
        assert len(await read_values(words)) == 9001
        with pytest.raises(StateError, match="has values, in which the same rows would count twice"):
            await values.forget()
        await values.update(attempt(4, 2**32 + 2), {("a", 1): None, **many}, newest, **settings)
        await values.forget()  # it has no row any more


async def test_opaque_values_keep_their_rows(new_map: NewMap) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        await values.update(attempt(1, 1), {"a": 1}, newest, kind="opaque", deletes=True)
        await values.update(attempt(2, 2), {"a": None}, newest, kind="opaque", deletes=True)
        assert await read_values(words) == {}
        await values.update(attempt(2, 3), {}, newest, kind="opaque", deletes=True)  # another batch, which does not change it
        assert await read_values(words) == {"a": 1}


@pytest.mark.guarantee("TX-8")
async def test_another_opaque_batch_replaces_the_one_before(new_map: NewMap) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        await values.update(attempt(1, 1), {"a": 1, "b": 2}, add, kind="opaque")
        await values.update(attempt(2, 2), {"a": 10, "b": 10, "new": 10}, add, kind="opaque")
        assert await values.update(attempt(2, 5), {"a": 20, "other": 3}, add, kind="opaque") == {"a": 21, "other": 3}
        assert await read_values(words) == {"a": 21, "b": 2, "other": 3}
        assert await values.update(attempt(2, 6), {}, add, kind="opaque") == {}
        assert await read_values(words) == {"a": 1, "b": 2}
        await values.update(attempt(3, 7), {"a": 1, "b": 1, "new": 1}, add, kind="opaque")
    assert await read_values(words) == {"a": 2, "b": 3, "new": 1}


@KINDS
@pytest.mark.guarantee("TX-8")
async def test_an_empty_batch_fences_older_attempts(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    async with open_values(words) as zombie, open_values(words) as values:
        await zombie.update(attempt(1, 1), {"a": 1}, add, kind=kind)
        await values.update(attempt(2, 2**32), {}, add, kind=kind)
        with pytest.raises(StateFenced, match="a later attempt"):
            await zombie.update(attempt(2, 2), {"a": 100}, add, kind=kind)
        with pytest.raises(StateFenced, match="a later attempt"):
            await zombie.update(attempt(3, 3), {"a": 100}, add, kind=kind)
    assert await read_values(words) == {"a": 1}


@KINDS
@pytest.mark.guarantee("TX-8")
async def test_tasks_of_one_attempt_write_at_the_same_time(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    async with open_values(words, task_index=0) as first, open_values(words, task_index=1) as second:
        await first.update(attempt(1, 1), {"a": 1}, add, kind=kind)
        await first.update(attempt(1, 2), {"a": 1}, add, kind=kind)
        await second.update(attempt(1, 2), {"b": 1}, add, kind=kind)
        await second.update(attempt(2, 3), {"b": 1}, add, kind=kind)
        await second.update(attempt(2, 4), {"b": 1}, add, kind=kind)
        await first.update(attempt(2, 4), {"a": 1}, add, kind=kind)
        await first.update(attempt(3, 5), {"a": 1}, add, kind=kind)
        await second.update(attempt(3, 5), {}, add, kind=kind)
    assert await read_values(words) == {"a": 3, "b": 2}


@pytest.mark.guarantee("TX-8")
async def test_writes_of_all_tasks_are_rolled_back(new_map: NewMap) -> None:
    words = new_map("words")
    async with (
        open_values(words, task_index=0) as first,
        open_values(words, task_index=1) as second,
        open_values(words, task_index=2) as third,
    ):
        await first.update(attempt(1, 1), {"a": 1}, add, kind="opaque")
        await second.update(attempt(1, 1), {"b": 1}, add, kind="opaque")
        await first.update(attempt(2, 2), {"a": 10, "x": 1}, add, kind="opaque")
        await second.update(attempt(2, 2), {"b": 10, "y": 1}, add, kind="opaque")
        await third.update(attempt(2, 3), {"c": 5}, add, kind="opaque")
        assert await read_values(words) == {"a": 1, "b": 1, "c": 5}
        await first.update(attempt(2, 3), {"a": 7}, add, kind="opaque")
        await second.update(attempt(2, 4), {"b": 3}, add, kind="opaque")
        assert await read_values(words) == {"a": 1, "b": 4}


@KINDS
@pytest.mark.guarantee("TX-8")
async def test_an_older_txid_is_an_error(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        for txid in (1, 2, 3):
            await values.update(attempt(txid, txid), {"a": 1}, add, kind=kind)
    async with open_values(words) as values:
        for number in (1, 99):
            with pytest.raises(ValuesMismatch, match="the state of the coordinator is older than the map") as caught:
                await values.update(attempt(2, number), {"a": 1}, add, kind=kind)
            assert isinstance(caught.value, FatalError)
    assert await read_values(words) == {"a": 3}


@KINDS
@pytest.mark.guarantee("TX-8", "TX-9")
@pytest.mark.parametrize("behind", [0, 1, 5])
async def test_a_paused_writer_is_fenced_however_far_the_other_one_is(new_map: NewMap, kind: Any, behind: int) -> None:
    """The values may refuse it before the ledger, because txid 2 was about to commit."""
    words = new_map("words")
    async with open_values(words) as paused, open_values(words) as other:
        await paused.update(attempt(1, 2**32 + 1), {"a": 1}, add, kind=kind)
        for txid in range(2, 3 + behind):
            await other.update(attempt(txid, 2 * 2**32 + txid), {"a": 1}, add, kind=kind)
        with pytest.raises(StateFenced, match="This process has been taken over") as caught:
            await paused.update(attempt(2, 2**32 + 2), {"a": 1}, add, kind=kind)
        assert isinstance(caught.value, FatalError)
        assert "that process continues" in (caught.value.hint or "")
    assert await read_values(words) == {"a": 2 + behind}


@KINDS
async def test_a_gap_between_txids_is_an_error(new_map: NewMap, kind: Any) -> None:
    async with open_values(new_map("words")) as values:
        await values.update(attempt(5, 1), {"a": 1}, add, kind=kind)
        with pytest.raises(ValuesMismatch, match=r"up to 5, and this is 7 .*: the transactions in between are missing"):
            await values.update(attempt(7, 2), {"a": 1}, add, kind=kind)


async def test_a_map_belongs_to_one_kind_one_topology_and_one_writer(new_map: NewMap) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        await values.update(attempt(1, 1), {"a": 1}, add)
        with pytest.raises(ValuesMismatch, match="stores transactional values, but the writer has opaque values"):
            await values.update(attempt(2, 2), {"a": 1}, add, kind="opaque")
    async with open_values(words, topology_name="other") as values:
        with pytest.raises(ValuesMismatch, match="belongs to topology 'words', and this is 'other'"):
            await values.update(attempt(2, 2), {"a": 1}, add)
    async with open_values(words, component_id="sum") as values:
        with pytest.raises(ValuesMismatch, match="written by two components, 'count' and 'sum'"):
            await values.update(attempt(1, 1), {"a": 1}, add)
        await values.update(attempt(2, 2), {"a": 1}, add)
    assert await read_values(words) == {"a": 2}


async def test_a_second_update_in_one_attempt_is_refused(new_map: NewMap) -> None:
    async with open_values(new_map("words")) as values:
        first = attempt(1, 1)
        await values.update(first, {"a": 1}, add)
        with pytest.raises(UsageError, match="called update\\(\\) twice"):
            await values.update(first, {"b": 1}, add)


@pytest.mark.guarantee("EO-9")
async def test_another_instance_may_update_again_with_an_equal_attempt(new_map: NewMap) -> None:
    """Given an interval that is published again, then its update has its effect once."""
    async with open_values(new_map("words")) as values:
        for _ in range(2):
            await values.update(attempt(1, 1), {"a": 1}, add)
        assert await values.get_many(["a"]) == {"a": 1}


KEYS = [
    "storm", "", "=", "=~", "=7", "a\nb", "a\0b", "é", "\ud800", "'; --", "k" * 3000, b"bytes", b"", 7, -1, 2**63, 2**70, 2.5, None,
    ("a", 1, None, ("b",)), datetime(2024, 5, 1, 12, tzinfo=UTC), Decimal("1.10"), UUID(int=5),
]  # fmt: skip
VALUES = [
    0, 1, -(2**63), 2**63, 10**40, 1.5, 1.0, -0.0, 1e16, 1e-7, 1e300, float("inf"), True, False, "", "text", "a\0b", "\ud800", "=", b"\0",
    [1, "a", None, 2.0, [True]], {"a": 1, "b": [2.5]}, {1: 2}, (1, 2), [(1, 2)], {"$msgpack": "00"}, {1, 2}, Decimal("1.50"), UUID(int=7),
    datetime(2024, 5, 1, 12, tzinfo=UTC),
]  # fmt: skip


@KINDS
async def test_keys_and_values_are_read_back_equal(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    given = {key: VALUES[number % len(VALUES)] for number, key in enumerate(KEYS)}
    given |= {f"value {number}": value for number, value in enumerate(VALUES)}
    async with open_values(words) as values:
        assert await values.update(attempt(1, 1), given, lambda stored, change: change, kind=kind) == given
        assert await values.get_many(given) == given
        seen: dict[Any, Any] = {}
        await values.update(attempt(2, 2), given, lambda stored, change: seen.setdefault(repr(change), stored), kind=kind)
        for text, value in seen.items():
            assert (repr(value), type(value)) == (text, type(value))
        await values.update(attempt(2, 3), given, lambda stored, change: change, kind=kind)
    found = await read_values(words)
    assert found == given
    assert {key: repr(value) for key, value in found.items()} == {key: repr(value) for key, value in given.items()}


async def test_equal_keys_share_one_value(new_map: NewMap) -> None:
    async with open_values(new_map("words")) as values:
        await values.update(attempt(1, 1), {1: 5, (True, "a"): 6}, add)
        await values.update(attempt(2, 2), {1.0: 5, (1, "a"): 6}, add)
        assert (await values.get(True), await values.get((1.0, "a"))) == (10, 12)


async def test_the_error_for_a_value_that_cannot_be_stored_names_its_key(new_map: NewMap) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        with pytest.raises(StateError, match="the value of 'bad' cannot be stored"):
            await values.update(attempt(1, 1), {"good": 1, "bad": object()}, lambda stored, change: change)
        with pytest.raises(StateError, match=r"\[1\] cannot be|frozenset\(\{1\}\) cannot be the key of a value"):
            await values.update(attempt(1, 1), {"good": 1, frozenset({1}): 1}, add)
        assert await read_values(words) == {}
        await values.update(attempt(1, 1), {"good": 1}, add)
    assert await read_values(words) == {"good": 1}


@KINDS
async def test_many_keys_can_be_written_and_read(new_map: NewMap, kind: Any) -> None:
    words = new_map("words")
    many = {f"key {number}": number for number in range(30_000)}
    async with open_values(words) as values:
        assert await values.update(attempt(1, 1), many, add, kind=kind) == many
        half = {key: 1 for key, number in many.items() if number % 2}
        await values.update(attempt(2, 2), half, add, kind=kind)
        await values.update(attempt(2, 3), half, add, kind=kind)
        assert len(await values.get_many(many)) == 30_000
    assert await read_values(words) == {key: number + number % 2 for key, number in many.items()}


async def test_a_reader_sees_the_committed_values(new_map: NewMap) -> None:
    words = new_map("words")
    async with open_values(words) as values:
        async with words.reader() as reader:
            assert (await reader.get("a"), await reader.get("a", 0), await reader.txid(), await reader.get_many(["a"])) == (None, 0, 0, {})
            assert [item async for item in reader.items()] == []
            await values.update(attempt(1, 1), {"a": 1, 7: 2}, add)
            assert (await reader.get("a"), await reader.txid(), await reader.get_many(["b", 7, "a"])) == (1, 1, {7: 2, "a": 1})
        assert await values.get("a") == 1


async def test_maps_in_one_database_are_separate(new_map: NewMap) -> None:
    async with open_values(new_map("words")) as words, open_values(new_map("lines")) as lines:
        await words.update(attempt(1, 1), {"a": 1}, add, kind="opaque")
        await lines.update(attempt(1, 1), {"a": 5}, add)
        await words.update(attempt(1, 2), {}, add, kind="opaque")
        assert (await words.get("a"), await lines.get("a")) == (None, 5)
