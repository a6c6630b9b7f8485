"""One SQLite file of the engine's: its two connections, its tables, and what SQLite's errors mean.

One connection writes, in a thread of its own; another reads on the loop's thread, which in WAL mode waits for no writer.
"""

import sqlite3
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.errors import StateError, StateUnavailable
from engine.in_thread import in_thread

FORMAT: Final = 1
"""Of the tables; kept as `user_version`."""
APPLICATION_ID: Final = 0x53_74_6F_72
WRITER_BUSY_SECS: Final = 5.0
READER_BUSY_SECS: Final = 0.5
"""How long a connection waits for a lock of another process; the reader is on the loop's thread, and in WAL mode hardly ever waits."""
_T = TypeVar("_T")

_TABLES: Final = """
CREATE TABLE topologies (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE components (id INTEGER PRIMARY KEY, topology INTEGER NOT NULL REFERENCES topologies, name TEXT NOT NULL,
    UNIQUE (topology, name));
CREATE TABLE ledgers (topology INTEGER NOT NULL, ledger TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (topology, ledger, name)) WITHOUT ROWID;
CREATE TABLE epochs (topology INTEGER NOT NULL, ledger TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (topology, ledger)) WITHOUT ROWID;
CREATE TABLE deltas (component INTEGER NOT NULL, task INTEGER NOT NULL, txid INTEGER NOT NULL, round INTEGER NOT NULL,
    part INTEGER NOT NULL, parts INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (component, task, txid, round, part));
CREATE TABLE rows (component INTEGER NOT NULL, slot INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (component, slot, key)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Schema:
    """What a file is made for: nothing else is ever put into it."""

    holds: str
    """In errors: the state in 'counts.db'."""
    application_id: int
    format: int
    """Kept as `user_version`."""
    tables: str


STATE: Final = Schema("state", APPLICATION_ID, FORMAT, _TABLES)


class SqliteFile:
    """The two connections to one file, and what SQLite's errors mean."""

    def __init__(self, path: Path, schema: Schema = STATE) -> None:
        self.path = path
        self._schema = schema
        self._thread = futures.ThreadPoolExecutor(1, thread_name_prefix=f"{schema.holds}-writer")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, making it where it is not there; raise StateError where it is none of ours, or made for something else."""
        folder = self.path.parent
        if not folder.is_dir():
            text = f"the folder {str(folder)!r} of the {self._schema.holds} is not there"
            raise StateError(text, hint="Make it, or choose another sqlite:/// path.")
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
        is_new = is_empty(writer, self.path, self._schema)
        [[mode]] = writer.execute("PRAGMA journal_mode = WAL")
        if mode != "wal":
            raise StateError(
                f"{str(self.path)!r} cannot be written ahead (SQLite's WAL): its file system shares no memory, or nobody may write it",
                hint="Choose a sqlite:/// path on a local disk.",
            )
        if is_new:
            self._transaction(self._make_tables)

    def _make_tables(self, writer: sqlite3.Connection) -> None:
        if not is_empty(writer, self.path, self._schema):
            return  # another topology's process was faster
        for statement in filter(str.strip, self._schema.tables.split(";\n")):
            writer.execute(statement)
        writer.execute(f"PRAGMA application_id = {self._schema.application_id}")
        writer.execute(f"PRAGMA user_version = {self._schema.format}")

    async def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work in one transaction of the writing thread; return what it returns, once it is durable."""
        return await self._in_thread(lambda: self._transaction(work))

    async def write_once(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run work that is one statement, and so a transaction by itself.

        For what every checkpoint does: beside a busy loop each statement waits for the interpreter, up to 5 ms.
        """
        writer = self._writer
        assert writer is not None
        return await self._in_thread(lambda: work(writer))

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
        return await in_thread(self._thread, lambda: self._told(work))

    def _told(self, work: Callable[[], _T]) -> _T:
        return told(work, self.path, self._schema)


def told(work: Callable[[], _T], path: Path, schema: Schema = STATE) -> _T:
    """Do what is asked of a file, and say in words what SQLite raises."""
    try:
        return work()
    except sqlite3.Error as error:
        raise _meaning(error, path, schema.holds) from error


def is_empty(connection: sqlite3.Connection, path: Path, schema: Schema = STATE) -> bool:
    """Tell whether a database is empty, and ours to fill; raise StateError where it is none of ours, or made for something else."""
    # In this order: another process may fill it between two of them, and then whose it is must be the last that is read.
    [[tables]] = connection.execute("SELECT count(*) FROM sqlite_master")
    [[version]] = connection.execute("PRAGMA user_version")
    [[application]] = connection.execute("PRAGMA application_id")
    if version == application == tables == 0:
        return True
    if application == STATE.application_id != schema.application_id:
        raise StateError(
            f"{str(path)!r} holds the state of topologies; {schema.holds} need a file of their own", hint="Choose another sqlite:/// path."
        )
    if application != schema.application_id:
        raise StateError(f"{str(path)!r} is a SQLite database of somebody else", hint="Choose another sqlite:/// path.")
    if version > schema.format:
        raise StateError(
            f"{str(path)!r} was written by a newer version of the engine (format {version}; this one knows {schema.format})",
            hint="Install that version; nothing was changed.",
        )
    return False


def _meaning(error: sqlite3.Error, path: Path, holds: str) -> StateError:
    name = getattr(error, "sqlite_errorname", "") or ""
    where = f"the {holds} in {str(path)!r}"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StateError(f"{where} is damaged, or no SQLite file: {error}", hint="Restore it from a copy; nothing was changed.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return StateError(f"{where} cannot be written: {error}", hint="Give the engine's user the right to write the file and its folder.")
    if name.startswith("SQLITE_CANTOPEN"):
        return StateError(f"{where} cannot be opened: {error}", hint="Look at the path and its rights.")
    if name.startswith("SQLITE_FULL"):
        return StateUnavailable(f"{where}: the disk is full", hint="Make room.")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_INTERRUPT")):
        return StateUnavailable(
            f"{where} cannot be reached just now: {error}",
            hint="Another process may hold it, or its disk may be away. Start again when that is over.",
        )
    return StateError(f"{where}: {error}")
