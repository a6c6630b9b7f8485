"""State and maps of values in memory, for tests and first runs. `memory://` loses all data at the end of the run (CP-7)."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.errors import StateError
from engine.state.api import Ledger, ResidentStore, Row, StagedDelta, StateInventory, StateProvider
from engine.state.ledgers import Change, ValueLedger
from engine.state.row_codecs import MemoryCodec
from engine.state.values import AttemptId, Changes, Fence, Found, Raw, ValueStore, Writer, in_order, may_write


class MemoryStore(ResidentStore):
    """Stores nothing, because the state of the task holds all rows. The state of the task survives restarts of the instance."""

    drops_prefixes = True

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        return None

    async def load(self) -> AsyncIterator[list[Row]]:
        yield []

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        async for _ in blobs:  # consumed, so that a value that cannot be encoded fails as in other stores
            pass

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        return None

    async def deltas(self) -> list[StagedDelta]:
        return []

    async def drop(self, after_txid: int) -> None:
        return None


class MemoryLedger(ValueLedger):
    """A ledger in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._value: bytes | None = None

    async def change(self, change: Change) -> None:
        self._value = change(self._value)


class MemoryProvider(StateProvider):
    """The provider of `memory://`."""

    def __init__(self) -> None:
        self._ledgers: dict[str, MemoryLedger] = {}

    async def stand_by(self, topology_name: str, on_waiting: Callable[[str], None]) -> None:
        raise StateError(
            "memory:// cannot stand by: its state exists in one process only",
            hint="Choose a shared store, for example sqlite:///counts.db.",
        )

    async def open(self, topology_name: str) -> None:
        return None

    async def close(self) -> None:
        return None

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, MemoryLedger())

    async def store(self, component_id: str, task_index: int, slots: range) -> MemoryStore:
        return MemoryStore()

    def inventory(self) -> StateInventory:
        raise StateError("memory:// stores nothing that a tool could read", hint="Choose a durable store, for example sqlite:///counts.db.")


class StoredRow(NamedTuple):
    """The stored row of one key."""

    txid: int
    value: Raw
    previous: Raw


class MemoryTable:
    """The content of a map."""

    def __init__(self) -> None:
        self.fence: Fence | None = None
        self.rows: dict[Raw, StoredRow] = {}
        self.written: set[Raw] = set()
        """Keys written by the newest attempt."""


class MemoryValueStore(ValueStore):
    """A map in memory, opened by a task."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self.row_codec = MemoryCodec()

    async def fence(self) -> Fence | None:
        return self._table.fence

    async def create(self, writer: Writer) -> None:
        if self._table.fence is None:
            self._table.fence = Fence(writer.kind, writer.topology)

    async def look(self, keys: Sequence[Raw]) -> Found:
        rows = self._table.rows
        found = [(key, *rows[key]) for key in keys if key in rows]
        return in_order(self._table.fence, keys, list(zip(*found, strict=True)) or [[], [], [], []])

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        table = self._table
        if table.fence != seen:
            return
        for key in table.written:
            row = table.rows[key]
            if row.previous is None:
                del table.rows[key]
            else:
                table.rows[key] = StoredRow(attempt[0] - 1, row.previous, row.previous)
        table.written = set()
        table.fence = replace(seen, attempt=attempt, component=writer.component)

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        table = self._table
        fence = table.fence
        if fence is None or not may_write(fence, seen, attempt, writer):
            return False
        if fence.txid != attempt[0]:
            table.written = set()
        table.fence = replace(fence, attempt=attempt, component=writer.component)
        table.rows.update({key: StoredRow(attempt[0], value, old) for key, value, old in zip(*changes[:3], strict=True)})
        for key in changes.deleted:
            table.rows.pop(key, None)
        table.written.update(changes.keys)
        return True

    async def forget(self) -> bool:
        table = self._table
        if table.fence is not None and not table.rows:
            table.fence, table.written = Fence(table.fence.kind, table.fence.topology), set()
        return not table.rows

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        yield [(key, row.value) for key, row in self._table.rows.items()]
        await asyncio.sleep(0)

    async def close(self) -> None:
        return None
