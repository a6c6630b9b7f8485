"""The first half of `StateProviderSuite`: what a `TaskStore` must do, and what the tests stand on."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from engine.state import LookupStore, Row, StateProvider, TaskStore

Test = Callable[[Any, Path], None]
Rows = dict[tuple[int, bytes], bytes]

TOPOLOGY: Final = "suite"
SLOTS: Final = range(4)


def on_a_loop(test: Callable[[Any, Path], Coroutine[Any, Any, None]]) -> Test:
    """Make a plain test of one that is a coroutine."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        asyncio.run(test(self, tmp_path))

    return run


def of_durable_ones(test: Test) -> Test:
    """Skip a test where the provider keeps nothing."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        if not self.durable:
            from unittest import SkipTest

            raise SkipTest("this provider says that nothing outlives it (durable = False)")
        test(self, tmp_path)

    return run


def with_rows(test: Test) -> Test:
    """Skip a test of rows and deltas where the provider keeps ledgers alone."""

    @functools.wraps(test)
    def run(self: Any, tmp_path: Path) -> None:
        if not self.keeps_rows:
            from unittest import SkipTest

            raise SkipTest("this provider says that it keeps ledgers alone (keeps_rows = False)")
        test(self, tmp_path)

    return run


async def blobs(*parts: bytes) -> AsyncIterator[bytes]:
    """The blobs of a delta."""
    for part in parts:
        yield part


async def chunks(rows: Iterable[Row], *, breaks_after: int | None = None) -> AsyncIterator[list[Row]]:
    """Rows in chunks of a hundred; with `breaks_after`, InjectedBreak behind so many chunks, as where the process dies."""
    listed = list(rows)
    for number, first in enumerate(range(0, len(listed), 100)):
        if number == breaks_after:
            raise InjectedBreak
        yield listed[first : first + 100]


class InjectedBreak(Exception):
    """Ends a fold in its middle."""


async def raised(kind: type[BaseException], work: Awaitable[object]) -> None:
    """Assert that work raises an error of this kind."""
    try:
        await work
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


class StateStoreSuite:
    """The tests of staging and folding."""

    durable: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = True

    def provider(self, folder: Path) -> StateProvider:
        """Return a new provider whose state is, or will be, in this folder."""
        raise NotImplementedError("override provider(): return a new provider of yours, whose state is in that folder")

    @asynccontextmanager
    async def opened(self, folder: Path, topology: str = TOPOLOGY) -> AsyncIterator[StateProvider]:
        """A provider from open to close."""
        provider = self.provider(folder)
        await provider.open(topology)
        try:
            yield provider
        finally:
            await provider.close()

    async def rows(self, provider: StateProvider, component: str = "count", index: int = 0, slots: range = SLOTS) -> Rows:
        """All rows that a task finds; each must come once."""
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
        """The store of one of `tasks` tasks that share SLOTS."""
        return await provider.store(component, index, self.slots(index, tasks))

    @staticmethod
    def slots(index: int, tasks: int) -> range:
        """The slots of one of `tasks` tasks."""
        return range(index * len(SLOTS) // tasks, (index + 1) * len(SLOTS) // tasks)

    # Staging

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_staged_delta_is_there_after_a_reopen(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).stage(0, 1, blobs(b"first", b"\x00\xff", b""))
        async with self.opened(tmp_path) as provider:
            [delta] = await (await self.task(provider)).deltas()
        assert (delta.txid, delta.round, delta.blobs) == (0, 1, (b"first", b"\x00\xff", b""))

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_staging_again_replaces(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.stage(0, 1, blobs(b"a", b"b", b"c"))
            await store.stage(0, 1, blobs(b"d"))
            [delta] = await store.deltas()
        assert delta.blobs == (b"d",)

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_deltas_come_by_txid_and_round(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            for txid, round_ in ((10, 12), (2, 11), (2, 9), (0, 100)):
                await store.stage(txid, round_, blobs(b"%d" % round_))
            deltas = await store.deltas()
        assert [(delta.txid, delta.round) for delta in deltas] == [(0, 100), (2, 9), (2, 11), (10, 12)]

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_stage_that_breaks_off_replaces_nothing(self, tmp_path: Path) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield b"half"
            raise InjectedBreak

        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.stage(0, 1, blobs(b"whole", b"delta"))
            await raised(InjectedBreak, store.stage(0, 1, broken()))
            await raised(InjectedBreak, store.stage(0, 2, broken()))
            deltas = await store.deltas()
        assert [delta.blobs for delta in deltas if delta.round == 1] in ([(b"whole", b"delta")], [])
        assert not [delta for delta in deltas if delta.round == 2], "a part of a delta is no delta"

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_drop_takes_later_txids_alone(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            for txid in (1, 2, 3):
                await store.stage(txid, txid, blobs(b"x"))
            await store.drop(1)
            await store.drop(1)
            assert [delta.txid for delta in await store.deltas()] == [1]

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_deltas_of_tasks_components_and_topologies_are_apart(self, tmp_path: Path) -> None:
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

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_folded_rows_replace_and_delete(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks([Row(0, b"a", b"1"), Row(0, b"b", b""), Row(3, b"a", b"3")]), 0)
            await store.fold(chunks([Row(0, b"a", b"2"), Row(3, b"a", None), Row(1, b"never there", None)]), 1)
            assert await self.rows(provider) == {(0, b"a"): b"2", (0, b"b"): b""}
        async with self.opened(tmp_path) as provider:
            assert await self.rows(provider) == {(0, b"a"): b"2", (0, b"b"): b""}

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_fold_drops_the_deltas_that_it_stands_for(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store, other = await self.task(provider, 0, 2), await self.task(provider, 1, 2)
            for txid in (0, 1, 2):
                await store.stage(txid, txid, blobs(b"x"))
                await other.stage(txid, txid, blobs(b"x"))
            await store.fold(chunks([]), 1)
            assert [delta.txid for delta in await store.deltas()] == [2]
            assert [delta.txid for delta in await other.deltas()] == [0, 1, 2]

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_fold_that_breaks_off_is_done_again(self, tmp_path: Path) -> None:
        rows = [Row(number % 4, b"key %d" % number, b"%d" % number if number % 3 else None) for number in range(10_000)]
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks(Row(row.slot, row.key, b"old") for row in rows), -1)
            await store.stage(0, 1, blobs(b"delta"))
            for breaks_after in (0, 1, 55, 99):
                await raised(InjectedBreak, store.fold(chunks(rows, breaks_after=breaks_after), 0))
                assert len(await store.deltas()) == 1, "the deltas go last"
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).fold(chunks(rows), 0)
            await (await self.task(provider)).fold(chunks(rows), 0)
            assert await self.rows(provider) == {(row.slot, row.key): row.value for row in rows if row.value is not None}
            assert await (await self.task(provider)).deltas() == []

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_delta_that_comes_after_its_fold_is_let_go_of(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as provider:
            store = await self.task(provider)
            await store.fold(chunks([Row(0, b"a", b"newer")]), 5)
            await store.stage(5, 6, blobs(b"late"))
            assert await store.deltas() == []
            await store.stage(6, 7, blobs(b"in time"))
            assert len(await store.deltas()) == 1

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_a_task_finds_the_rows_of_its_slots_alone(self, tmp_path: Path) -> None:
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

    @with_rows
    @of_durable_ones
    @on_a_loop
    async def test_keys_and_values_are_any_bytes(self, tmp_path: Path) -> None:
        odd = [bytes([byte]) for byte in range(256)] + [b"\x00" * 40, b"a" * 5000, b"a\x00b", b"a"]
        rows = [Row(1, key, key * 3) for key in odd]
        async with self.opened(tmp_path) as provider:
            await (await self.task(provider)).fold(chunks(rows), 0)
            assert await self.rows(provider) == {(row.slot, row.key): row.value for row in rows}
