"""Sink into a table of an SQLite file. The driver process collects the rows as Arrow, and writes them."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.sinks.affinity import affinity_of, kept_values, numbered_column, without_null
from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, SinkUnavailable, StoredBatch, is_new_batch, parse_stored_batch
from spark_bridge.sinks.sql import BATCHES, check_columns, column_list, columns_of, on_conflict, quoted
from spark_bridge.sinks.values import json_texts, plain, texts, with_arrow_types

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


@dataclass(frozen=True)
class Sqlite(Sink):
    """Writes rows and the id of the micro-batch in one transaction. The driver process keeps a micro-batch in memory.

    A missing table is created. Values for which SQLite has no type are stored as text or numbers: docs/SPARK.md has the table. A query of
    the same name with another checkpoint is refused, unless `replaces` has the id of the former one.
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
                rows = with_arrow_types(df, self._where).toArrow()
                connection.execute("BEGIN IMMEDIATE")
                if self._is_new_batch(connection, batch):  # check again while the lock is held
                    self._write(connection, rows, batch)
                connection.execute("COMMIT")
        except UnicodeDecodeError as error:  # in a value of the file, or in an error text of SQLite
            text = f"{self._where}: the file is damaged: it has text that is not valid UTF-8"
            raise SinkError(text, hint="Restore the file from a copy. Nothing of the micro-batch was written.") from error
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            kind = SinkUnavailable if name.startswith(TEMPORARY_ERRORS) else SinkError
            hint = next((hint for begin, hint in HINTS.items() if name.startswith(begin)), "Correct the table, or the query's columns.")
            text = f"{self._where}: {error}"
            raise kind(text, hint=f"{hint} Nothing of the micro-batch was written.") from error

    @property
    def _where(self) -> str:
        return f"{self.path}: table {self.table!r}"

    def _is_new_batch(self, connection: sqlite3.Connection, batch: SinkBatch) -> bool:
        return is_new_batch(self._stored_batch(connection, batch), batch, self._where, self.replaces)

    def _write(self, connection: sqlite3.Connection, rows: pa.Table, batch: SinkBatch) -> None:
        columns = self._create_table(connection, rows.schema)
        names, marks = rows.column_names, ", ".join("?" * rows.num_columns)
        statement = f"INSERT INTO {quoted(self.table)} ({column_list(names)}) VALUES ({marks}) {on_conflict(self.key, names)}"
        connection.executemany(statement, self._values(rows, columns))
        connection.execute(
            f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?, ?)", (self.table, batch.query, batch.query_id, batch.batch_id)
        )

    def _stored_batch(self, connection: sqlite3.Connection, batch: SinkBatch) -> StoredBatch | None:
        columns = "target TEXT, query TEXT, query_id TEXT, batch_id INTEGER, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.execute(select, (self.table, batch.query)).fetchone()
        return None if found is None else parse_stored_batch(self._where, *found)

    def _create_table(self, connection: sqlite3.Connection, schema: pa.Schema) -> list[tuple[Any, ...]]:
        """Create a missing table. Return the description of its columns."""
        columns = [f"{quoted(column.name)} {_sqlite_type(column.type)}" for column in schema]
        key = [f"PRIMARY KEY ({column_list(columns_of(self.key))})"] if columns_of(self.key) else []
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(columns + key)})")
        described = list(connection.execute(f"PRAGMA table_info({quoted(self.table)})"))
        check_columns(self._where, [row[1] for row in described], schema.names)
        return described

    def _values(self, rows: pa.Table, described: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        declared = {row[1]: row[2] for row in described}
        numbered = numbered_column(described)
        for part in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
            columns = []
            for column, field in zip(part.columns, rows.schema, strict=True):
                values, where = _column_values(column), f"{self._where}: column {field.name!r}"
                if affinity_of(declared[field.name]) != _sqlite_type(field.type):
                    values = kept_values(values, declared[field.name], where, is_decimal=pa.types.is_decimal(field.type))
                columns.append(without_null(values, where) if field.name == numbered else values)
            yield from zip(*columns, strict=True)


def _column_values(column: pa.Array) -> Iterable[Any]:
    """Return the values of a column as SQLite stores them."""
    kind = column.type
    if pa.types.is_nested(kind):
        return json_texts(column)
    if pa.types.is_floating(kind):
        has_nan = pc.any(pc.is_nan(column)).as_py()
        return ["NaN" if value != value else value for value in column.to_pylist()] if has_nan else column.to_pylist()
    return plain(column).to_pylist() if _sqlite_type(kind) != "TEXT" else texts(column)


def _sqlite_type(kind: pa.DataType) -> str:
    """Return SQLite's name of the type that a new table gets."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_duration(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "TEXT"
