"""Rows, deltas and ledgers in a SQLite file."""

import sqlite3
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from engine.errors import StateDamaged, StateFenced
from engine.state.api import Ledger, LookupStore, Row, StagedDelta, TaskDelta, row_of
from engine.state.checksums import strip_checksum
from engine.state.codec import MessagePack
from engine.state.ledgers import encode_entries
from engine.state.namespaces import FIRST_BYTE, end_of, stored_prefix
from engine.state.sqlite.file import RESTORE, SqliteFile
from engine.state.sqlite.tables import entry_sum, note_catalogue

ROWS_PER_READ: Final = 1000
ROWS_PER_FOLD: Final = 2000
ROWS_PER_STATEMENT: Final = 200
"""Rows in one statement. The writing thread takes the interpreter's lock once for each statement."""
ROWS_PER_DROP: Final = 5000
PLACES_PER_DROP: Final = 1000
"""Rows that a drop deletes in one transaction, and slots of namespaces that it looks at."""
_OF_PREFIX: Final = "rows WHERE component = ? AND slot = ? AND key >= ? AND key < ?"
_SOME_OF_PREFIX: Final = f"SELECT key, value FROM {_OF_PREFIX} ORDER BY key LIMIT ?"
_LAST_TO_DROP: Final = f"SELECT key FROM {_OF_PREFIX} ORDER BY key LIMIT 1 OFFSET ?"
_DROP_UPTO: Final = "DELETE FROM rows WHERE component = ? AND slot = ? AND key >= ? AND key <= ?"
_DROP_ALL: Final = f"DELETE FROM {_OF_PREFIX}"
_NEXT_KEY: Final = "SELECT key FROM rows WHERE component = ? AND slot = ? AND key >= ? ORDER BY key LIMIT 1"

# If a delta was staged again in fewer parts, old parts follow the new ones. The column `parts` of old parts has another number.
_STAGED: Final = """
SELECT delta.task, delta.txid, delta.round, delta.blob FROM deltas AS delta JOIN deltas AS first
    ON (first.component, first.task, first.txid, first.round, first.part) = (delta.component, delta.task, delta.txid, delta.round, 0)
    WHERE delta.component = ? AND {tasks} AND delta.parts = first.parts ORDER BY delta.task, delta.txid, delta.round, delta.part
"""
_ENTRY: Final = """
INSERT INTO ledgers SELECT ?, ?, ?, ? WHERE (SELECT epoch FROM epochs WHERE topology = ? AND ledger = ?) = ?
    ON CONFLICT DO UPDATE SET value = excluded.value
"""


class SqliteStore(LookupStore):
    """One task's rows and deltas."""

    def __init__(self, file: SqliteFile, component: int, task_index: int, slots: range) -> None:
        self._file = file
        self._component = component
        self._task = task_index
        self._slots = slots
        self._folded_upto = -1

    def read(self, slot: int, key: bytes) -> bytes | None:
        found = self._file.read("SELECT value FROM rows WHERE component = ? AND slot = ? AND key = ?", (self._component, slot, key))
        return found[0][0] if found else None

    def scan(self) -> Iterator[Row]:
        slot, key = self._slots.start, b""  # no key is empty
        while True:
            found = self._file.read(
                "SELECT slot, key, value FROM rows WHERE component = ? AND (slot, key) > (?, ?) AND slot < ? ORDER BY slot, key LIMIT ?",
                (self._component, slot, key, self._slots.stop, ROWS_PER_READ),
            )
            yield from map(row_of, found)
            if len(found) < ROWS_PER_READ:
                return
            slot, key, _ = found[-1]

    def scan_prefix(self, prefix: bytes) -> Iterator[Row]:
        end = end_of(prefix)
        for slot in self._slots:
            key, size = prefix, ROWS_PER_READ
            while size == ROWS_PER_READ:
                found = self._file.read(_SOME_OF_PREFIX, (self._component, slot, key, end, ROWS_PER_READ))
                yield from [row_of((slot, key, value)) for key, value in found]
                size = len(found)
                key = found[-1][0] + b"\x00" if found else key

    def prefixes(self) -> Iterator[bytes | None]:
        for slot in self._slots:
            key: bytes | None = FIRST_BYTE
            while key is not None:
                found = self._file.read(_NEXT_KEY, (self._component, slot, key))
                prefix = stored_prefix(found[0][0]) if found else b""
                yield prefix or None
                key = end_of(prefix) if prefix else None

    drops_prefixes = True

    async def drop_prefixes(self, prefixes: Sequence[bytes]) -> None:
        places = [(self._component, slot, prefix, end_of(prefix)) for prefix in prefixes for slot in self._slots]
        done = 0
        while done < len(places):
            done += await self._file.write(partial(_drop_some, places=places[done : done + PLACES_PER_DROP]))

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        collected = [blob async for blob in blobs]
        name = (self._component, self._task, txid, round_)

        parts = [(*name, part, len(collected), blob) for part, blob in enumerate(collected)]

        def write(writer: sqlite3.Connection) -> None:
            if txid <= self._folded_upto:
                return
            for first in range(0, len(parts), ROWS_PER_STATEMENT):
                some = parts[first : first + ROWS_PER_STATEMENT]
                writer.execute(_staging(len(some)), [each for row in some for each in row])
            if not parts:
                writer.execute("DELETE FROM deltas WHERE component = ? AND task = ? AND txid = ? AND round = ?", name)

        await (self._file.write_once(write) if len(parts) <= ROWS_PER_STATEMENT else self._file.write(write))

    async def fold(self, rows: AsyncIterable[list[Row]], upto_txid: int) -> None:
        waiting: list[Row] = []
        async for chunk in rows:
            waiting.extend(chunk)
            if len(waiting) >= ROWS_PER_FOLD:
                await self._write_rows(waiting)
                waiting = []
        await self._write_rows(waiting)
        where = (self._component, self._task, upto_txid)

        def forget(writer: sqlite3.Connection) -> None:
            self._folded_upto = max(self._folded_upto, upto_txid)  # on the writing thread, where `stage` reads it
            writer.execute("DELETE FROM deltas WHERE component = ? AND task = ? AND txid <= ?", where)

        await self._file.write(forget)

    async def _write_rows(self, rows: list[Row]) -> None:
        if not rows:
            return
        component = self._component
        rows.sort(key=lambda row: row[:2])
        kept = [(component, *row) for row in rows if row.value is not None]
        gone = [(component, row.slot, row.key) for row in rows if row.value is None]

        def write(writer: sqlite3.Connection) -> None:
            for first in range(0, len(kept), ROWS_PER_STATEMENT):
                part = kept[first : first + ROWS_PER_STATEMENT]
                writer.execute(_insertion(len(part)), [each for row in part for each in row])
            writer.executemany("DELETE FROM rows WHERE component = ? AND slot = ? AND key = ?", gone)

        await self._file.write(write)

    async def deltas(self) -> list[StagedDelta]:
        found = await self._file.write(lambda reader: staged_deltas(reader, self._component, self._task))
        return [each.delta for each in found]

    async def drop(self, after_txid: int) -> None:
        where = (self._component, self._task, after_txid)
        await self._file.write(lambda writer: writer.execute("DELETE FROM deltas WHERE component = ? AND task = ? AND txid > ?", where))


def _drop_some(writer: sqlite3.Connection, places: Sequence[tuple[int, int, bytes, bytes]]) -> int:
    """Delete rows of namespaces in slots, a bounded number of them. Return how many of the places have none left."""
    room = ROWS_PER_DROP
    for number, place in enumerate(places):
        last = writer.execute(_LAST_TO_DROP, (*place, max(0, room - 1))).fetchone()
        if last is not None:
            writer.execute(_DROP_UPTO, (*place[:3], *last))
            return number
        room -= writer.execute(_DROP_ALL, place).rowcount
    return len(places)


class SqliteLedger(Ledger):
    """One ledger, stored as rows of a table and an epoch."""

    def __init__(self, file: SqliteFile, topology: int, name: str) -> None:
        self._file = file
        self._place = (topology, name)
        self._codec = MessagePack()
        self._claimed: int | None = None

    async def claim(self) -> int:
        def raise_epoch(writer: sqlite3.Connection) -> int:
            writer.execute("INSERT INTO epochs VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET epoch = epoch + 1", self._place)
            note_catalogue(writer)
            return ledger_epoch(writer, *self._place)

        self._claimed = await self._file.write(raise_epoch)
        return self._claimed

    async def read(self) -> dict[str, object]:
        rows = await self._file.write(lambda reader: ledger_rows(reader, *self._place))
        return decode_entries(rows, *self._place, self._file.path)

    async def write(self, changes: Mapping[str, object]) -> None:
        entries, removed = encode_entries(changes, self._place[1], self._codec, lambda name: entry_sum(*self._place, name))
        kept = [(*self._place, name, value) for name, value in entries.items()]
        gone = [(*self._place, name) for name in removed]

        def write(writer: sqlite3.Connection) -> None:
            self._check(writer, ledger_epoch(writer, *self._place) == self._claimed)
            writer.executemany("INSERT INTO ledgers VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", kept)
            writer.executemany("DELETE FROM ledgers WHERE topology = ? AND ledger = ? AND name = ?", gone)

        def write_one(writer: sqlite3.Connection) -> None:
            self._check(writer, writer.execute(_ENTRY, (*kept[0], *self._place, self._claimed)).rowcount == 1)

        if len(kept) == 1 and not gone:
            await self._file.write_once(write_one)
        else:
            await self._file.write(write)

    def _check(self, writer: sqlite3.Connection, is_ours: bool) -> None:
        if self._claimed is None or not is_ours:
            raise StateFenced(f"the ledger {self._place[1]!r} was not claimed, or another process has claimed it since")


@lru_cache
def _staging(parts: int) -> str:
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * parts)
    return f"INSERT INTO deltas VALUES {values} ON CONFLICT DO UPDATE SET parts = excluded.parts, blob = excluded.blob"


@lru_cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO rows VALUES {', '.join(['(?, ?, ?, ?)'] * rows)} ON CONFLICT DO UPDATE SET value = excluded.value"


# Readers, also for the inventory


def staged_deltas(reader: sqlite3.Connection, component: int, task_index: int | None = None) -> list[TaskDelta]:
    """Return the complete deltas of a task, or of all tasks of a component, by task, txid and round."""
    # Two statements, because the index of the table serves only an equality.
    tasks, values = ("true", (component,)) if task_index is None else ("delta.task = ?", (component, task_index))
    found: dict[tuple[int, int, int], list[bytes]] = {}
    for task, txid, round_, blob in reader.execute(_STAGED.format(tasks=tasks), values):
        found.setdefault((task, txid, round_), []).append(blob)
    return [TaskDelta(task, StagedDelta(txid, round_, tuple(blobs))) for (task, txid, round_), blobs in found.items()]


def ledger_epoch(reader: sqlite3.Connection, topology: int, ledger: str) -> int:
    """Return the epoch of a ledger, 0 before its first claim."""
    found = reader.execute("SELECT epoch FROM epochs WHERE topology = ? AND ledger = ?", (topology, ledger)).fetchone()
    return int(found[0]) if found else 0


def ledger_rows(reader: sqlite3.Connection, topology: int, ledger: str) -> list[tuple[object, object]]:
    """Return names and values of the entries of a ledger."""
    return reader.execute("SELECT name, value FROM ledgers WHERE topology = ? AND ledger = ?", (topology, ledger)).fetchall()


def decode_entries(
    rows: Iterable[tuple[object, object]], topology: int, ledger: str, path: Path, *, bare: bool = False
) -> dict[str, object]:
    """Return the entries of a ledger from its rows. Raises StateDamaged. bare: the format has no checksums."""
    codec, entries = MessagePack(), dict[str, object]()
    for name, stored in rows:
        try:
            if not isinstance(name, str):
                raise ValueError("its name is not a text")
            entries[name] = codec.decode(strip_checksum(stored, entry_sum(topology, ledger, name), bare=bare))
        except ValueError as error:
            raise StateDamaged(f"the entry {name!r} of the ledger {ledger!r} in {str(path)!r} is damaged: {error}", hint=RESTORE) from None
    return entries
