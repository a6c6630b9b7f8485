"""The last part of `StateProviderSuite`: what a provider's inventory must do, asked where there is one."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from engine.errors import StateError
from engine.state import Row, StagedDelta, StateInventory, StoredTopology, TaskDelta
from engine.testing.state_store_suite import TOPOLOGY, StateStoreSuite, Test, blobs, chunks, of_durable_ones, on_a_loop, with_rows

MANY_ROWS = 25_000
OTHER = "another: topology/ü"


def with_inventory(test: Callable[[Any, Path], Coroutine[Any, Any, None]]) -> Test:
    """Run a test on a loop; skip it where the provider offers no inventory."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        try:
            self.provider(tmp_path).inventory()
        except StateError as error:
            from unittest import SkipTest

            raise SkipTest(f"this provider offers no inventory: {error.message}") from None
        on_a_loop(test)(self, tmp_path)

    return of_durable_ones(run)


async def rows_in(stored: StoredTopology, component_id: str = "count") -> dict[tuple[int, bytes], bytes | None]:
    """All rows of a component; each must come once."""
    found = [row for rows in [each async for each in stored.rows(component_id)] for row in rows]
    rows = {(row.slot, row.key): row.value for row in found}
    assert len(rows) == len(found), "a row came twice"
    return rows


async def removed(steps: AsyncIterator[int]) -> int:
    """How many rows a removal took away."""
    return sum([rows async for rows in steps])


class StateInventorySuite(StateStoreSuite):
    """The tests of looking and removing."""

    def inventory(self, folder: Path) -> StateInventory:
        """What tools see: that of a provider which nobody has opened."""
        return self.provider(folder).inventory()

    async def filled(self, folder: Path, topology: str = TOPOLOGY) -> None:
        """A ledger; where the provider has them, rows and two tasks' deltas."""
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

    @with_inventory
    async def test_an_inventory_names_all_topologies(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        await self.filled(tmp_path, OTHER)
        assert await self.inventory(tmp_path).topologies() == sorted([TOPOLOGY, OTHER])

    @with_inventory
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

    @with_rows
    @with_inventory
    async def test_an_inventory_shows_what_is_stored(self, tmp_path: Path) -> None:
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

    @with_inventory
    async def test_an_inventory_of_what_is_not_there(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        async with self.inventory(tmp_path).look("never there") as stored:
            assert await stored.components() == []
            assert await stored.entries("one") == {}
            assert await stored.row_sizes("count") == (0, 0)
            assert await rows_in(stored) == {}
            assert await stored.deltas("count") == []
            assert await stored.present("count", [(0, b"a")]) == 0
        assert await self.inventory(tmp_path).topologies() == [TOPOLOGY]

    @with_rows
    @with_inventory
    async def test_looking_takes_nothing_from_a_run(self, tmp_path: Path) -> None:
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

    @with_rows
    @with_inventory
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

    @with_rows
    @with_inventory
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

    @with_inventory
    async def test_a_topology_is_removed_and_begins_anew(self, tmp_path: Path) -> None:
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

    @with_rows
    @with_inventory
    async def test_a_removal_of_many_rows_goes_in_steps(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await provider.ledger("one").claim()
            store = await self.task(provider)
            await store.fold(chunks([Row(number % 4, b"%d" % number, b"v") for number in range(MANY_ROWS)]), 0)
            async for _ in provider.inventory().remove("count"):
                break  # as where the process dies
            assert await removed(provider.inventory().remove("count")) < MANY_ROWS
            assert await self.rows(provider) == {}

    @with_inventory
    async def test_who_has_not_opened_removes_nothing(self, tmp_path: Path) -> None:
        await self.filled(tmp_path)
        try:
            await removed(self.inventory(tmp_path).remove(None))
        except StateError:
            assert await self.inventory(tmp_path).topologies() == [TOPOLOGY]
            return
        raise AssertionError("StateError was not raised")
