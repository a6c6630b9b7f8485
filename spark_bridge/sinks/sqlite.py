"""A table of an SQLite file, by Arrow through the driver."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_bridge.sinks.batch import Noted, Sink, SinkBatch, SinkError, SinkUnavailable, is_new, noted_of
from spark_bridge.sinks.sql import BATCHES, check_columns, columns_of, listed, on_conflict, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_AT_ONCE: Final = 10_000
WAIT_SECS: Final = 60.0
"""For another connection that writes."""
MAY_PASS: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL")
"""Errors of SQLite that another try may not meet."""
HINTS: Final = {
    "SQLITE_NOTADB": "It is no SQLite file, or damaged: write to another path, or restore it from a copy.",
    "SQLITE_CORRUPT": "It is damaged: restore it from a copy, or write to another path.",
    "SQLITE_BUSY": "End what holds the file.",
    "SQLITE_LOCKED": "End what holds the file.",
    "SQLITE_FULL": "Make room.",
    "SQLITE_CANTOPEN": "Correct the path, or the rights.",
    "SQLITE_READONLY": "Correct the rights.",
    "SQLITE_IOERR": "See what is wrong with the disk.",
}
"""By SQLite's name of an error: what to do."""
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Sqlite(Sink):
    """Rows and the micro-batch are written in one transaction of the driver, which holds a whole micro-batch in memory: for results,
    not for all rows.

    The table is made where it is missing. Times are ISO text in UTC, decimals text, lists and structs JSON. With another checkpoint a query
    of the same name is refused, unless `replaces` names the one that is given up.
    """

    path: str
    table: str
    key: str | tuple[str, ...] = ()
    """Columns by which a row replaces the one that is there: for the output mode "update"."""
    replaces: str | None = None
    """The id of a checkpoint of this query that is given up: that of the error which asks for it."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip it where it is there. Raises SinkError."""
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT_SECS, isolation_level=None)) as connection:
                if not self._is_new(connection, batch):
                    return
                rows = df.toArrow()
                connection.execute("BEGIN IMMEDIATE")
                if self._is_new(connection, batch):  # nobody has written it meanwhile
                    self._write(connection, rows, batch)
                connection.execute("COMMIT")
        except UnicodeDecodeError as error:  # a text of the file that SQLite gives, or says in an error
            text = f"{self.path}: table {self.table!r}: the file is damaged: it has a text that is no UTF-8"
            raise SinkError(text, hint="Restore the file from a copy. Nothing of the micro-batch is written.") from error
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            kind = SinkUnavailable if name.startswith(MAY_PASS) else SinkError
            hint = next((hint for begin, hint in HINTS.items() if name.startswith(begin)), "Correct the table, or what the query gives.")
            text = f"{self.path}: table {self.table!r}: {error}"
            raise kind(text, hint=f"{hint} Nothing of the micro-batch is written.") from error

    def _is_new(self, connection: sqlite3.Connection, batch: SinkBatch) -> bool:
        return is_new(self._noted(connection, batch), batch, f"{self.path}: table {self.table!r}", self.replaces)

    def _write(self, connection: sqlite3.Connection, rows: pa.Table, batch: SinkBatch) -> None:
        self._make_table(connection, rows.schema)
        names, marks = rows.column_names, ", ".join("?" * rows.num_columns)
        statement = f"INSERT INTO {quoted(self.table)} ({listed(names)}) VALUES ({marks}) {on_conflict(self.key, names)}"
        connection.executemany(statement, _values(rows))
        connection.execute(
            f"INSERT OR REPLACE INTO {BATCHES} VALUES (?, ?, ?, ?)", (self.table, batch.query, batch.query_id, batch.batch_id)
        )

    def _noted(self, connection: sqlite3.Connection, batch: SinkBatch) -> Noted | None:
        columns = "target TEXT, query TEXT, query_id TEXT, batch_id INTEGER, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.execute(select, (self.table, batch.query)).fetchone()
        return None if found is None else noted_of(f"{self.path}: table {self.table!r}", *found)

    def _make_table(self, connection: sqlite3.Connection, schema: pa.Schema) -> None:
        columns = [f"{quoted(column.name)} {_kind(column.type)[0]}".rstrip() for column in schema]
        key = [f"PRIMARY KEY ({listed(columns_of(self.key))})"] if columns_of(self.key) else []
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(columns + key)})")
        there = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(self.table)})")]
        check_columns(f"{self.path}: table {self.table!r}", there, schema.names)


def _values(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    converts = [_kind(column.type)[1] for column in rows.schema]
    for part in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
        columns = [map(convert, column.to_pylist()) for convert, column in zip(converts, part.columns, strict=True)]
        yield from zip(*columns, strict=True)


def _kind(kind: pa.DataType) -> tuple[str, Convert]:
    """Return what SQLite calls a type, and what makes its values of those of Python."""
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
