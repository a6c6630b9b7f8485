"""`sqlite:///path`: state in one SQLite file, the default where durability is asked for (CP-8).

One connection writes, in a thread of its own; another reads on the loop's thread, which in WAL mode waits for no writer. Both are
closed by `close`. A file may hold the state of several topologies; a lock beside it keeps a second process off the same one.
"""

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from concurrent import futures
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.errors import StateError, StateFenced, StateUnavailable
from engine.state.api import Ledger, Row, StagedDelta, StateProvider, TaskStore
from engine.state.codec import MessagePack, Unencodable
from engine.state.file_lock import FileLock

FORMAT: Final = 1
"""Of the tables; kept as `user_version`."""
APPLICATION_ID: Final = 0x53_74_6F_72
WRITER_BUSY_SECS: Final = 5.0
READER_BUSY_SECS: Final = 0.5
"""How long a connection waits for a lock of another process; the reader is on the loop's thread, and in WAL mode hardly ever waits."""
ROWS_PER_READ: Final = 1000
ROWS_PER_FOLD: Final = 2000
ROWS_PER_STATEMENT: Final = 200
"""One statement for many rows: the writing thread asks for the interpreter's lock once for each, and the loop has it in between."""
_T = TypeVar("_T")

_TABLES: Final = """
CREATE TABLE topologies (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE components (id INTEGER PRIMARY KEY, topology INTEGER NOT NULL REFERENCES topologies, name TEXT NOT NULL,
    UNIQUE (topology, name));
CREATE TABLE ledgers (topology INTEGER NOT NULL, ledger TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (topology, ledger, name)) WITHOUT ROWID;
CREATE TABLE epochs (topology INTEGER NOT NULL, ledger TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (topology, ledger)) WITHOUT ROWID;
CREATE TABLE deltas (component INTEGER NOT NULL, task INTEGER NOT NULL, txid INTEGER NOT NULL, round INTEGER NOT NULL,
    part INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (component, task, txid, round, part));
CREATE TABLE rows (component INTEGER NOT NULL, slot INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (component, slot, key)) WITHOUT ROWID;
"""


class SqliteFile:
    """The two connections to one file, and what SQLite's errors mean."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix="state-writer")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, making it where it is not there; raise StateError where it is no state of ours."""
        folder = self.path.parent
        if not folder.is_dir():
            raise StateError(f"the folder {str(folder)!r} of the state is not there", hint="Make it, or choose another sqlite:/// path.")
        await self._in_thread(self._open_writer)
        self._reader = self._told(lambda: self._connect(READER_BUSY_SECS))

    async def close(self) -> None:
        """Close both connections, once; what waits to be written is."""
        (reader, self._reader), (writer, self._writer) = (self._reader, None), (self._writer, None)
        if reader is not None:
            reader.close()
        if writer is not None:
            await self._in_thread(writer.close)
        self._thread.shutdown(wait=True)

    def _connect(self, busy_secs: float) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=busy_secs)
        try:
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _open_writer(self) -> None:
        writer = self._writer = self._connect(WRITER_BUSY_SECS)
        is_new = self._judge(writer)
        [[mode]] = writer.execute("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StateError(
                f"{str(self.path)!r} cannot be written ahead (SQLite's WAL): its file system shares no memory, or nobody may write it",
                hint="Choose a sqlite:/// path on a local disk.",
            )
        if is_new:
            self._transaction(self._make_tables)

    def _judge(self, writer: sqlite3.Connection) -> bool:
        """Tell whether the file is empty, and ours to fill; raise StateError where it is no state of ours."""
        [[version]] = writer.execute("PRAGMA user_version")
        [[application]] = writer.execute("PRAGMA application_id")
        [[tables]] = writer.execute("SELECT count(*) FROM sqlite_master")
        if version == application == tables == 0:
            return True
        if application != APPLICATION_ID:
            raise StateError(f"{str(self.path)!r} is a SQLite database of somebody else", hint="Choose another sqlite:/// path.")
        if version > FORMAT:
            raise StateError(
                f"{str(self.path)!r} was written by a newer version of the engine (format {version}; this one knows {FORMAT})",
                hint="Install that version; nothing was changed.",
            )
        return False

    def _make_tables(self, writer: sqlite3.Connection) -> None:
        if not self._judge(writer):
            return  # another topology's process was faster
        for statement in filter(str.strip, _TABLES.split(";\n")):
            writer.execute(statement)
        writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        writer.execute(f"PRAGMA user_version = {FORMAT}")

    async def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in one transaction of the writing thread; return what it returns, once it is durable."""
        return await self._in_thread(lambda: self._transaction(work))

    def _transaction(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        assert self._writer is not None
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._writer)
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        return result

    def read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one bounded query on the calling thread."""
        assert self._reader is not None
        reader = self._reader
        return self._told(lambda: reader.execute(statement, values).fetchall())

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._told(work))

    def _told(self, work: Callable[[], _T]) -> _T:
        """Do it, and say in words what SQLite raises."""
        try:
            return work()
        except sqlite3.Error as error:
            raise self._meaning(error) from error

    def _meaning(self, error: sqlite3.Error) -> StateError:
        name = getattr(error, "sqlite_errorname", "") or ""
        where = f"the state in {str(self.path)!r}"
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return StateError(f"{where} is damaged, or no SQLite file: {error}", hint="Restore it from a copy; nothing was changed.")
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
            return StateError(
                f"{where} cannot be written: {error}", hint="Give the engine's user the right to write the file and its folder."
            )
        if name.startswith("SQLITE_CANTOPEN"):
            return StateError(f"{where} cannot be opened: {error}", hint="Look at the path and its rights.")
        if name.startswith("SQLITE_FULL"):
            return StateUnavailable(f"{where}: the disk is full", hint="Make room; the engine tries again.")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_INTERRUPT")):
            return StateUnavailable(f"{where} cannot be reached just now: {error}", hint="The engine tries again.")
        return StateError(f"{where}: {error}")


class SqliteStore(TaskStore):
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
            yield from (Row(*each) for each in found)
            if len(found) < ROWS_PER_READ:
                return
            slot, key, _ = found[-1]

    async def stage(self, txid: int, round_: int, blobs: AsyncIterable[bytes]) -> None:
        collected = [blob async for blob in blobs]
        name = (self._component, self._task, txid, round_)

        def write(writer: sqlite3.Connection) -> None:
            if txid <= self._folded_upto:
                return
            writer.execute("DELETE FROM deltas WHERE component = ? AND task = ? AND txid = ? AND round = ?", name)
            parts = ((*name, part, blob) for part, blob in enumerate(collected))
            writer.executemany("INSERT INTO deltas VALUES (?, ?, ?, ?, ?, ?)", parts)

        await self._file.write(write)

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
            self._folded_upto = max(self._folded_upto, upto_txid)  # on the writer's thread, where `stage` looks at it
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
        where = (self._component, self._task)
        found: dict[tuple[int, int], list[bytes]] = {}

        def read(reader: sqlite3.Connection) -> None:
            for txid, round_, blob in reader.execute(
                "SELECT txid, round, blob FROM deltas WHERE component = ? AND task = ? ORDER BY txid, round, part", where
            ):
                found.setdefault((txid, round_), []).append(blob)

        await self._file.write(read)
        return [StagedDelta(txid, round_, tuple(blobs)) for (txid, round_), blobs in found.items()]

    async def drop(self, after_txid: int) -> None:
        where = (self._component, self._task, after_txid)
        await self._file.write(lambda writer: writer.execute("DELETE FROM deltas WHERE component = ? AND task = ? AND txid > ?", where))


class SqliteLedger(Ledger):
    """One ledger: rows of a table, and an epoch."""

    def __init__(self, file: SqliteFile, topology: int, name: str) -> None:
        self._file = file
        self._place = (topology, name)
        self._codec = MessagePack()
        self._claimed: int | None = None

    async def claim(self) -> int:
        def raise_epoch(writer: sqlite3.Connection) -> int:
            writer.execute("INSERT INTO epochs VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET epoch = epoch + 1", self._place)
            return self._epoch(writer)

        self._claimed = await self._file.write(raise_epoch)
        return self._claimed

    def _epoch(self, connection: sqlite3.Connection) -> int:
        found = connection.execute("SELECT epoch FROM epochs WHERE topology = ? AND ledger = ?", self._place).fetchone()
        return int(found[0]) if found else 0

    async def read(self) -> dict[str, object]:
        def rows(reader: sqlite3.Connection) -> list[tuple[str, bytes]]:
            return reader.execute("SELECT name, value FROM ledgers WHERE topology = ? AND ledger = ?", self._place).fetchall()

        try:
            return {name: self._codec.decode(value) for name, value in await self._file.write(rows)}
        except ValueError as error:
            raise StateError(f"the ledger {self._place[1]!r} in {str(self._file.path)!r} cannot be read: {error}") from None

    async def write(self, changes: Mapping[str, object]) -> None:
        try:
            kept = [(*self._place, name, self._codec.encode(value)) for name, value in changes.items() if value is not None]
        except Unencodable as error:
            raise StateError(f"the ledger {self._place[1]!r} cannot keep this: {error}") from None
        gone = [(*self._place, name) for name, value in changes.items() if value is None]

        def write(writer: sqlite3.Connection) -> None:
            if self._claimed is None or self._epoch(writer) != self._claimed:
                raise StateFenced(f"the ledger {self._place[1]!r} was not claimed, or another process has claimed it since")
            writer.executemany("INSERT INTO ledgers VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", kept)
            writer.executemany("DELETE FROM ledgers WHERE topology = ? AND ledger = ? AND name = ?", gone)

        await self._file.write(write)


class SqliteProvider(StateProvider):
    """What `sqlite:///path` means."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._lock: FileLock | None = None
        self._topology = 0
        self._ledgers: dict[str, SqliteLedger] = {}

    async def open(self, topology_name: str) -> None:
        try:
            self._take_lock(topology_name)
            await self._file.open()
            self._topology = await self._file.write(lambda writer: _topology_id(writer, topology_name))
        except BaseException:
            await self.close()
            raise

    def _take_lock(self, topology_name: str) -> None:
        path = self._file.path
        if not path.parent.is_dir():
            return  # which opening the file says better
        digest = hashlib.sha256(topology_name.encode()).hexdigest()[:12]
        real = path.resolve()  # a link to the file has the same lock
        lock = FileLock(real.with_name(f"{real.name}.{digest}.lock"))
        try:
            taken = lock.take()
        except OSError as error:
            raise StateError(
                f"the lock {str(lock.path)!r} beside the state cannot be made: {error.strerror}",
                hint="Give the engine's user the right to write the folder, or choose another sqlite:/// path.",
            ) from error
        if not taken:
            raise StateError(
                f"topology {topology_name!r} runs already, in this or another process, on the state in {str(path)!r}",
                hint="Stop that one first, or give this one another state_provider.",
            )
        self._lock = lock

    async def close(self) -> None:
        try:
            await self._file.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def ledger(self, name: str) -> Ledger:
        return self._ledgers.setdefault(name, SqliteLedger(self._file, self._topology, name))

    async def store(self, component_id: str, task_index: int, slots: range) -> TaskStore:
        topology = self._topology
        component = await self._file.write(lambda writer: _component_id(writer, topology, component_id))
        return SqliteStore(self._file, component, task_index, slots)


@lru_cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO rows VALUES {', '.join(['(?, ?, ?, ?)'] * rows)} ON CONFLICT DO UPDATE SET value = excluded.value"


def _topology_id(writer: sqlite3.Connection, name: str) -> int:
    writer.execute("INSERT INTO topologies (name) VALUES (?) ON CONFLICT DO NOTHING", (name,))
    [[found]] = writer.execute("SELECT id FROM topologies WHERE name = ?", (name,))
    return int(found)


def _component_id(writer: sqlite3.Connection, topology: int, name: str) -> int:
    writer.execute("INSERT INTO components (topology, name) VALUES (?, ?) ON CONFLICT DO NOTHING", (topology, name))
    [[found]] = writer.execute("SELECT id FROM components WHERE topology = ? AND name = ?", (topology, name))
    return int(found)
