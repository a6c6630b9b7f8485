"""A store in a dict whose calls take many turns of the loop. It fails on demand, and outlives its task."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator, MutableMapping
from typing import TypeAlias

from engine.errors import StateUnavailable
from engine.state import Ledger, LookupStore, ResidentStore, Row, StagedDelta, StateProvider, TaskStore
from engine.state.api import StagingStore


class SlowStore(StagingStore):
    """Its data is in `rows` and `staged`. The next `failures` steps raise StateUnavailable."""

    def __init__(self) -> None:
        self.rows: MutableMapping[tuple[int, bytes], bytes] = {}
        self.staged: dict[tuple[int, int], tuple[bytes, ...]] = {}
        self.failures = 0
        self.folded_upto = -1
        self.reads = 0
        self.writing = 0
        self.most_writing = 0

    async def _step(self) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StateUnavailable("the slow store is unavailable")

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        self.writing += 1
        self.most_writing = max(self.most_writing, self.writing)
        try:
            parts = []
            async for blob in blobs:
                parts.append(blob)
                await self._step()
            if txid > self.folded_upto:
                self.staged[txid, round_] = tuple(parts)
            await self._step()
        finally:
            self.writing -= 1

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        async for chunk in rows:
            for slot, key, value in chunk:
                if value is None:
                    self.rows.pop((slot, key), None)
                else:
                    self.rows[slot, key] = value
                await self._step()
        await self._step()
        self.folded_upto = max(self.folded_upto, upto_txid)
        self.staged = {name: blobs for name, blobs in self.staged.items() if name[0] > upto_txid}

    async def deltas(self) -> list[StagedDelta]:
        return [StagedDelta(*name, blobs) for name, blobs in sorted(self.staged.items())]

    async def drop(self, after_txid: int) -> None:
        self.staged = {name: blobs for name, blobs in self.staged.items() if name[0] <= after_txid}


class SlowLookupStore(SlowStore, LookupStore):
    """Answers reads at once."""

    def read(self, slot: int, key: bytes) -> bytes | None:
        self.reads += 1
        return self.rows.get((slot, key))

    def scan(self) -> Iterator[Row]:
        last: tuple[int, bytes] = (-1, b"")
        while later := [place for place in self.rows if place > last]:
            last = min(later)
            yield Row(*last, self.rows[last])


class SlowResidentStore(SlowStore, ResidentStore):
    """Is loaded row by row."""

    async def load(self) -> AsyncIterator[list[Row]]:
        for slot, key in list(self.rows):
            yield [Row(slot, key, self.rows[slot, key])]
            await asyncio.sleep(0)


AnySlowStore: TypeAlias = SlowLookupStore | SlowResidentStore


class SlowProvider(StateProvider):
    """Returns one store for all tasks."""

    def __init__(self, store: AnySlowStore) -> None:
        self._store = store

    async def open(self, topology_name: str) -> None:
        return None

    async def close(self) -> None:
        return None

    def ledger(self, name: str) -> Ledger:
        raise AssertionError("a test of stores opens no ledger")

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        return self._store
