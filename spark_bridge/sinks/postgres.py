"""A table of PostgreSQL: the rows into a staging table, then one statement that notes the micro-batch and takes them."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_bridge.sinks.batch import Noted, Sink, SinkBatch, is_new, noted_of
from spark_bridge.sinks.jdbc import Connection, Database
from spark_bridge.sinks.sql import BATCHES, check_columns, columns_of, listed, on_conflict, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART: Final = "stormcell_part"
ATTEMPT: Final = "stormcell_attempt"
"""Columns of the staging table: a task whose executor dies after it has committed is run again, and its rows are there twice."""


@dataclass(frozen=True)
class Postgres(Sink):
    """Rows are written in parallel, and become visible at once with the note that this micro-batch is there.

    The table is made where it is missing, with types of Spark's choice. The notes are in `stormcell_batches`, in the schema that comes
    first for this user. With another checkpoint a query of the same name is refused, unless `replaces` names the one that is given up.
    Needs a classic session, and PostgreSQL's JDBC driver in it.
    """

    url: str = field(repr=False)
    """"postgresql://user:password@host:port/database"."""
    table: str
    """May be "schema.table"."""
    key: str | tuple[str, ...] = ()
    """Columns by which a row replaces the one that is there, for the output mode "update"; a table of one's own needs them unique."""
    replaces: str | None = None
    """The id of a checkpoint of this query that is given up: that of the error which asks for it."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip it where it is there. Raises SinkError."""
        database = Database.at(self.url)
        with database.connected(df.sparkSession) as connection:
            if not is_new(self._noted(connection, batch), batch, f"{database.url}: table {self.table!r}", self.replaces):
                return
            staging = self._beside(f"{self._mark(batch)}_{batch.batch_id}")
            self._stage(df, database, staging)
            self._make_table(connection, staging, df.columns, batch)
            check_columns(f"{database.url}: table {self.table!r}", connection.columns(self._quoted_table), df.columns)
            connection.update(self._statement(staging, df.columns), self._values(batch))
            connection.execute(f"DROP TABLE {staging}")

    def _stage(self, df: "DataFrame", database: Database, staging: str) -> None:
        from pyspark.sql.types import LongType, StructField, StructType

        schema = StructType([*df.schema.fields, StructField(PART, LongType()), StructField(ATTEMPT, LongType())])
        marked = df.mapInArrow(_with_attempt, schema)
        marked.write.format("jdbc").options(**database.options(), dbtable=staging).mode("overwrite").save()

    def _noted(self, connection: Connection, batch: SinkBatch) -> Noted | None:
        columns = "target text, query text, query_id text, batch_id bigint, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.rows(select, (self.table, batch.query))
        return noted_of(f"table {self.table!r}", *found[0]) if found else None

    def _make_table(self, connection: Connection, staging: str, names: list[str], batch: SinkBatch) -> None:
        """One transaction, so that there is no table without its key."""
        [(there,)] = connection.rows("SELECT to_regclass(?) IS NOT NULL", (self._quoted_table,))
        if there:
            return
        made = f"CREATE TABLE {self._quoted_table} AS SELECT {listed(names)} FROM {staging} WITH NO DATA"
        index = f"CREATE UNIQUE INDEX {self._mark(batch)}_key ON {self._quoted_table} ({listed(columns_of(self.key))})"
        connection.execute(made, *([index] if columns_of(self.key) else []))

    def _statement(self, staging: str, names: list[str]) -> str:
        return f"""
            WITH noted AS (
                INSERT INTO {BATCHES} AS known (target, query, query_id, batch_id) VALUES (?, ?, ?, ?)
                ON CONFLICT (target, query) DO UPDATE SET query_id = excluded.query_id, batch_id = excluded.batch_id
                WHERE known.query_id = ? OR (known.query_id = excluded.query_id AND known.batch_id < excluded.batch_id)
                RETURNING 1
            )
            INSERT INTO {self._quoted_table} ({listed(names)}) SELECT {listed(names)} FROM {staging}
            WHERE EXISTS (SELECT 1 FROM noted)
            AND ({PART}, {ATTEMPT}) IN (SELECT {PART}, min({ATTEMPT}) FROM {staging} GROUP BY {PART})
            {on_conflict(self.key, names)}"""

    def _values(self, batch: SinkBatch) -> tuple[str | int, ...]:
        return self.table, batch.query, batch.query_id, batch.batch_id, self.replaces or ""

    @property
    def _quoted_table(self) -> str:
        return ".".join(map(quoted, self.table.split(".")))

    def _beside(self, name: str) -> str:
        """A name in the schema of the table."""
        return ".".join(map(quoted, [*self.table.split(".")[:-1], name]))

    def _mark(self, batch: SinkBatch) -> str:
        return f"stormcell_{hashlib.sha256(f'{self.table} {batch.query}'.encode()).hexdigest()[:12]}"


def _with_attempt(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add which task wrote a row, and at which attempt; runs on executors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    part, attempt = context.partitionId(), context.taskAttemptId()
    for batch in batches:
        added = [pa.repeat(pa.scalar(value, pa.int64()), batch.num_rows) for value in (part, attempt)]
        yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, PART, ATTEMPT])
