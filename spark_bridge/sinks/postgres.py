"""Sink into a table of PostgreSQL, through a staging table. One statement then stores the micro-batch and copies the rows."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from spark_bridge.sinks.batch import Sink, SinkBatch, SinkError, StoredBatch, is_new_batch, parse_stored_batch
from spark_bridge.sinks.jdbc import Connection, Database
from spark_bridge.sinks.postgres_columns import JSON, check_names, expression, sql_type, staged_name, staged_type
from spark_bridge.sinks.postgres_rows import ATTEMPT, PART, REASON, REJECTED, ROW, Staging
from spark_bridge.sinks.sql import BATCHES, check_columns, column_list, columns_of, on_conflict, quoted
from spark_bridge.sinks.values import with_arrow_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REJECTS: Final = "stormcell_rejects"
"""Table with the rows that PostgreSQL cannot store, as JSON."""
Expressions: TypeAlias = Mapping[str, str]
"""SQL that makes the value of each column, by the column's name."""
OnBadRow: TypeAlias = Literal["stop", "reject"]


@dataclass(frozen=True)
class Postgres(Sink):
    """Writes rows in parallel. The rows become visible in one transaction, together with the id of the micro-batch.

    A missing table is created. docs/SPARK.md has the types of its columns. The ids are in the table `stormcell_batches`, in the first
    schema of the user's search path. With a key, the last row of a key in a micro-batch wins. A query of the same name with another
    checkpoint is refused, unless `replaces` has the id of the former one. Needs a classic session with PostgreSQL's JDBC driver.
    """

    url: str = field(repr=False)
    """"postgresql://user:password@host:port/database"."""
    table: str
    """Name of the table, or "schema.table"."""
    key: str | tuple[str, ...] = ()
    """Columns by which a row replaces an existing one, for the output mode "update". An existing table needs a unique index on them."""
    replaces: str | None = None
    """Id of an abandoned checkpoint of this query. The error that asks for it contains the id."""
    on_bad_row: OnBadRow = "stop"
    """What happens to a row with a value that PostgreSQL cannot store, such as a text with the character NUL. "stop": the query ends with
    the column and the value. "reject": the row goes to the table `stormcell_rejects` as JSON, with the reason."""

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        """Write a micro-batch, or skip a stored one. Raises SinkError."""
        database = Database.from_url(self.url)
        where = f"{database.where}: table {self.table!r}"
        with database.connect(df.sparkSession) as connection:
            if not is_new_batch(self._stored_batch(connection, batch), batch, where, self.replaces):
                return
            check_names(where, df.columns, columns_of(self.key))
            staging = self._in_same_schema(f"{self._name_prefix(batch)}_{batch.batch_id}")
            [(encoding,)] = connection.rows("SHOW server_encoding")
            self._stage(with_arrow_types(df, where), database, staging, encoding)
            columns = {each.name: expression(each.dataType, staged_name(number)) for number, each in enumerate(df.schema)}
            types = connection.types(self._quoted_table) or self._create_table(connection, staging, columns, batch)
            check_columns(where, list(types), df.columns)
            self._check_values(connection, staging, df, types)
            connection.update(self._insert_statement(staging, columns), self._values(batch))
            connection.execute(f"DROP TABLE {staging}")

    def _stage(self, df: "DataFrame", database: Database, staging: str, encoding: str) -> None:
        """Write the rows to a new table with the columns c0, c1, ..., because Spark would parse the names, and PostgreSQL cut them."""
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        columns = [StructField(staged_name(number), staged_type(column.dataType)) for number, column in enumerate(df.schema)]
        rows = Staging(tuple(df.columns), encoding, rejects=self.on_bad_row == "reject", numbers=bool(columns_of(self.key)))
        reasons = [StructField(name, StringType()) for name in (REASON, REJECTED) if rows.rejects]
        schema = StructType([*columns, *reasons, *(StructField(name, LongType()) for name in rows.marks())])
        numbered = df.toDF(*(column.name for column in columns))
        marked = numbered.mapInArrow(rows, schema)
        marked.write.format("jdbc").options(**database.options(), dbtable=staging).mode("overwrite").save()

    def _stored_batch(self, connection: Connection, batch: SinkBatch) -> StoredBatch | None:
        columns = "target text, query text, query_id text, batch_id bigint, PRIMARY KEY (target, query)"
        connection.execute(f"CREATE TABLE IF NOT EXISTS {BATCHES} ({columns})")
        if self.on_bad_row == "reject":
            columns = 'target text, query text, query_id text, batch_id bigint, reason text, "row" json'
            connection.execute(f"CREATE TABLE IF NOT EXISTS {REJECTS} ({columns})")
        select = f"SELECT query_id, batch_id FROM {BATCHES} WHERE target = ? AND query = ?"
        found = connection.rows(select, (self.table, batch.query))
        return parse_stored_batch(f"table {self.table!r}", *found[0]) if found else None

    def _create_table(self, connection: Connection, staging: str, columns: Expressions, batch: SinkBatch) -> dict[str, str]:
        """Create the table and its index in one transaction, so that no table exists without its key. Return the types of its columns."""
        values = ", ".join(f"{value} AS {quoted(name)}" for name, value in columns.items())
        create = f"CREATE TABLE {self._quoted_table} AS SELECT {values} FROM {staging} WITH NO DATA"
        index = f"CREATE UNIQUE INDEX {self._name_prefix(batch)}_key ON {self._quoted_table} ({column_list(columns_of(self.key))})"
        connection.execute(create, *([index] if columns_of(self.key) else []))
        return connection.types(self._quoted_table)

    def _check_values(self, connection: Connection, staging: str, df: "DataFrame", types: Mapping[str, str]) -> None:
        """Raise SinkError for a value that a column of an existing table would round or cut. PostgreSQL does so without an error."""
        for number, column in enumerate(df.schema):
            wanted, existing = sql_type(column.dataType), types[column.name]
            if wanted in (existing, JSON.sql):
                continue
            value = expression(column.dataType, staged_name(number))
            changed = (
                f"SELECT left(({value})::text, 100) FROM {staging} WHERE ({value})::{existing}::{wanted} IS DISTINCT FROM {value} LIMIT 1"
            )
            where = f"table {self.table!r}: column {column.name!r} is of type {existing}, and the query's of type {wanted}"
            if found := connection.rows(changed, where=where):
                text = f"{where}: the value {found[0][0]!r} would be changed"
                raise SinkError(text, hint="Round or cut the value in the query, or change the column (ALTER TABLE).")

    def _insert_statement(self, staging: str, columns: Expressions) -> str:
        names = list(columns)
        key = self._staged_key(names)
        return f"""
            WITH stored AS (
                INSERT INTO {BATCHES} AS known (target, query, query_id, batch_id) VALUES (?, ?, ?, ?)
                ON CONFLICT (target, query) DO UPDATE SET query_id = excluded.query_id, batch_id = excluded.batch_id
                WHERE known.query_id = ? OR (known.query_id = excluded.query_id AND known.batch_id < excluded.batch_id)
                RETURNING *
            ){self._rejected(staging) if self.on_bad_row == "reject" else ""}
            INSERT INTO {self._quoted_table} ({column_list(names)})
            SELECT {", ".join(columns.values())} FROM (
                SELECT {f"DISTINCT ON ({key})" if key else ""} * FROM {staging}
                WHERE EXISTS (SELECT 1 FROM stored)
                AND {_of_one_attempt(staging)}
                {f"AND {REASON} IS NULL" if self.on_bad_row == "reject" else ""}
                {f"ORDER BY {key}, {PART} DESC, {ROW} DESC" if key else ""}
            ) AS newest
            {on_conflict(self.key, names)}"""

    def _rejected(self, staging: str) -> str:
        """Return the part of the statement that stores the rejected rows."""
        return f""", rejected AS (
                INSERT INTO {REJECTS} (target, query, query_id, batch_id, reason, "row")
                SELECT target, query, query_id, batch_id, {REASON}, {REJECTED}::json FROM {staging}, stored
                WHERE {REASON} IS NOT NULL AND {_of_one_attempt(staging)}
            )"""

    def _staged_key(self, names: list[str]) -> str:
        """Return the columns of which the newest row is inserted, because ON CONFLICT replaces a row once only. Empty without a key.

        Rows with a NULL in their key do not replace each other.
        """
        columns = [staged_name(names.index(name)) for name in columns_of(self.key)]
        has_null = " OR ".join(f"{column} IS NULL" for column in columns)
        return ", ".join([*columns, *(f"CASE WHEN {has_null} THEN {mark} END" for mark in (PART, ROW))] if columns else [])

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


def _of_one_attempt(staging: str) -> str:
    """Return the condition that a staged row belongs to the first attempt of its task."""
    return f"({PART}, {ATTEMPT}) IN (SELECT {PART}, min({ATTEMPT}) FROM {staging} GROUP BY {PART})"
