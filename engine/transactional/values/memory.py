"""Values in memory. They live as long as their MemoryValues. For tests and first runs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values.fence import Fence, Writer, may_write
from engine.transactional.values.row_codecs import MemoryCodec
from engine.transactional.values.store import Changes, Found, Raw, ValueStore, in_order


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


class MemoryStore(ValueStore):
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

    async def undo(self, seen: Fence, attempt: TransactionAttempt, writer: Writer) -> None:
        table = self._table
        if table.fence != seen:
            return
        for key in table.written:
            row = table.rows[key]
            if row.previous is None:
                del table.rows[key]
            else:
                table.rows[key] = StoredRow(attempt.txid - 1, row.previous, row.previous)
        table.written = set()
        table.fence = replace(seen, attempt=attempt, component=writer.component)

    async def write(self, seen: Fence, attempt: TransactionAttempt, changes: Changes, writer: Writer) -> bool:
        table = self._table
        fence = table.fence
        if fence is None or not may_write(fence, seen, attempt, writer):
            return False
        if fence.attempt.txid != attempt.txid:
            table.written = set()
        table.fence = replace(fence, attempt=attempt, component=writer.component)
        txid = attempt.txid
        table.rows.update({key: StoredRow(txid, value, old) for key, value, old in zip(*changes, strict=True)})
        table.written.update(changes.keys)
        return True

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        yield [(key, row.value) for key, row in self._table.rows.items()]
        await asyncio.sleep(0)

    async def close(self) -> None:
        return None
