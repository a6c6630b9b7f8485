"""Statements of the driver over JDBC: in the JVM of a session, by the driver's jar that Spark has."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from spark_bridge.sinks.batch import SinkError, SinkUnavailable, raised_in_a_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER: Final = "org.postgresql.Driver"
URL_HINT: Final = "It is postgresql://user:password@host:5432/database."
JAR_HINT: Final = (
    "Start Spark with PostgreSQL's JDBC driver: spark.jars=/path/to/postgresql-42.7.8.jar, or --packages org.postgresql:postgresql:42.7.8."
)
AWAY: Final = tuple(
    re.compile(text)
    for text in (
        r"PSQLException: Connection to \S+ refused",
        "PSQLException: The connection attempt failed",
        "PSQLException: An I/O error occurred",
        "PSQLException: This connection has been closed",
        "FATAL: terminating connection",
        "FATAL: the database system is (starting up|shutting down|in recovery mode|not yet accepting)",
        "FATAL: (sorry, too many clients|remaining connection slots)",
    )
)
"""What PostgreSQL's driver says, in its own language, of SQLSTATE classes 08, 53 and 57; in an error of a task there is only the text."""


@dataclass(frozen=True)
class Database:
    """Where a database is, as JDBC wants it."""

    url: str
    """"jdbc:postgresql://host:port/database"."""
    credentials: dict[str, str] = field(repr=False)

    @classmethod
    def at(cls, url: str) -> "Database":
        """Return it; raise SinkError for what is no URL of PostgreSQL.

        >>> Database.at("postgresql://me:s%40fe@db:5432/logs?sslmode=require").url
        'jdbc:postgresql://db:5432/logs?sslmode=require'
        """
        if url.startswith("jdbc:postgresql:"):
            return cls(url, {})
        parts = urlsplit(url)
        if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or not parts.path.strip("/"):
            raise SinkError(f"the URL begins with {parts.scheme!r} and is none of a database of PostgreSQL", hint=URL_HINT)
        host = parts.netloc.rpartition("@")[2]
        named = {"user": parts.username, "password": parts.password}
        query = f"?{parts.query}" if parts.query else ""
        credentials = {name: unquote(value) for name, value in named.items() if value is not None}
        return cls(f"jdbc:postgresql://{host}{parts.path}{query}", credentials)

    def options(self) -> dict[str, str]:
        """Those of Spark's reader and writer of JDBC."""
        return {"url": self.url, "driver": DRIVER, **self.credentials}

    @contextmanager
    def connected(self, spark: "SparkSession") -> Iterator["Connection"]:
        """A connection of the driver. Raises SinkError for whatever goes wrong meanwhile."""
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            text = "a session of Spark Connect has no connection to a database of its own"
            raise SinkError(
                text, hint="Run the query in a classic session (local, spark://, YARN, Kubernetes), or write to Delta or Parquet."
            )
        with self.explained():
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
            properties = jvm.java.util.Properties()
            for name, value in self.credentials.items():
                properties.setProperty(name, value)
            java = jvm.java.sql.DriverManager.getConnection(self.url, properties)
            try:
                yield Connection(java)
            finally:
                java.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the JVM raises into a SinkError that says what to do."""
        try:
            yield
        except SinkError:
            raise
        except Exception as error:
            if raised_in_a_task(error):
                raise
            said = _said(error)
            if "ClassNotFoundException" in said or "No suitable driver" in said:
                raise SinkError(f"this Spark has no driver for {self.url}: {said}", hint=JAR_HINT) from error
            hint = "Nothing of the micro-batch is written. Correct the cause and start the query again: Spark repeats it."
            raise (SinkUnavailable if is_away(str(error)) else SinkError)(f"{self.url}: {said}", hint=hint) from error


class Connection:
    """A JDBC connection."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def execute(self, *statements: str) -> None:
        """Run statements in one transaction."""
        self._java.setAutoCommit(False)
        statement = self._java.createStatement()
        for text in statements:
            statement.execute(text)
        self._java.commit()
        self._java.setAutoCommit(True)

    def update(self, statement: str, values: Sequence[str | int]) -> int:
        """Run one statement, with a value for each `?`; return how many rows it changed."""
        return int(self._prepared(statement, values).executeUpdate())

    def rows(self, query: str, values: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        found = self._prepared(query, values).executeQuery()
        width = found.getMetaData().getColumnCount()
        rows = []
        while found.next():
            rows.append(tuple(found.getObject(column) for column in range(1, width + 1)))
        return rows

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; `table` is quoted."""
        told = self._prepared(f"SELECT * FROM {table} WHERE false", ()).executeQuery().getMetaData()
        return [str(told.getColumnName(column)) for column in range(1, told.getColumnCount() + 1)]

    def _prepared(self, statement: str, values: Sequence[str | int]) -> Any:
        prepared = self._java.prepareStatement(statement)
        for number, value in enumerate(values, 1):
            if isinstance(value, int):
                prepared.setLong(number, value)
            else:
                prepared.setString(number, value)
        return prepared


def is_away(text: str) -> bool:
    """Tell whether an error of the driver is one of its connection, or of a server that starts or ends.

    >>> is_away("org.postgresql.util.PSQLException: FATAL: the database system is starting up")
    True
    """
    return any(found.search(text) for found in AWAY)


def _said(error: Exception) -> str:
    """The JVM's own words, without its stack."""
    java = getattr(error, "java_exception", None)
    return str(java.toString()) if java is not None else str(error).partition("\n")[0]
