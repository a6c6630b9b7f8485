"""Writes rows into a user's tables in a SQLite file, in one transaction with the fence."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any, Final, NoReturn
from uuid import UUID

from engine.errors import StateError
from engine.state.rows import COMPONENT, FENCES, MAKE_FENCES, Row, RowFence, RowStatement, RowStore, RowWriter, row_fence
from engine.state.sqlite.file import WRITER_BUSY_SECS, Schema, SqliteFile, check_file, check_place
from engine.state.values import AttemptId


def _make_fences(connection: sqlite3.Connection) -> None:
    connection.execute(f"{MAKE_FENCES} WITHOUT ROWID")


TABLES: Final = Schema("tables", 0, 0, _make_fences)
"""A file of the user. It has no application id and no format of the engine."""
_FENCE: Final = f"SELECT task, tasks, txid, attempt FROM {FENCES} WHERE topology = ? AND component = ?"
_PUT: Final = f"INSERT OR REPLACE INTO {FENCES} VALUES (?, ?, ?, ?, ?, ?)"
_FORGET: Final = f"DELETE FROM {FENCES} WHERE topology = ? AND component = ?"
_AS_TEXT: Final[Mapping[type, Callable[[Any], str]]] = {
    datetime: lambda value: value.isoformat(" "),
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
}
"""Types that SQLite has no column for. Its date and time functions read these texts."""
_OF_ROWS: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError, UnicodeError)
"""Errors that depend on the values of a row. Errors of the statement are found before."""


class SqliteRowStore(RowStore):
    """One statement, for one task."""

    def __init__(self, path: Path, statement: RowStatement, writer: RowWriter) -> None:
        self._file = UserFile(path, TABLES)
        self._where = f"the database in {str(path)!r}"
        self._statement = statement
        self._writer = writer

    async def open(self) -> None:
        await self._file.open()
        await self._file.write(self._prepare)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._check(connection)
        _make_fences(connection)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Compile the statement. Raises StatementRefused."""
        try:
            connection.executemany(self._statement.text, ())
        except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
            if _name_of(error) in ("SQLITE_ERROR", ""):
                raise self._statement.refused(self._where, error) from error
            raise

    def stage(self, rows: Sequence[Row]) -> Sequence[Row]:
        types = set(map(type, chain.from_iterable(rows)))
        nans = [number for number, row in enumerate(rows) if _has_nan(row)] if float in types else []
        if nans:
            text = "SQLite would store NaN as NULL"
            raise self._statement.row_refused(self._where, text, rows[nans[0]], dict.fromkeys(nans, text))
        if types.isdisjoint(_AS_TEXT):
            return rows
        return [tuple([_AS_TEXT[type(value)](value) if type(value) in _AS_TEXT else value for value in row]) for row in rows]

    async def fence(self) -> RowFence:
        return await self._file.write_once(self._fence)

    def _fence(self, connection: sqlite3.Connection) -> RowFence:
        return row_fence(connection.execute(_FENCE, (self._writer.topology, self._writer.component)).fetchall())

    async def publish(self, seen: RowFence, attempt: AttemptId, rows: Sequence[Row]) -> bool:
        writer = self._writer

        def put(connection: sqlite3.Connection) -> bool:
            now = self._fence(connection)
            done = now.tasks.get(writer.task)
            if now.attempt not in (seen.attempt, attempt) or (done is not None and done.txid >= attempt[0]):
                return False
            for task in (COMPONENT, writer.task):
                connection.execute(_PUT, (writer.topology, writer.component, task, writer.tasks, *attempt))
            self._execute(connection, rows)
            return True

        return await self._file.write(put)

    async def forget(self) -> None:
        owner = (self._writer.topology, self._writer.component)
        await self._file.write(lambda connection: connection.execute(_FORGET, owner).rowcount)

    def _execute(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        connection.execute("SAVEPOINT batch")
        try:
            connection.executemany(self._statement.text, rows)
        except (sqlite3.OperationalError, *_OF_ROWS) as error:
            if not _is_of_a_row(error):
                raise
            if connection.in_transaction:
                self._check(connection)  # another program may have changed the tables
                connection.execute("ROLLBACK TO batch")
            else:  # OR ROLLBACK, or RAISE(ROLLBACK) in a trigger, has ended it
                connection.execute("BEGIN")
            self._explain(connection, error, rows)

    def _explain(self, connection: sqlite3.Connection, cause: Exception, rows: Sequence[Row]) -> NoReturn:
        """Raise RowRefused with the rows that fail. Executes the rows again, one by one; the caller's transaction is undone."""
        refused: dict[int, Exception] = {}
        for number, row in enumerate(rows):
            try:
                connection.execute(self._statement.text, row)
            except (sqlite3.OperationalError, *_OF_ROWS) as error:
                if not _is_of_a_row(error):
                    raise
                refused[number] = error
                if not connection.in_transaction:
                    break  # the next publishing finds the others
        first = next(iter(refused), None)
        if first is None:
            raise self._statement.row_refused(self._where, cause, None) from cause
        errors = {number: str(error) for number, error in refused.items()}
        raise self._statement.row_refused(self._where, refused[first], rows[first], errors) from refused[first]

    async def close(self) -> None:
        await self._file.close()


class UserFile(SqliteFile):
    """A file of the user, which must exist. Its journal mode stays as it is."""

    async def open(self) -> None:
        """Open the file. Raises StateError if there is none."""
        check_place(self.path, TABLES)
        if not self.path.is_file():
            hint = "Create it with the tables that the statement names, or correct the path."
            raise StateError(f"there is no database in {str(self.path)!r}: the file does not exist", hint=hint)
        try:
            await self._in_thread(self._open_writer)
        except BaseException:
            await self.close()
            raise

    def _open_writer(self) -> None:
        check_file(self.path, TABLES, writes=True)
        self._writer = self._connect(WRITER_BUSY_SECS)
        self._writer.execute("PRAGMA foreign_keys = ON")  # else SQLite ignores the foreign keys that the tables declare


def _has_nan(row: Row) -> bool:
    return any(type(value) is float and isnan(value) for value in row)


def _is_of_a_row(error: Exception) -> bool:
    return not isinstance(error, sqlite3.OperationalError) or _name_of(error) == "SQLITE_ERROR"


def _name_of(error: Exception) -> str:
    return getattr(error, "sqlite_errorname", "") or ""
