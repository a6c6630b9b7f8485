"""Sink into a table of PostgreSQL, through a staging table. One statement then stores the micro-batch and copies the rows."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from spark_bridge.sinks.batch import Sink, SinkBatch, StoredBatch, is_new_batch, parse_stored_batch
from spark_bridge.sinks.jdbc import Connection, Database
from spark_bridge.sinks.sql import BATCHES, check_columns, column_list, columns_of, on_conflict, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART: Final = "stormcell_part"
ATTEMPT: Final = "stormcell_attempt"
"""Columns of the staging table. If Spark repeats a task after its commit, its rows are there twice, and one attempt is inserted."""


@dataclass(frozen=True)
class Postgres(Sink):
    """Writes rows in parallel. The rows become visible in one transaction, together with the id of the micro-batch.

    A missing table is created, with the types that Spark chooses. The ids are in the table `stormcell_batches`, in the first schema of
    the user's search path. A query of the same name with another checkpoint is refused, unless `replaces` has the id of the former one.
    Needs a classic session with PostgreSQL's JDBC driver.
    """

    url: str = field(repr=False)
    """"postgresql://user:password@host:port/database"."""
    table: str
    """Name of the table, or "schema.table"."""
    key: str | tuple[str, ...] = ()
    """Columns by which a row replaces an existing one, for the output mode "update". An existing table needs a unique index on them."""
    replaces: str | None = None
    """Id of an abandoned checkpoint of this query. The error that asks for it contains the id."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip a stored one. Raises SinkError."""
        database = Database.from_url(self.url)
        with database.connect(df.sparkSession) as connection:
            if not is_new_batch(self._stored_batch(connection, batch), batch, f"{database.url}: table {self.table!r}", self.replaces):
                return
            staging = self._in_same_schema(f"{self._name_prefix(batch)}_{batch.batch_id}")
            self._stage(df, database, staging)
            self._create_table(connection, staging, df.columns, batch)
            check_columns(f"{database.url}: table {self.table!r}", connection.columns(self._quoted_table), df.columns)
            connection.update(self._insert_statement(staging, df.columns), self._values(batch))
            connection.execute(f"DROP TABLE {staging}")

    def _stage(self, df: "DataFrame", database: Database, staging: str) -> None:
        from pyspark.sql.types import LongType, StructField, StructType

        schema = StructType([*df.schema.fields, StructField(PART, LongType()), StructField(ATTEMPT, LongType())])
        marked = df.mapInArrow(_with_attempt, schema)
        marked.write.format("jdbc").options(**database.options(), dbtable=staging).mode("overwrite").save()

    def _stored_batch(self, connection: Connection, batch: SinkBatch) -> StoredBatch | None:
        columns = "target text, query text, query_id text, batch_id bigint, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.rows(select, (self.table, batch.query))
        return parse_stored_batch(f"table {self.table!r}", *found[0]) if found else None

    def _create_table(self, connection: Connection, staging: str, names: list[str], batch: SinkBatch) -> None:
        """Create a missing table and its index in one transaction, so that no table exists without its key."""
        [(exists,)] = connection.rows("SELECT to_regclass(?) IS NOT NULL", (self._quoted_table,))
        if exists:
            return
        create = f"CREATE TABLE {self._quoted_table} AS SELECT {column_list(names)} FROM {staging} WITH NO DATA"
        index = f"CREATE UNIQUE INDEX {self._name_prefix(batch)}_key ON {self._quoted_table} ({column_list(columns_of(self.key))})"
        connection.execute(create, *([index] if columns_of(self.key) else []))

    def _insert_statement(self, staging: str, names: list[str]) -> str:
        return f"""
            WITH stored AS (
                INSERT INTO {BATCHES} AS known (target, query, query_id, batch_id) VALUES (?, ?, ?, ?)
                ON CONFLICT (target, query) DO UPDATE SET query_id = excluded.query_id, batch_id = excluded.batch_id
                WHERE known.query_id = ? OR (known.query_id = excluded.query_id AND known.batch_id < excluded.batch_id)
                RETURNING 1
            )
            INSERT INTO {self._quoted_table} ({column_list(names)}) SELECT {column_list(names)} FROM {staging}
            WHERE EXISTS (SELECT 1 FROM stored)
            AND ({PART}, {ATTEMPT}) IN (SELECT {PART}, min({ATTEMPT}) FROM {staging} GROUP BY {PART})
            {on_conflict(self.key, names)}"""

    def _values(self, batch: SinkBatch) -> tuple[str | int, ...]:
        return self.table, batch.query, batch.query_id, batch.batch_id, self.replaces or ""

    @property
    def _quoted_table(self) -> str:
        return ".".join(map(quoted, self.table.split(".")))

    def _in_same_schema(self, name: str) -> str:
        """Return a quoted name in the schema of the table."""
        return ".".join(map(quoted, [*self.table.split(".")[:-1], name]))

    def _name_prefix(self, batch: SinkBatch) -> str:
        return f"stormcell_{hashlib.sha256(f'{self.table} {batch.query}'.encode()).hexdigest()[:12]}"


def _with_attempt(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add the task and its attempt to each row. Runs on executors."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    part, attempt = context.partitionId(), context.taskAttemptId()
    for batch in batches:
        added = [pa.repeat(pa.scalar(value, pa.int64()), batch.num_rows) for value in (part, attempt)]
        yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, PART, ATTEMPT])
