"""Maps of values in a separate SQLite file. Each map is a table that any SQLite program can read.

All maps in one file share its writing thread, for all tasks, because SQLite allows one writer at a time.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from engine.errors import StateError
from engine.state.codec import MessagePack
from engine.state.row_codecs import SqliteCodec
from engine.state.sqlite.file import Schema, SqliteFile, check_place
from engine.state.values import AttemptId, Changes, Fence, Found, Raw, ValueStore, Writer, fence_of, in_order, may_write, nothing

ROWS_PER_STATEMENT: Final = 500
ROWS_PER_READ: Final = 2000
_TABLES: Final = """
CREATE TABLE stormcell_maps (map TEXT PRIMARY KEY, kind TEXT NOT NULL, topology TEXT NOT NULL, component TEXT NOT NULL,
    txid INTEGER NOT NULL, attempt INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE stormcell_journal (map TEXT NOT NULL, task INTEGER NOT NULL, txid INTEGER NOT NULL, keys BLOB NOT NULL,
    PRIMARY KEY (map, task))
"""
"""`stormcell_maps`: the fence of each map. `stormcell_journal`: the keys that a task wrote in a txid, as MessagePack (opaque values)."""


def _make_tables(writer: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        writer.execute(statement)


VALUES: Final = Schema("values", 0x53_74_56_61, 1, _make_tables)
_FENCE: Final = "SELECT kind, topology, component, txid, attempt FROM stormcell_maps WHERE map = ?"


class SqliteValueStore(ValueStore):
    """One map."""

    def __init__(self, file: "SharedFile", name: str) -> None:
        self._file = file
        self._name = name
        self._codec = MessagePack()
        self.row_codec = SqliteCodec()

    async def fence(self) -> Fence | None:
        return await self._file.write_once(self._fence)

    def _fence(self, connection: sqlite3.Connection) -> Fence | None:
        found = connection.execute(_FENCE, (self._name,)).fetchone()
        return None if found is None else fence_of(*found)

    async def create(self, writer: Writer) -> None:
        table = self._name

        def make(connection: sqlite3.Connection) -> None:
            if self._fence(connection) is None:
                columns = "key PRIMARY KEY NOT NULL, value, txid INTEGER NOT NULL, attempt INTEGER, previous"
                connection.execute(f'CREATE TABLE "{table}" ({columns}) WITHOUT ROWID')
                connection.execute("INSERT INTO stormcell_maps VALUES (?, ?, ?, '', 0, 0)", (self._name, writer.kind, writer.topology))

        await self._file.write(make)

    async def look(self, keys: Sequence[Raw]) -> Found:
        def read(connection: sqlite3.Connection) -> tuple[Fence | None, list[tuple[Raw, ...]]]:
            fence = self._fence(connection)
            rows: list[tuple[Raw, ...]] = []
            for first in range(0, len(keys) if fence is not None else 0, ROWS_PER_STATEMENT):
                some = keys[first : first + ROWS_PER_STATEMENT]
                rows += connection.execute(_selection(self._name, len(some)), some).fetchall()
            return fence, rows

        fence, rows = await self._file.write_once(read)
        return in_order(fence, keys, list(zip(*rows, strict=True))) if rows else nothing(fence, keys)

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        def put_back(connection: sqlite3.Connection) -> None:
            if self._fence(connection) != seen:
                return  # another task has restored the rows, and newer rows may be of this attempt
            self._raise(connection, seen, attempt, writer)
            table, txid = self._name, attempt[0]
            for (packed,) in connection.execute("SELECT keys FROM stormcell_journal WHERE map = ? AND txid = ?", (table, txid)).fetchall():
                keys = self._codec.decode(packed)
                for first in range(0, len(keys), ROWS_PER_STATEMENT):
                    some = keys[first : first + ROWS_PER_STATEMENT]
                    marks = ", ".join("?" * len(some))
                    connection.execute(
                        f'UPDATE "{table}" SET value = previous, txid = {txid - 1} WHERE txid = {txid} AND key IN ({marks})', some
                    )
                    connection.execute(f'DELETE FROM "{table}" WHERE value IS NULL AND txid = {txid - 1} AND key IN ({marks})', some)
            connection.execute("DELETE FROM stormcell_journal WHERE map = ?", (table,))

        await self._file.write(put_back)

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        is_opaque = writer.kind == "opaque"
        packed = self._codec.encode(changes.keys) if is_opaque else b""
        mark = attempt[1] if is_opaque else None

        def put(connection: sqlite3.Connection) -> bool:
            if not self._raise(connection, seen, attempt, writer):
                return False
            for first in range(0, len(changes.keys), ROWS_PER_STATEMENT):
                part = slice(first, first + ROWS_PER_STATEMENT)
                keys, values, previous = changes.keys[part], changes.values[part], changes.previous[part]
                if is_opaque:
                    given = [x for row in zip(keys, values, previous, strict=True) for x in row]
                else:
                    given = [x for row in zip(keys, values, strict=True) for x in row]
                connection.execute(_insertion(self._name, len(keys), is_opaque), [attempt[0], mark, *given])
            if is_opaque:
                connection.execute(
                    "INSERT OR REPLACE INTO stormcell_journal VALUES (?, ?, ?, ?)", (self._name, writer.task_index, attempt[0], packed)
                )
            return True

        return await self._file.write(put)

    def _raise(self, connection: sqlite3.Connection, seen: Fence, attempt: AttemptId, writer: Writer) -> bool:
        """Raise the fence unless it changed. Return whether it is at this attempt now."""
        fence = self._fence(connection)
        if fence is None or not may_write(fence, seen, attempt, writer):
            return False
        if fence.attempt != attempt:
            connection.execute(
                "UPDATE stormcell_maps SET component = ?, txid = ?, attempt = ? WHERE map = ?", (writer.component, *attempt, self._name)
            )
        return True

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        if await self.fence() is None:
            return
        after: list[Raw] = []
        while True:
            where = "WHERE key > ?" if after else ""
            statement = f'SELECT key, value FROM "{self._name}" {where} ORDER BY key LIMIT {ROWS_PER_READ}'
            some = await self._file.write_once(lambda reader, sql=statement, key=after: reader.execute(sql, key).fetchall())  # type: ignore[misc]
            yield some
            if len(some) < ROWS_PER_READ:
                return
            after = [some[-1][0]]

    async def close(self) -> None:
        await self._file.release()


class SharedFile(SqliteFile):
    """A file shared by its users on one event loop. The first user opens it, the last one closes it."""

    _shared: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, "SharedFile"]]] = WeakKeyDictionary()

    def __init__(self, path: Path, place: dict[Path, "SharedFile"]) -> None:
        super().__init__(path, VALUES)
        self._place = place
        """The open files of this loop, by path."""
        self._lock = asyncio.Lock()
        self._users = 0

    @classmethod
    def of(cls, path: Path) -> "SharedFile":
        """Return the file that is shared on this loop."""
        place = cls._shared.setdefault(asyncio.get_running_loop(), {})
        real = path.resolve()
        if real not in place:
            place[real] = cls(path, place)
        return place[real]

    async def take(self) -> bool:
        """Open the file if needed, and add a user. Return False if its last user has just closed it."""
        async with self._lock:
            if self not in self._place.values():
                return False
            if not self._users:
                try:
                    await self.open()
                except BaseException:
                    await self._end()
                    raise
            self._users += 1
            return True

    async def release(self) -> None:
        """Remove a user. The last one closes the file."""
        async with self._lock:
            self._users -= 1
            if not self._users:
                await self._end()

    async def _end(self) -> None:
        for path in [path for path, file in self._place.items() if file is self]:
            del self._place[path]
        await self.close()


async def sqlite_store(path: Path, name: str) -> SqliteValueStore:
    """Return the map of this name in a file, which is created if needed. Raises StateError."""
    check_place(path, VALUES)
    while not await (file := SharedFile.of(path)).take():
        pass  # the next call of `of` returns another file
    return SqliteValueStore(file, name)


def check_there(path: Path) -> None:
    """Raise StateError if there is no file, because a reader creates none."""
    if not path.is_file():
        raise StateError(
            f"there are no values in {str(path)!r}: the file does not exist", hint="Check the path. The topology creates the file."
        )


@lru_cache
def _selection(table: str, keys: int) -> str:
    return f'SELECT key, txid, value, previous FROM "{table}" WHERE key IN ({", ".join("?" * keys)})'


@lru_cache
def _insertion(table: str, rows: int, is_opaque: bool) -> str:
    """Return an INSERT. ?1 is the txid, ?2 the attempt. A transactional row of this or a newer txid stays."""
    columns = 3 if is_opaque else 2
    numbers = range(3, 3 + rows * columns, columns)
    if is_opaque:
        values = ", ".join(f"(?{at}, ?{at + 1}, ?1, ?2, ?{at + 2})" for at in numbers)
        return (
            f'INSERT INTO "{table}" VALUES {values} ON CONFLICT DO UPDATE '
            "SET value = excluded.value, txid = ?1, attempt = ?2, previous = excluded.previous"
        )
    values = ", ".join(f"(?{at}, ?{at + 1}, ?1, ?2, NULL)" for at in numbers)
    return f'INSERT INTO "{table}" VALUES {values} ON CONFLICT DO UPDATE SET value = excluded.value, txid = ?1 WHERE txid < ?1'
