"""Maps of values in a separate SQLite file. Each map is a table that any SQLite program can read.

All maps in one file share its writing thread, for all tasks, because SQLite allows one writer at a time.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from engine.errors import EngineBug, StateDamaged, StateError
from engine.state.codec import MessagePack
from engine.state.key_columns import ROW_COLUMNS, planned_columns
from engine.state.row_codecs import SqliteCodec
from engine.state.sqlite.file import Schema, SqliteFile, check_place
from engine.state.sqlite.key_forms import EncodedKey, KeyForm, TypedKey, insertion, selection, stored_form
from engine.state.values import (
    RESTORE,
    AttemptId,
    Changes,
    Fence,
    Found,
    KeyCodec,
    Raw,
    ValueStore,
    Writer,
    fence_of,
    in_order,
    may_write,
    nothing,
)

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

    def __init__(self, file: "SharedFile", name: str, *, columns: bool = True) -> None:
        """columns: give a new map a typed column for each field of its keys."""
        self._file = file
        self._name = name
        self._codec = MessagePack()
        self._has_columns = columns
        self.row_codec = SqliteCodec()
        self._encoded = EncodedKey(self.row_codec)
        self._form: KeyForm | None = None
        """Form of the keys of the stored map, None until the map is found with a key."""
        self._planned: KeyForm | None = self._encoded
        """Form of a new map. None: its first key is still to come."""
        self._is_older = False

    @property
    def lacks_key_columns(self) -> bool:
        return self._form is None

    @property
    def is_older(self) -> bool:
        return self._is_older

    async def key_codec(self, fields: Sequence[str], keys: Sequence[object]) -> KeyCodec:
        if self._form is None:
            self._form = await self._file.write_once(self._stored_form)
            self._is_older = self._form is self._encoded and self._has_columns and len(fields) > 1
        if self._form is not None:
            return self._form.codec
        self._planned = self._new_form(fields, keys)
        return self._encoded.codec if self._planned is None else self._planned.codec

    def _stored_form(self, connection: sqlite3.Connection) -> KeyForm | None:
        return stored_form(connection, self._name, self._encoded)

    def _new_form(self, fields: Sequence[str], keys: Sequence[object]) -> KeyForm | None:
        if not self._has_columns or not fields:
            return self._encoded
        if not keys:
            return None
        if len(fields) == 1 and isinstance(keys[0], (str, int, float)):
            return self._encoded  # `key` has these as they are
        columns = planned_columns(fields, keys[0])
        return self._encoded if columns is None else TypedKey(columns)

    async def fence(self) -> Fence | None:
        return await self._file.write_once(self._fence)

    def _fence(self, connection: sqlite3.Connection) -> Fence | None:
        found = connection.execute(_FENCE, (self._name,)).fetchone()
        return None if found is None else fence_of(*found)

    async def create(self, writer: Writer) -> None:
        planned = self._planned

        def make(connection: sqlite3.Connection) -> None:
            if self._fence(connection) is None:
                self._create_table(connection, planned)
                connection.execute("INSERT INTO stormcell_maps VALUES (?, ?, ?, '', 0, 0)", (self._name, writer.kind, writer.topology))
            elif planned is not None and self._stored_form(connection) is None:
                self._drop_without_keys(connection)
                self._create_table(connection, planned)

        await self._file.write(make)

    def _create_table(self, connection: sqlite3.Connection, form: KeyForm | None) -> None:
        columns = "value, txid INTEGER NOT NULL, attempt INTEGER, previous"
        if form is None:
            connection.execute(f'CREATE TABLE "{self._name}" ({columns})')
        else:
            connection.execute(f'CREATE TABLE "{self._name}" ({form.columns}, {columns}{form.primary_key}) WITHOUT ROWID')

    def _drop_without_keys(self, connection: sqlite3.Connection) -> None:
        """Drop the empty table of a map whose first key is still to come. Raises StateDamaged for any other table."""
        columns = tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{self._name}")'))
        if not columns:
            raise StateDamaged(f"the table of the map {self._name!r} is gone", hint=RESTORE)
        if columns != ROW_COLUMNS or connection.execute(f'SELECT 1 FROM "{self._name}" LIMIT 1').fetchone():
            raise StateDamaged(f"another program changed the table of the map {self._name!r}, which has no primary key", hint=RESTORE)
        connection.execute(f'DROP TABLE "{self._name}"')

    async def look(self, keys: Sequence[Raw]) -> Found:
        def read(connection: sqlite3.Connection) -> tuple[Fence | None, list[tuple[Raw, ...]]]:
            fence, form = self._fence(connection), self._form or self._stored_form(connection)
            rows: list[tuple[Raw, ...]] = []
            if fence is None or form is None:
                return fence, rows
            for some in _parts(form.stored(keys)):
                found = connection.execute(selection(self._name, form, len(some)), _flat(some))
                rows += [(form.raw(row[:-3]), *row[-3:]) for row in found]
            return fence, rows

        fence, rows = await self._file.write_once(read)
        return in_order(fence, keys, list(zip(*rows, strict=True))) if rows else nothing(fence, keys)

    async def undo(self, seen: Fence, attempt: AttemptId, writer: Writer) -> None:
        def put_back(connection: sqlite3.Connection) -> None:
            if self._fence(connection) != seen:
                return  # another task has restored the rows, and newer rows may be of this attempt
            self._raise(connection, seen, attempt, writer)
            form = self._form or self._stored_form(connection)
            table, txid = self._name, attempt[0]
            for (packed,) in connection.execute("SELECT keys FROM stormcell_journal WHERE map = ? AND txid = ?", (table, txid)).fetchall():
                for some in _parts([] if form is None else form.stored(self._codec.decode(packed))):
                    assert form is not None
                    given, among = _flat(some), form.among(len(some))
                    connection.execute(f'UPDATE "{table}" SET value = previous, txid = {txid - 1} WHERE txid = {txid} AND {among}', given)
                    connection.execute(f'DELETE FROM "{table}" WHERE value IS NULL AND txid = {txid - 1} AND {among}', given)
            connection.execute("DELETE FROM stormcell_journal WHERE map = ?", (table,))

        await self._file.write(put_back)

    async def write(self, seen: Fence, attempt: AttemptId, changes: Changes, writer: Writer) -> bool:
        is_opaque = writer.kind == "opaque"
        packed = self._codec.encode(changes.keys) if is_opaque else b""
        mark = attempt[1] if is_opaque else None

        def put(connection: sqlite3.Connection) -> bool:
            if not self._raise(connection, seen, attempt, writer):
                return False
            form, columns = self._form or self._stored_form(connection), [changes.values, changes.previous][: 1 + is_opaque]
            if form is None and changes.keys:
                raise EngineBug(f"{len(changes.keys)} keys are written to the map {self._name!r}, whose table has no key columns")
            if form is not None:
                for some in _parts(form.stored(changes.deleted)):
                    connection.execute(f'DELETE FROM "{self._name}" WHERE {form.among(len(some))}', _flat(some))
                rows = [(*key, *rest) for key, *rest in zip(form.stored(changes.keys), *columns, strict=True)]
                for some in _parts(rows):
                    connection.execute(insertion(self._name, form, len(some), is_opaque), [attempt[0], mark, *_flat(some)])
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

    async def forget(self) -> bool:
        def lower(connection: sqlite3.Connection) -> bool:
            if not connection.execute(f'PRAGMA table_info("{self._name}")').fetchone():  # dropped by the user
                connection.execute("DELETE FROM stormcell_maps WHERE map = ?", (self._name,))
            elif connection.execute(f'SELECT 1 FROM "{self._name}" LIMIT 1').fetchone():
                return False
            connection.execute("UPDATE stormcell_maps SET component = '', txid = 0, attempt = 0 WHERE map = ?", (self._name,))
            connection.execute("DELETE FROM stormcell_journal WHERE map = ?", (self._name,))
            return True

        return await self._file.write(lower)

    async def rows(self) -> AsyncIterator[list[tuple[Raw, Raw]]]:
        form = self._form or await self._file.write_once(self._stored_form)
        if form is None or await self.fence() is None:
            return
        after: list[Raw] = []
        while True:
            where = f"WHERE ({form.names}) > ({', '.join('?' * form.width)})" if after else ""
            statement = f'SELECT {form.names}, value FROM "{self._name}" {where} ORDER BY {form.names} LIMIT {ROWS_PER_READ}'
            some = await self._file.write_once(lambda reader, sql=statement, key=after: reader.execute(sql, key).fetchall())  # type: ignore[misc]
            yield [(form.raw(row[:-1]), row[-1]) for row in some]
            if len(some) < ROWS_PER_READ:
                return
            after = list(some[-1][:-1])

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


async def sqlite_store(path: Path, name: str, *, columns: bool = True) -> SqliteValueStore:
    """Return the map of this name in a file, which is created if needed. Raises StateError."""
    check_place(path, VALUES)
    while not await (file := SharedFile.of(path)).take():
        pass  # the next call of `of` returns another file
    return SqliteValueStore(file, name, columns=columns)


def check_there(path: Path) -> None:
    """Raise StateError if there is no file, because a reader creates none."""
    if not path.is_file():
        raise StateError(
            f"there are no values in {str(path)!r}: the file does not exist", hint="Check the path. The topology creates the file."
        )


def _parts(rows: Sequence[Sequence[Raw]]) -> Iterator[Sequence[Sequence[Raw]]]:
    for first in range(0, len(rows), ROWS_PER_STATEMENT):
        yield rows[first : first + ROWS_PER_STATEMENT]


def _flat(rows: Sequence[Sequence[Raw]]) -> list[Raw]:
    return [value for row in rows for value in row]
