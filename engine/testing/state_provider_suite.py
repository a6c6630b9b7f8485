"""Tests that every `StateProvider` must pass. Derive a class, and pytest runs these tests against your provider.

    class TestMine(StateProviderSuite):
        def provider(self, folder):
            return MyProvider(folder / "state")

`provider(folder)` returns a new provider that is not opened. With the same folder, a new provider finds the data of the previous one. A
store on a server uses the folder's name as a name for its data. Three class attributes declare missing capabilities, and leave out their
tests:
- `durable = False`: nothing outlives the provider.
- `keeps_rows = False`: the provider keeps only ledgers, so stateful bolts cannot use it.
- `has_inventory = False`: the provider has no `inventory()`, so tools cannot look at its state. Without this declaration they are skipped.

The suite needs pytest to run, but does not import it, so that `engine.testing` works without it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from engine.errors import StateError, StateFenced
from engine.state import (
    LayeredState,
    LookupStore,
    Row,
    StagedDelta,
    StateInventory,
    StatePlace,
    StateProvider,
    TaskDelta,
    TaskStore,
    codec_named,
    fold_committed,
)
from engine.testing.state_namespace_cases import NamespaceCases
from engine.testing.state_provider_cases import (
    COUNTS,
    MANY_KEYS,
    MANY_ROWS,
    OTHER,
    SLOTS,
    TOPOLOGY,
    InjectedBreak,
    Rows,
    assert_raises,
    async_test,
    blobs,
    checkpoint,
    chunks,
    needs_durable,
    needs_inventory,
    needs_of,
    needs_rows,
    removed,
    rows_in,
)


class StateProviderSuite(NamespaceCases):
    """Tests that every state provider must pass. docs/TESTING.md explains how to run them."""

    durable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True
    has_inventory: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Leave out the tests of capabilities that the class declares missing. pytest collects no attribute that is None."""
        super().__init_subclass__()
        for name, test in [*vars(NamespaceCases).items(), *vars(StateProviderSuite).items()]:
            if not all(getattr(cls, attribute) for attribute in needs_of(test)):
                setattr(cls, name, None)

    def provider(self, folder: Path) -> StateProvider:
        """Return a new provider that stores its state in this folder. Subclasses must override this."""
        raise NotImplementedError("override provider(): return a new provider that keeps its state in that folder")

    @asynccontextmanager
    async def opened(self, folder: Path, topology: str = TOPOLOGY) -> AsyncIterator[StateProvider]:
        """Open a provider for the block."""
        provider = self.provider(folder)
        await provider.open(topology)
        try:
            yield provider
        finally:
            await provider.close()

    async def rows(self, provider: StateProvider, component: str = "count", index: int = 0, slots: range = SLOTS) -> Rows:
        """Return all rows that a task finds, and check that none comes twice."""
        store = await provider.store(component, index, slots)
        if isinstance(store, LookupStore):
            found = list(store.scan())
        else:
            found = [row for chunk in [each async for each in store.load()] for row in chunk]
        rows = {(row.slot, row.key): row.value for row in found}
        assert len(rows) == len(found), "a row came twice"
        if isinstance(store, LookupStore):
            for (slot, key), value in rows.items():
                assert store.read(slot, key) == value
        return {place: value for place, value in rows.items() if value is not None}

    async def task(self, provider: StateProvider, index: int = 0, tasks: int = 1, component: str = "count") -> TaskStore:
        """Return the store of one of `tasks` tasks that share SLOTS."""
        return await provider.store(component, index, self.slots(index, tasks))

    @staticmethod
    def slots(index: int, tasks: int) -> range:
        """Return the slots of one of `tasks` tasks."""
        return range(index * len(SLOTS) // tasks, (index + 1) * len(SLOTS) // tasks)

    # Staging

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_staged_delta_survives_a_reopen(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).stage(0, 1, blobs(b"first", b"\x00\xff", b""))
        async with self.opened(tmp_path) as provider:
            [delta] = await (await self.task(provider)).deltas()
        assert (delta.txid, delta.round, delta.blobs) == (0, 1, (b"first", b"\x00\xff", b""))

    @needs_rows
    @needs_durable
    @async_test
    async def test_staging_again_replaces(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.stage(0, 1, blobs(b"a", b"b", b"c"))
            await store.stage(0, 1, blobs(b"d"))
            [delta] = await store.deltas()
        assert delta.blobs == (b"d",)

    @needs_rows
    @needs_durable
    @async_test
    async def test_deltas_come_by_txid_and_round(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            for txid, round_ in ((10, 12), (2, 11), (2, 9), (0, 100)):
                await store.stage(txid, round_, blobs(b"%d" % round_))
            deltas = await store.deltas()
        assert [(delta.txid, delta.round) for delta in deltas] == [(0, 100), (2, 9), (2, 11), (10, 12)]

    @needs_rows
    @needs_durable
    @async_test
    async def test_an_interrupted_stage_replaces_nothing(self, tmp_path: Path) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield b"half"
            raise InjectedBreak

        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.stage(0, 1, blobs(b"whole", b"delta"))
            await assert_raises(InjectedBreak, store.stage(0, 1, broken()))
            await assert_raises(InjectedBreak, store.stage(0, 2, broken()))
            deltas = await store.deltas()
        assert [delta.blobs for delta in deltas if delta.round == 1] in ([(b"whole", b"delta")], [])
        assert not [delta for delta in deltas if delta.round == 2], "a part of a delta is no delta"

    @needs_rows
    @needs_durable
    @async_test
    async def test_drop_removes_only_later_txids(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            for txid in (1, 2, 3):
                await store.stage(txid, txid, blobs(b"x"))
            await store.drop(1)
            await store.drop(1)
            assert [delta.txid for delta in await store.deltas()] == [1]

    @needs_rows
    @needs_durable
    @async_test
    async def test_deltas_of_tasks_components_and_topologies_are_separate(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path, "one") as provider:
            for component, index in (("count", 0), ("count", 1), ("count-0", 1), ("count:0", 0)):
                await (await self.task(provider, index, 2, component)).stage(0, 1, blobs(f"{component} {index}".encode()))
        async with self.opened(tmp_path, "two") as provider:
            assert await (await self.task(provider, 0, 2)).deltas() == []
            await (await self.task(provider, 0, 2)).stage(0, 1, blobs(b"two"))
            await (await self.task(provider, 0, 2)).drop(-1)
        async with self.opened(tmp_path, "one") as provider:
            for component, index in (("count", 0), ("count", 1), ("count-0", 1), ("count:0", 0)):
                [delta] = await (await self.task(provider, index, 2, component)).deltas()
                assert delta.blobs == (f"{component} {index}".encode(),)

    # Folding

    @needs_rows
    @needs_durable
    @async_test
    async def test_folded_rows_replace_and_delete(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks([Row(0, b"a", b"1"), Row(0, b"b", b""), Row(3, b"a", b"3")]), 0)
            await store.fold(chunks([Row(0, b"a", b"2"), Row(3, b"a", None), Row(1, b"never there", None)]), 1)
            assert await self.rows(provider) == {(0, b"a"): b"2", (0, b"b"): b""}
        async with self.opened(tmp_path) as provider:
            assert await self.rows(provider) == {(0, b"a"): b"2", (0, b"b"): b""}

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_fold_drops_the_deltas_that_it_contains(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store, other = await self.task(provider, 0, 2), await self.task(provider, 1, 2)
            for txid in (0, 1, 2):
                await store.stage(txid, txid, blobs(b"x"))
                await other.stage(txid, txid, blobs(b"x"))
            await store.fold(chunks([]), 1)
            assert [delta.txid for delta in await store.deltas()] == [2]
            assert [delta.txid for delta in await other.deltas()] == [0, 1, 2]

    @needs_rows
    @needs_durable
    @async_test
    async def test_an_interrupted_fold_can_be_repeated(self, tmp_path: Path) -> None:
        rows = [Row(number % 4, b"key %d" % number, b"%d" % number if number % 3 else None) for number in range(10_000)]
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks(Row(row.slot, row.key, b"old") for row in rows), -1)
            await store.stage(0, 1, blobs(b"delta"))
            for breaks_after in (0, 1, 55, 99):
                await assert_raises(InjectedBreak, store.fold(chunks(rows, breaks_after=breaks_after), 0))
                assert len(await store.deltas()) == 1, "the deltas must be removed last"
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).fold(chunks(rows), 0)
            await (await self.task(provider)).fold(chunks(rows), 0)
            assert await self.rows(provider) == {(row.slot, row.key): row.value for row in rows if row.value is not None}
            assert await (await self.task(provider)).deltas() == []

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_delta_staged_after_its_fold_is_dropped(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks([Row(0, b"a", b"newer")]), 5)
            await store.stage(5, 6, blobs(b"late"))
            assert await store.deltas() == []
            await store.stage(6, 7, blobs(b"in time"))
            assert len(await store.deltas()) == 1

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_task_finds_only_the_rows_of_its_slots(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            for index in range(2):
                store = await self.task(provider, index, 2)
                await store.fold(chunks([Row(slot, b"key", b"%d" % slot) for slot in self.slots(index, 2)]), 0)
            await (await self.task(provider, 0, 1, "other")).fold(chunks([Row(1, b"key", b"other")]), 0)
            for tasks in (1, 2, 3, 4):
                for index in range(tasks):
                    slots = self.slots(index, tasks)
                    assert await self.rows(provider, index=index, slots=slots) == {(slot, b"key"): b"%d" % slot for slot in slots}
            assert await self.rows(provider, "other") == {(1, b"key"): b"other"}
            assert await self.rows(provider, slots=range(2, 2)) == {}
        async with self.opened(tmp_path, "another topology") as provider:
            assert await self.rows(provider) == {}

    @needs_rows
    @needs_durable
    @async_test
    async def test_keys_and_values_are_any_bytes(self, tmp_path: Path) -> None:
        odd = [bytes([byte]) for byte in range(256)] + [b"\x00" * 40, b"a" * 5000, b"a\x00b", b"a"]
        rows = [Row(1, key, key * 3) for key in odd]
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).fold(chunks(rows), 0)
            assert await self.rows(provider) == {(row.slot, row.key): row.value for row in rows}

    # Ledgers

    @async_test
    async def test_a_ledger_sets_and_removes_entries(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            ledger = provider.ledger("one")
            assert await ledger.read() == {}
            await ledger.claim()
            await ledger.write({"a": 1, "b": ["x", 2.5, True, {"deep": [b"\x00"]}], "c": 2**63})
            await ledger.write({"a": None, "d": "", "never there": None})
            assert await ledger.read() == {"b": ["x", 2.5, True, {"deep": [b"\x00"]}], "c": 2**63, "d": ""}
            assert provider.ledger("one") is ledger
            assert await provider.ledger("two").read() == {}

    @needs_durable
    @async_test
    async def test_a_ledger_survives_a_reopen(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            first = await provider.ledger("one").claim()
            await provider.ledger("one").write({"txid": 7})
        async with self.opened(tmp_path, "another topology") as provider:
            assert await provider.ledger("one").read() == {}
        async with self.opened(tmp_path) as provider:
            assert await provider.ledger("one").read() == {"txid": 7}
            assert await provider.ledger("one").claim() > first

    @async_test
    async def test_a_write_without_a_claim_is_fenced(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await assert_raises(StateFenced, provider.ledger("one").write({"a": 1}))
            assert await provider.ledger("one").read() == {}

    @async_test
    async def test_a_refused_write_changes_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            ledger = provider.ledger("one")
            await ledger.claim()
            await ledger.write({"a": 1, "b": 2})
            try:
                await ledger.write({"a": 5, "b": None, "c": object()})
            except StateError:
                assert await ledger.read() == {"a": 1, "b": 2}

    @needs_durable
    @async_test
    async def test_a_second_process_is_refused_or_fences_the_first(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as first:
            ledger = first.ledger("one")
            epoch = await ledger.claim()
            await ledger.write({"by": "first"})
            second = self.provider(tmp_path)
            try:
                await second.open(TOPOLOGY)
            except StateError:
                await second.close()
                await ledger.write({"by": "first again"})
                return
            try:
                assert await second.ledger("one").claim() > epoch
                await assert_raises(StateFenced, ledger.write({"by": "the fenced one"}))
                assert await second.ledger("one").read() == {"by": "first"}
                await second.ledger("one").write({"by": "second"})
                assert await ledger.read() == {"by": "second"}
            finally:
                await second.close()

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_fenced_process_can_neither_stage_nor_fold(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as first:
            store = await self.task(first)
            await first.ledger("one").claim()
            await store.fold(chunks([Row(0, b"a", b"first")]), 0)
            second = self.provider(tmp_path)
            try:
                await second.open(TOPOLOGY)
            except StateError:
                await second.close()
                await store.fold(chunks([Row(0, b"a", b"first again")]), 1)
                return
            try:
                await second.ledger("one").claim()
                await (await self.task(second)).fold(chunks([Row(0, b"a", b"second")]), 1)
                await assert_raises(StateFenced, store.fold(chunks([Row(0, b"a", b"the fenced one")]), 0))
                await assert_raises(StateFenced, store.stage(7, 7, blobs(b"the fenced one")))
                await assert_raises(StateFenced, store.drop(-1))
                assert await self.rows(second) == {(0, b"a"): b"second"}
            finally:
                await second.close()

    # A state on top of the store

    async def state(self, provider: StateProvider, index: int = 0, tasks: int = 1, committed_txid: int = -1) -> LayeredState[Any, Any]:
        """Return the state of a task, loaded from its rows and committed deltas."""
        codec = codec_named("msgpack")
        place = StatePlace("count", index, tasks, True, 16)
        state: LayeredState[Any, Any] = LayeredState(await provider.store("count", index, place.slots), codec, place, cache_keys=1000)
        await state.load(committed_txid, COUNTS)
        return state

    @needs_rows
    @async_test
    async def test_a_state_has_the_committed_values(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            for txid in range(3):
                state.put("last", txid)
                state.put(("txid", txid), [txid])
                state.delete(("txid", txid - 1))
                await checkpoint(state, txid)
            state.put("last", "not committed")
            await state.rollback()
            assert dict(state.items()) == {"last": 2, ("txid", 2): [2]}
            await state.fold()
            assert dict(state.items()) == {"last": 2, ("txid", 2): [2]}
            assert (state.get("last"), state.get(("txid", 1), "gone")) == (2, "gone")

    @needs_rows
    @needs_durable
    @async_test
    async def test_a_killed_state_returns_to_the_last_commit(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            state.put("kept", 1)
            state.put("deleted", 1)
            state.put("back", 1)
            await checkpoint(state, 0)
            state.put("kept", 2)
            state.delete("deleted")
            state.delete("back")
            await checkpoint(state, 1)
            state.put("back", 2)
            await checkpoint(state, 2)
            state.put("kept", "prepared, never committed")
            await state.prepare_commit(3)
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider, committed_txid=2)
            assert dict(state.items()) == {"kept": 2, "back": 2}
            await state.close()
            assert dict(state.items()) == {"kept": 2, "back": 2}
            assert await (await provider.store("count", 0, range(16))).deltas() == []

    @needs_rows
    @needs_durable
    @async_test
    async def test_many_changed_keys_in_one_delta(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider)
            for number in range(MANY_KEYS):
                state.put(f"key {number}", number)
            await checkpoint(state, 0)
            for number in range(0, MANY_KEYS, 2):
                state.delete(f"key {number}")
            await checkpoint(state, 1)
        async with self.opened(tmp_path) as provider:
            state = await self.state(provider, committed_txid=1)
            found = dict(state.items())
            await state.close()
            assert dict(state.items()) == found
        assert found == {f"key {number}": number for number in range(1, MANY_KEYS, 2)}

    @needs_rows
    @needs_durable
    @async_test
    async def test_keys_move_with_their_slots_when_the_parallelism_changes(self, tmp_path: Path) -> None:
        place = StatePlace("count", 0, 1, True, 16)
        expected = {number: str(number) for number in range(500)}
        before = 1
        for committed, tasks in enumerate((2, 3, 8, 1)):
            async with self.opened(tmp_path) as provider:
                for index in range(before):  # a start folds first, in the layout that wrote the deltas
                    written_by = StatePlace("count", index, before, True, 16)
                    await fold_committed(provider, codec_named("msgpack"), written_by, COUNTS, committed - 1)
                states = [await self.state(provider, index, tasks, committed - 1) for index in range(tasks)]
                if committed:
                    found = [item for state in states for item in state.items()]
                    assert sorted(found) == sorted(expected.items())
                for number in expected:
                    expected[number] += f" {tasks}"
                    states[place.slot_of(number) * tasks // 16].put(number, expected[number])
                for state in states:
                    await checkpoint(state, committed)
            before = tasks

    # The inventory, for tools

    def inventory(self, folder: Path) -> StateInventory:
        """Return the inventory of a provider that nobody has opened."""
        return self.provider(folder).inventory()

    async def filled(self, folder: Path, topology: str = TOPOLOGY) -> None:
        """Store a ledger. If the provider stores rows, also store rows and deltas of two tasks."""
        async with self.opened(folder, topology) as provider:
            await provider.ledger("one").claim()
            await provider.ledger("one").write({"txid": 7, "of": topology})
            if not self.keeps_rows:
                return
            store = await self.task(provider)
            await store.fold(chunks([Row(0, b"a", b"1"), Row(3, b"b", b"22")]), 0)
            await store.stage(1, 4, blobs(b"x", b"yy"))
            await (await self.task(provider, 1, 2)).stage(1, 5, blobs(b"z"))
            await (await self.task(provider, component="other")).fold(chunks([Row(1, b"a", b"other")]), 0)

    @needs_inventory
    async def test_an_inventory_names_all_topologies(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        await self.filled(tmp_path, OTHER)
        assert await self.inventory(tmp_path).topologies() == sorted([TOPOLOGY, OTHER])

    @needs_inventory
    async def test_an_inventory_shows_ledgers(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        async with self.opened(tmp_path) as provider:
            ledger = provider.ledger("one")
            epoch = await ledger.claim()
            async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
                assert await stored.entries("one") == {"txid": 7, "of": TOPOLOGY}
                assert await stored.entries("never there") == {}
                assert (await stored.epoch("one"), await stored.epoch("never there")) in [(epoch, 0), (None, None)]
                assert await stored.holder() != ""
            await ledger.write({"txid": 8})
        async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
            assert await stored.entries("one") == {"txid": 8, "of": TOPOLOGY}
            assert await stored.holder() in ("", None)

    @needs_rows
    @needs_inventory
    async def test_an_inventory_shows_rows_and_deltas(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
            assert await stored.components() == ["count", "other"]
            assert await stored.entries("one") == {"txid": 7, "of": TOPOLOGY}
            assert await stored.entries("never there") == {}
            assert await stored.row_sizes("count") == (2, 5)
            assert await rows_in(stored) == {(0, b"a"): b"1", (3, b"b"): b"22"}
            assert await stored.deltas("count") == [
                TaskDelta(0, StagedDelta(1, 4, (b"x", b"yy"))),
                TaskDelta(1, StagedDelta(1, 5, (b"z",))),
            ]
            assert await stored.present("count", [(0, b"a"), (1, b"a"), (3, b"b"), (0, b"b")]) == 2
            assert await stored.version() == await stored.version()

    @needs_inventory
    async def test_the_inventory_of_an_unknown_topology_is_empty(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        async with self.inventory(tmp_path).look("never there") as stored:
            assert await stored.components() == []
            assert await stored.entries("one") == {}
            assert await stored.row_sizes("count") == (0, 0)
            assert await rows_in(stored) == {}
            assert await stored.deltas("count") == []
            assert await stored.present("count", [(0, b"a")]) == 0
        assert await self.inventory(tmp_path).topologies() == [TOPOLOGY]

    @needs_rows
    @needs_inventory
    async def test_looking_does_not_disturb_a_run(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            ledger, store = provider.ledger("one"), await self.task(provider)
            await ledger.claim()
            await ledger.write({"txid": 1})
            await store.fold(chunks([Row(0, b"a", b"1")]), 0)
            await store.stage(1, 1, blobs(b"x"))
            async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
                assert await stored.entries("one") == {"txid": 1}
                version = await stored.version()
                await ledger.write({"txid": 2})
                await store.stage(2, 2, blobs(b"y"))
                await store.fold(chunks([Row(0, b"a", b"2")]), 2)
                found = await rows_in(stored)
                assert found == {(0, b"a"): b"1"} or await stored.version() != version
            async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
                assert (await rows_in(stored), await stored.deltas("count")) == ({(0, b"a"): b"2"}, [])
            assert await ledger.read() == {"txid": 2}

    @needs_rows
    @needs_inventory
    async def test_many_rows_in_chunks(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            rows = [Row(number % 4, b"%d" % number, b"v%d" % number) for number in range(MANY_ROWS)]
            await (await self.task(provider)).fold(chunks(rows), 0)
        async with self.inventory(tmp_path).look(TOPOLOGY) as stored:
            count, size = await stored.row_sizes("count")
            assert (count, size) == (MANY_ROWS, sum(len(row.key) + len(row.value or b"") for row in rows))
            chunk_sizes = [len(chunk) async for chunk in stored.rows("count")]
            assert sum(chunk_sizes) == MANY_ROWS
            assert max(chunk_sizes) < MANY_ROWS / 4
            assert await rows_in(stored) == {row[:2]: row.value for row in rows}

    @needs_rows
    @needs_inventory
    async def test_a_component_is_removed(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        await self.filled(tmp_path, OTHER)
        async with self.opened(tmp_path) as provider:
            await provider.ledger("one").claim()
            assert await removed(provider.inventory().remove("count")) == 2
            assert await removed(provider.inventory().remove("count")) == 0
            assert await self.rows(provider) == {}
            assert await (await self.task(provider)).deltas() == []
            assert await self.rows(provider, "other") == {(1, b"a"): b"other"}
            assert await provider.ledger("one").read() == {"txid": 7, "of": TOPOLOGY}
        async with self.opened(tmp_path, OTHER) as provider:
            assert len(await self.rows(provider)) == 2

    @needs_inventory
    async def test_a_removed_topology_starts_empty(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        await self.filled(tmp_path, OTHER)
        async with self.opened(tmp_path) as provider:
            await provider.ledger("one").claim()
            assert await removed(provider.inventory().remove(None)) == (3 if self.keeps_rows else 0)
        assert await self.inventory(tmp_path).topologies() == [OTHER]
        async with self.opened(tmp_path) as provider:
            assert await provider.ledger("one").read() == {}
            await provider.ledger("one").claim()
            if not self.keeps_rows:
                return
            store = await self.task(provider)
            await store.stage(0, 1, blobs(b"new"))
            assert await store.deltas() == [StagedDelta(0, 1, (b"new",))]
        async with self.opened(tmp_path, OTHER) as provider:
            assert len(await self.rows(provider)) == 2

    @needs_rows
    @needs_inventory
    async def test_a_removal_of_many_rows_can_be_interrupted(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await provider.ledger("one").claim()
            store = await self.task(provider)
            await store.fold(chunks([Row(number % 4, b"%d" % number, b"v") for number in range(MANY_ROWS)]), 0)
            async for _ in provider.inventory().remove("count"):
                break  # as if the process died
            assert await removed(provider.inventory().remove("count")) < MANY_ROWS
            assert await self.rows(provider) == {}

    @needs_inventory
    async def test_an_inventory_of_a_closed_provider_removes_nothing(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        try:
            await removed(self.inventory(tmp_path).remove(None))
        except StateError:
            assert await self.inventory(tmp_path).topologies() == [TOPOLOGY]
            return
        raise AssertionError("StateError was not raised")
