"""Sink into a table of an SQLite file. The driver process collects the rows as Arrow, and writes them."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, SinkUnavailable, StoredBatch, is_new_batch, parse_stored_batch
from spark_bridge.sinks.sql import BATCHES, check_columns, column_list, columns_of, on_conflict, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_AT_ONCE: Final = 10_000
WAIT_SECS: Final = 60.0
"""Longest wait for the lock of another connection."""
TEMPORARY_ERRORS: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL")
"""Errors of SQLite that may not happen again."""
HINTS: Final = {
    "SQLITE_NOTADB": "The file is not an SQLite file, or it is damaged. Write to another path, or restore it from a copy.",
    "SQLITE_CORRUPT": "The file is damaged. Restore it from a copy, or write to another path.",
    "SQLITE_BUSY": "End the program that holds the lock.",
    "SQLITE_LOCKED": "End the program that holds the lock.",
    "SQLITE_FULL": "Free space on the disk.",
    "SQLITE_CANTOPEN": "Correct the path or its permissions.",
    "SQLITE_READONLY": "Correct the permissions.",
    "SQLITE_IOERR": "Check the disk.",
}
"""Hints by SQLite's name of an error."""
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Sqlite(Sink):
    """Writes rows and the id of the micro-batch in one transaction. The driver process keeps a micro-batch in memory.

    A missing table is created. Times are stored as ISO text in UTC, decimals as text, lists and structs as JSON. A query of the same
    name with another checkpoint is refused, unless `replaces` has the id of the former one.
    """

    path: str
    table: str
    key: str | tuple[str, ...] = ()
    """Columns by which a row replaces an existing one, for the output mode "update"."""
    replaces: str | None = None
    """Id of an abandoned checkpoint of this query. The error that asks for it contains the id."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip a stored one. Raises SinkError."""
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT_SECS, isolation_level=None)) as connection:
                if not self._is_new_batch(connection, batch):
                    return
                rows = df.toArrow()
                connection.execute("BEGIN IMMEDIATE")
                if self._is_new_batch(connection, batch):  # check again while the lock is held
                    self._write(connection, rows, batch)
                connection.execute("COMMIT")
        except UnicodeDecodeError as error:  # in a value of the file, or in an error text of SQLite
            text = f"{self.path}: table {self.table!r}: the file is damaged: it has text that is not valid UTF-8"
            raise SinkError(text, hint="Restore the file from a copy. Nothing of the micro-batch was written.") from error
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            kind = SinkUnavailable if name.startswith(TEMPORARY_ERRORS) else SinkError
            hint = next((hint for begin, hint in HINTS.items() if name.startswith(begin)), "Correct the table, or the query's columns.")
            text = f"{self.path}: table {self.table!r}: {error}"
            raise kind(text, hint=f"{hint} Nothing of the micro-batch was written.") from error

    def _is_new_batch(self, connection: sqlite3.Connection, batch: SinkBatch) -> bool:
        return is_new_batch(self._stored_batch(connection, batch), batch, f"{self.path}: table {self.table!r}", self.replaces)

    def _write(self, connection: sqlite3.Connection, rows: pa.Table, batch: SinkBatch) -> None:
        self._create_table(connection, rows.schema)
        names, marks = rows.column_names, ", ".join("?" * rows.num_columns)
        statement = f"INSERT INTO {quoted(self.table)} ({column_list(names)}) VALUES ({marks}) {on_conflict(self.key, names)}"
        connection.executemany(statement, _values(rows))
        connection.execute(
            f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?, ?)", (self.table, batch.query, batch.query_id, batch.batch_id)
        )

    def _stored_batch(self, connection: sqlite3.Connection, batch: SinkBatch) -> StoredBatch | None:
        columns = "target TEXT, query TEXT, query_id TEXT, batch_id INTEGER, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.execute(select, (self.table, batch.query)).fetchone()
        return None if found is None else parse_stored_batch(f"{self.path}: table {self.table!r}", *found)

    def _create_table(self, connection: sqlite3.Connection, schema: pa.Schema) -> None:
        columns = [f"{quoted(column.name)} {_kind(column.type)[0]}".rstrip() for column in schema]
        key = [f"PRIMARY KEY ({column_list(columns_of(self.key))})"] if columns_of(self.key) else []
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(columns + key)})")
        existing = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(self.table)})")]
        check_columns(f"{self.path}: table {self.table!r}", existing, schema.names)


def _values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    converts = [_kind(column.type)[1] for column in rows.schema]
    for part in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
        columns = [map(convert, column.to_pylist()) for convert, column in zip(converts, part.columns, strict=True)]
        yield from zip(*columns, strict=True)


def _kind(kind: pa.DataType) -> tuple[str, Convert]:
    """Return SQLite's name of a type, and the conversion of Python values to it."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return "INTEGER", _same
    if pa.types.is_floating(kind):
        return "REAL", _same
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "BLOB", _same
    if pa.types.is_nested(kind):
        return "TEXT", lambda value: None if value is None else json.dumps(value, default=_text)
    return "TEXT", lambda value: None if value is None else _text(value)


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal | str) else repr(value)
