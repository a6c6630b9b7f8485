"""Inventory of a SQLite state file for tools. Reads without locks, and writes nothing.

A write-ahead log beside the file means that a process has the file open, or was killed. Then a read-only connection reads file and log in
one transaction. Without a log no process writes, so the file is opened as immutable. In this mode SQLite needs no permission to write the
folder, and leaves no files there. At the end the tool checks that the file has not changed.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent import futures
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.errors import StateError, StateUnavailable
from engine.names import nearest
from engine.state.api import Row, StateInventory, StoredTopology, TaskDelta
from engine.state.namespaces import FIRST_BYTE, end_of
from engine.state.sqlite.file import (
    WRITER_BUSY_SECS,
    SqliteFile,
    check_file,
    check_place,
    check_whole,
    format_in,
    lock_of,
    translate_errors,
)
from engine.state.sqlite.store import decode_entries, ledger_epoch, ledger_rows, staged_deltas
from engine.state.sqlite.tables import FORMAT, note_catalogue

ROWS_PER_CHUNK: Final = 1000
BYTES_PER_CHUNK: Final = 256 * 1024
ROWS_PER_REMOVAL: Final = 10_000
DELTAS_PER_REMOVAL: Final = 100
_T = TypeVar("_T")

_LAST_OF_STEP: Final = f"SELECT slot, key FROM rows WHERE component = ? ORDER BY slot, key LIMIT 1 OFFSET {ROWS_PER_REMOVAL - 1}"
_NAMESPACES: Final = (FIRST_BYTE, end_of(FIRST_BYTE))
_SOME_DELTAS: Final = f"DELETE FROM deltas WHERE rowid IN (SELECT rowid FROM deltas WHERE component = ? LIMIT {DELTAS_PER_REMOVAL})"


class ReadOnlyFile:
    """A read-only connection in its own thread, in one transaction from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="state-reader")
        self._reader: sqlite3.Connection | None = None
        self._is_closed = False
        self._cursors: list[sqlite3.Cursor] = []
        self._log = path  # `open` sets the name of the log
        self._unchanged: tuple[int, int] | None = None
        """Time and size of a file without a log."""
        self.format = 0
        """Format of the tables, 0 without tables."""

    async def open(self) -> None:
        """Open the file. Raises StateError if it does not exist, or is not a state file. After an error nothing is open."""
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        try:
            self._check_path()
            self._log = Path(f"{self.path.resolve()}-wal")
            await self.do(self._connect)
        except StateError as error:
            if self._lacks_index(error):
                raise StateError(
                    f"{error.message}: its log {self._log.name} can be read only if the folder is writable",
                    hint="Copy both files to a writable folder, and read them there.",
                ) from error
            raise
        except OSError as error:
            raise StateError(f"{str(self.path)!r} cannot be read: {error.strerror}", hint="Check the path and its permissions.") from error

    def _check_path(self) -> None:
        path = self.path
        if path.parent.is_dir():  # a missing folder is reported below
            check_place(path)
        if path.is_file():
            check_file(path)
            return
        if not path.parent.is_dir():
            raise StateError(f"there is no state in {str(path)!r}: the folder {str(path.parent)!r} does not exist", hint="Check the path.")
        near = nearest(path.name, [entry.name for entry in path.parent.iterdir() if not entry.name.endswith((".lock", "-wal", "-shm"))])
        raise StateError(
            f"there is no state in {str(path)!r}: the file does not exist",
            hint=f"Did you mean {str(path.with_name(near))!r}?" if near else "Check the path after the three slashes: sqlite:///counts.db.",
        )

    def _lacks_index(self, error: StateError) -> bool:
        """Return whether the log cannot be opened, because SQLite must create its index in the folder."""
        name = getattr(error.__cause__, "sqlite_errorname", "")
        return self._unchanged is None and name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))

    def _connect(self, _: object) -> None:
        options = "mode=ro"
        if not self._log.exists():
            self._unchanged = self._seen()
            options += "&immutable=1"
        url = f"{self.path.absolute().as_uri()}?{options}"
        self._reader = sqlite3.connect(url, uri=True, isolation_level=None, check_same_thread=False, timeout=WRITER_BUSY_SECS)
        self._reader.execute("BEGIN")
        self.format = format_in(self._reader, self.path)

    async def check(self) -> None:
        """Raise StateDamaged if the file is damaged."""
        await self.do(lambda reader: check_whole(reader, self.format, self.path))

    def _seen(self) -> tuple[int, int]:
        found = self.path.stat() if self.path.exists() else None
        return (found.st_mtime_ns, found.st_size) if found else (0, -1)

    def check_unchanged(self) -> None:
        """Raise StateUnavailable if a process has begun to write a file without a log."""
        if self._unchanged is not None and (self._log.exists() or self._seen() != self._unchanged):
            raise StateUnavailable(f"another process began to write {str(self.path)!r} while it was read", hint="Try again.")

    async def close(self) -> None:
        """Close the connection and its cursors."""
        try:
            if self._reader is not None:
                await self.do(lambda _: self._close())
        finally:
            self._is_closed = True
            self._thread.shutdown(wait=True)
            self._close()  # if open or close was cancelled: the thread has ended by now

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            for cursor in self._cursors:  # an open cursor keeps the file and its transaction open
                cursor.close()
            reader.close()

    async def cursor(self, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        """Begin to read rows that are too many for one call of `do`."""

        def begin(reader: sqlite3.Connection) -> sqlite3.Cursor:
            self._cursors.append(cursor := reader.execute(statement, values))
            return cursor

        return await self.do(begin)

    async def do(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in the thread. Raises StateError after the end of the block that has opened the file."""
        if self._is_closed:
            text = f"the stored state in {str(self.path)!r} is closed, because the block of look() has ended"
            raise StateError(text, hint="Read it inside of the block.")
        run: Callable[[], _T] = lambda: translate_errors(lambda: work(self._reader), self.path)  # type: ignore[arg-type]  # noqa: E731
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


class SqliteStoredTopology(StoredTopology):
    """One topology, in a snapshot."""

    def __init__(self, file: ReadOnlyFile, name: str, topology: int) -> None:
        """topology: its id in the file, 0 if nothing is stored. No row has this id."""
        self._file = file
        self._name = name
        self._topology = topology

    async def entries(self, ledger: str) -> dict[str, object]:
        no_rows: list[tuple[object, object]] = []
        rows = await self._read(lambda reader: ledger_rows(reader, self._topology, ledger), no_rows)
        return decode_entries(rows, self._topology, ledger, self._file.path, bare=self._file.format < FORMAT)

    async def epoch(self, ledger: str) -> int:
        return await self._read(lambda reader: ledger_epoch(reader, self._topology, ledger), 0)

    async def holder(self) -> str | None:
        lock = lock_of(self._file.path, self._name)
        taken = lock.is_taken() if lock is not None else False
        return None if taken is None else "a process" if taken else ""

    async def components(self) -> list[str]:
        return sorted(name for (name,) in await self._all("SELECT name FROM components WHERE topology = ?", (self._topology,)))

    async def row_sizes(self, component_id: str) -> tuple[int, int]:
        statement = "SELECT count(*), ifnull(sum(length(key) + length(value)), 0) FROM rows WHERE component = ?"
        found = await self._all(statement, (await self._id(component_id),))
        return found[0] if found else (0, 0)

    async def rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        component = await self._id(component_id)
        if not component:
            return
        cursor = await self._file.cursor("SELECT slot, key, value FROM rows WHERE component = ? ORDER BY slot, key", (component,))
        while chunk := await self._file.do(lambda _: _chunk(cursor)):
            yield chunk

    async def namespace_rows(self, component_id: str) -> AsyncIterator[list[Row]]:
        component = await self._id(component_id)
        if not component:
            return
        statement = "SELECT slot, key, value FROM rows WHERE component = ? AND key >= ? AND key < ?"
        cursor = await self._file.cursor(statement, (component, *_NAMESPACES))
        while chunk := await self._file.do(lambda _: _chunk(cursor)):
            yield chunk

    async def present(self, component_id: str, places: Sequence[tuple[int, bytes]]) -> int:
        component = await self._id(component_id)

        def count(reader: sqlite3.Connection) -> int:
            statement = "SELECT 1 FROM rows WHERE component = ? AND slot = ? AND key = ?"
            return sum(reader.execute(statement, (component, *place)).fetchone() is not None for place in places)

        return await self._file.do(count) if component else 0

    async def deltas(self, component_id: str) -> list[TaskDelta]:
        component = await self._id(component_id)
        return await self._read(lambda reader: staged_deltas(reader, component), [])

    async def version(self) -> object:
        return None

    async def _id(self, component_id: str) -> int:
        found = await self._all("SELECT id FROM components WHERE topology = ? AND name = ?", (self._topology, component_id))
        return int(found[0][0]) if found else 0  # no row has this id

    async def _all(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return await self._read(lambda reader: reader.execute(statement, values).fetchall(), [])

    async def _read(self, work: Callable[[sqlite3.Connection], _T], without_tables: _T) -> _T:
        return await self._file.do(work) if self._file.format else without_tables


class SqliteInventory(StateInventory):
    """Stored topologies of one file."""

    removes_by = "The deletion is refused while a process runs the topology."

    def __init__(self, file: SqliteFile, topology: int) -> None:
        """topology: id of the provider's open topology, for removals; 0 if it is not open."""
        self._file = file
        self._topology = topology
        self._is_checked = False

    async def topologies(self) -> list[str]:
        async with self._reading() as file:
            if not file.format:
                return []
            return sorted(name for (name,) in await file.do(lambda reader: reader.execute("SELECT name FROM topologies").fetchall()))

    @asynccontextmanager
    async def look(self, topology_name: str) -> AsyncIterator[StoredTopology]:
        async with self._reading() as file:
            statement = "SELECT id FROM topologies WHERE name = ?"
            found = await file.do(lambda reader: reader.execute(statement, (topology_name,)).fetchone()) if file.format else None
            yield SqliteStoredTopology(file, topology_name, found[0] if found else 0)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[ReadOnlyFile]:
        file = ReadOnlyFile(self._file.path)
        try:
            await file.open()
            if not self._is_checked:
                await file.check()
                self._is_checked = True
            yield file
        except StateError:
            file.check_unchanged()  # a changed file explains the error
            raise
        else:
            file.check_unchanged()
        finally:
            await file.close()

    async def remove(self, component_id: str | None) -> AsyncIterator[int]:
        topology = self._topology
        if not topology:
            raise StateError(f"the state in {str(self._file.path)!r} is not open", hint="Call open() of its provider first.")
        statement = "SELECT id, name FROM components WHERE topology = ?"
        for component, name in await self._file.write(lambda writer: writer.execute(statement, (topology,)).fetchall()):
            if component_id in (None, name):
                async for rows in self._remove_component(component):
                    yield rows
        if component_id is None:
            await self._file.write(lambda writer: _remove_topology(writer, topology))

    async def _remove_component(self, component: int) -> AsyncIterator[int]:
        while await self._file.write(lambda writer: writer.execute(_SOME_DELTAS, (component,)).rowcount):
            yield 0
        while rows := await self._file.write(lambda writer: _remove_rows(writer, component)):
            yield rows
        await self._file.write(lambda writer: _remove_name(writer, component))


def _chunk(cursor: sqlite3.Cursor) -> list[Row]:
    rows, size = list[Row](), 0
    for found in cursor:
        row = Row(*found)
        rows.append(row)
        size += sum(len(each) for each in found if isinstance(each, bytes))  # a damaged row may have any types
        if len(rows) == ROWS_PER_CHUNK or size > BYTES_PER_CHUNK:
            break
    return rows


def _remove_rows(writer: sqlite3.Connection, component: int) -> int:
    last = writer.execute(_LAST_OF_STEP, (component,)).fetchone()
    if last is None:
        return writer.execute("DELETE FROM rows WHERE component = ?", (component,)).rowcount
    return writer.execute("DELETE FROM rows WHERE component = ? AND (slot, key) <= (?, ?)", (component, *last)).rowcount


def _remove_name(writer: sqlite3.Connection, component: int) -> None:
    writer.execute("DELETE FROM components WHERE id = ?", (component,))
    note_catalogue(writer)


def _remove_topology(writer: sqlite3.Connection, topology: int) -> None:
    for statement in ("ledgers WHERE topology", "epochs WHERE topology", "topologies WHERE id"):
        writer.execute(f"DELETE FROM {statement} = ?", (topology,))
    note_catalogue(writer)
