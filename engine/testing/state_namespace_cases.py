"""Cases of namespaces that every `StateProvider` must pass, with native drops or without (CP-12 to CP-14)."""

from pathlib import Path
from typing import Any
from unittest import SkipTest

from engine.state import LookupStore, Row, StatePlace, TaskStore, codec_named, fold_committed
from engine.state.namespaces import Name, prefix_of, stored_prefix
from engine.testing.state_provider_cases import (
    COUNTS,
    InjectedBreak,
    assert_raises,
    async_test,
    checkpoint,
    chunks,
    needs_durable,
    needs_inventory,
    needs_rows,
)

NAMES: tuple[Name, ...] = (0, 7, -7, 2**63 - 1, -(2**63), "a", "ab", "7", "\x00", "ü")
GROUPS = 16
MANY = 12_000


class NamespaceCases:
    """The part of `StateProviderSuite` for namespaces."""

    @needs_rows
    @needs_durable
    @async_test
    async def test_namespaces_are_separate_and_survive_a_reopen(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            state.put("key", "plain")
            for name in NAMES:
                state.namespace(name).put_many({"key": [name], ("t", 1): 1})
            await checkpoint(state, 0)
            await state.close()
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider, committed_txid=0)
            assert dict(state.items()) == {"key": "plain"}
            assert set(state.namespaces()) == set(NAMES)
            for name in NAMES:
                assert state.namespace(name).get("key") == [name]
                assert dict(state.namespace(name).items()) == {"key": [name], ("t", 1): 1}

    @needs_rows
    @needs_durable
    @async_test
    async def test_nothing_of_a_dropped_namespace_is_left(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            for name in (7, 8, "a", "ab"):
                state.namespace(name).add_many(range(MANY // 4))
            state.put("plain", 1)
            await checkpoint(state, 0)
            await state.fold()
            state.namespace(7).drop()
            state.namespace("a").drop()
            state.namespace("a").put("again", 1)
            await checkpoint(state, 1)
            assert set(state.namespaces()) == {8, "a", "ab"}
            await state.close()
            kept = [name for name in (8, "ab") for _ in range(MANY // 4)]
            assert await _prefixes(self, provider) == sorted([b"", prefix_of("a"), *map(prefix_of, kept)])
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider, committed_txid=1)
            assert dict(state.namespace("a").items()) == {"again": 1}
            assert (state.namespace(7).get(3), state.namespace(8).get(3), len(list(state.namespace("ab").items()))) == (None, 1, MANY // 4)

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_drop_that_is_not_committed_has_no_effect(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            state.namespace("a").put("key", 1)
            await checkpoint(state, 0)
            await state.fold()
            state.namespace("a").drop()
            await state.rollback()
            assert dict(state.namespace("a").items()) == {"key": 1}
            state.namespace("a").drop()
            await state.prepare_commit(1)
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider, committed_txid=0)
            assert dict(state.namespace("a").items()) == {"key": 1}

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_process_dies_between_the_steps_of_a_fold_with_drops(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            state.namespace("a").add_many(range(1000))
            state.namespace("b").add_many(range(1000))
            await checkpoint(state, 0)
            await state.fold()
            state.namespace("a").drop()
            state.namespace("a").put(5, "new")
            await checkpoint(state, 1)
            store = await provider.store("count", 0, range(GROUPS))
            if store.drops_prefixes:
                await store.drop_prefixes([prefix_of("a")])
            old = [row for row in await _rows(store) if row.key.startswith(prefix_of("a"))]
            deletions = [Row(row.slot, row.key, None) for row in old]
            deletions = deletions or [Row(0, prefix_of("c") + b"\x00", None)]
            await assert_raises(InjectedBreak, store.fold(chunks(deletions, breaks_after=len(deletions) // 200), 1))
        for _ in range(2):
            async with self.opened(tmp_path) as provider:
                state = await self.state(provider, committed_txid=1)
                assert dict(state.namespace("a").items()) == {5: "new"}
                assert len(list(state.namespace("b").items())) == 1000
                await state.close()

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_drop_concerns_the_slots_of_its_task(self: Any, tmp_path: Path) -> None:
        places = [StatePlace("count", index, 2, True, GROUPS) for index in range(2)]
        async with self.opened(tmp_path) as provider:
            states = [await self.state(provider, index, 2) for index in range(2)]
            for number in range(200):
                states[places[0].slot_of(number) * 2 // GROUPS].namespace("a").put(number, number)
            for state in states:
                await checkpoint(state, 0)
                await state.fold()
            states[0].namespace("a").drop()
            for state in states:
                await checkpoint(state, 1)
        async with self.opened(tmp_path) as provider:
            for place in places:
                await fold_committed(provider, codec_named("msgpack"), place, COUNTS, 1)
            states = [await self.state(provider, index, 3, 1) for index in range(3)]
            found = [key for state in states for key, _ in state.namespace("a").items()]
        assert sorted(found) == [number for number in range(200) if places[1].slot_of(number) in places[1].slots]

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_store_drops_exactly_what_has_the_prefix(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store, other = await self.task(provider, 0, 2), await self.task(provider, 1, 2)
            if not store.drops_prefixes:
                raise SkipTest("the engine deletes the rows of this store one by one")
            keys = [b"\x00%c" % byte for byte in range(256)]
            for task, slots in ((store, (0, 1)), (other, (2, 3))):
                rows = [Row(slot, prefix_of(name) + key, b"x") for slot in slots for name in (None, *NAMES) for key in keys]
                await task.fold(chunks(rows), 0)
            gone = [prefix_of(name) for name in (7, "a", 2**63 - 1)]
            await store.drop_prefixes([*gone, prefix_of("never there")])
            left = await self.rows(provider)
            assert {stored_prefix(key) for slot, key in left if slot < 2} == {prefix_of(name) for name in (None, *NAMES)} - set(gone)
            assert len(left) == 4 * 256 * (len(NAMES) + 1) - 2 * 256 * len(gone)
            if isinstance(other, LookupStore):
                assert {each for each in other.prefixes() if each is not None} == set(map(prefix_of, NAMES))
                found = list(other.scan_prefix(prefix_of("a")))
                assert sorted(row[:2] for row in found) == [(slot, prefix_of("a") + key) for slot in (2, 3) for key in keys]
                assert not list(store.scan_prefix(prefix_of("a")))

    @needs_rows
    @needs_inventory
    async def test_an_inventory_shows_the_keys_of_namespaces(self: Any, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            keys = [(slot, prefix_of(name) + b"key") for slot in range(4) for name in (None, 7, "a")]
            await (await self.task(provider)).fold(chunks([Row(slot, key, b"v") for slot, key in keys]), 0)
        async with self.inventory(tmp_path).look("suite") as stored:
            found = [row[:2] async for rows in stored.namespace_rows("count") for row in rows]
            assert sorted(found) == sorted(place for place in keys if stored_prefix(place[1]))
            assert await stored.present("count", keys) == len(keys)
            assert (await stored.row_sizes("count"))[0] == len(keys)
            assert len([row async for rows in stored.rows("count") for row in rows]) == len(keys)


async def _rows(store: TaskStore) -> list[Row]:
    if isinstance(store, LookupStore):
        return list(store.scan())
    return [row async for rows in store.load() for row in rows]


async def _prefixes(suite: Any, provider: Any) -> list[bytes]:
    """Return the prefix of each stored key."""
    return sorted(stored_prefix(key) for _, key in await suite.rows(provider, slots=range(GROUPS)))
