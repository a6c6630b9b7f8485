"""What every `StateProvider` must do, as tests: derive a class and pytest runs them against yours.

    class TestMine(StateProviderSuite):
        def provider(self, folder):
            return MyProvider(folder / "state")

Each call of `provider(folder)` gives a new, unopened provider; with the same folder, one that finds what another has left there. A store
on a server takes the folder's name as the name of what it keeps. `durable = False` where nothing outlives the provider; then what a
store must keep is not asked of it; nor is what tools see, where it offers no `inventory()`. `keeps_rows = False` where it keeps ledgers
alone, so is no place for stateful bolts. It needs pytest to run, and imports nothing of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from engine.errors import StateError, StateFenced
from engine.state import KeyValueState, LayeredState, Row, StatePlace, StateProvider, codec_named, fold_what_counts
from engine.testing.state_inventory_suite import StateInventorySuite
from engine.testing.state_store_suite import TOPOLOGY, blobs, chunks, of_durable_ones, on_a_loop, raised, with_rows

MANY_KEYS: Final = 100_000
COUNTS: Final[Callable[[int, int], bool]] = lambda txid, round_: True  # noqa: E731


class StateProviderSuite(StateInventorySuite):
    """The tests. Their names say what they prove; `docs/TESTING.md` says how to run them."""

    # Ledgers

    @on_a_loop
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

    @of_durable_ones
    @on_a_loop
    async def test_a_ledger_is_there_after_a_reopen(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            first = await provider.ledger("one").claim()
            await provider.ledger("one").write({"txid": 7})
        async with self.opened(tmp_path, "another topology") as provider:
            assert await provider.ledger("one").read() == {}
        async with self.opened(tmp_path) as provider:
            assert await provider.ledger("one").read() == {"txid": 7}
            assert await provider.ledger("one").claim() > first

    @on_a_loop
    async def test_who_has_not_claimed_writes_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await raised(StateFenced, provider.ledger("one").write({"a": 1}))
            assert await provider.ledger("one").read() == {}

    @on_a_loop
    async def test_a_write_that_cannot_be_kept_changes_nothing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            ledger = provider.ledger("one")
            await ledger.claim()
            await ledger.write({"a": 1, "b": 2})
            try:
                await ledger.write({"a": 5, "b": None, "c": object()})
            except StateError:
                assert await ledger.read() == {"a": 1, "b": 2}

    @of_durable_ones
    @on_a_loop
    async def test_of_two_processes_one_is_refused_or_fenced(self, tmp_path: Path) -> None:
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
                await raised(StateFenced, ledger.write({"by": "the fenced one"}))
                assert await second.ledger("one").read() == {"by": "first"}
                await second.ledger("one").write({"by": "second"})
                assert await ledger.read() == {"by": "second"}
            finally:
                await second.close()

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_who_is_overtaken_stages_and_folds_no_more(self, tmp_path: Path) -> None:
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
                await raised(StateFenced, store.fold(chunks([Row(0, b"a", b"the fenced one")]), 0))
                await raised(StateFenced, store.stage(7, 7, blobs(b"the fenced one")))
                await raised(StateFenced, store.drop(-1))
                assert await self.rows(second) == {(0, b"a"): b"second"}
            finally:
                await second.close()

    # A state on top

    async def state(self, provider: StateProvider, index: int = 0, tasks: int = 1, committed_txid: int = -1) -> LayeredState[Any, Any]:
        """The state of a task that takes up what it staged before."""
        codec = codec_named("msgpack")
        place = StatePlace("count", index, tasks, True, 16)
        state: LayeredState[Any, Any] = LayeredState(await provider.store("count", index, place.slots), codec, place, cache_keys=1000)
        await state.load(committed_txid, COUNTS)
        return state

    @with_rows
    @on_a_loop
    async def test_a_state_has_what_was_committed(self, tmp_path: Path) -> None:
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

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_state_that_was_killed_is_as_of_the_last_commit(self, tmp_path: Path) -> None:
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

    @with_rows
    @of_durable_ones
    @on_a_loop
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

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_keys_move_with_their_slots_where_the_parallelism_changes(self, tmp_path: Path) -> None:
        place = StatePlace("count", 0, 1, True, 16)
        expected = {number: str(number) for number in range(500)}
        before = 1
        for committed, tasks in enumerate((2, 3, 8, 1)):
            async with self.opened(tmp_path) as provider:
                for index in range(before):  # as a start does: in the layout that wrote it
                    written_by = StatePlace("count", index, before, True, 16)
                    await fold_what_counts(provider, codec_named("msgpack"), written_by, COUNTS, committed - 1)
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


async def checkpoint(state: KeyValueState[Any, Any], txid: int) -> None:
    """Prepare and commit."""
    await state.prepare_commit(txid)
    await state.commit(txid)
