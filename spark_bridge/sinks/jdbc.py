"""JDBC connections of Spark's driver process to PostgreSQL. The connections run in the JVM of the session, and need the JDBC jar there."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from spark_bridge.sinks.batch import SinkError, SinkUnavailable, error_of_a_task, raised_in_a_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER: Final = "org.postgresql.Driver"
URL_HINT: Final = "Write postgresql://user:password@host:5432/database."
JAR_HINT: Final = (
    "Start Spark with PostgreSQL's JDBC driver: spark.jars=/path/to/postgresql-42.7.8.jar, or --packages org.postgresql:postgresql:42.7.8."
)
UNAVAILABLE: Final = tuple(
    re.compile(text)
    for text in (
        r"PSQLException: Connection to \S+ refused",
        "PSQLException: The connection attempt failed",
        "PSQLException: An I/O error occurred",
        "PSQLException: This connection has been closed",
        "FATAL: terminating connection",
        "FATAL: the database system is (starting up|shutting down|in recovery mode|not yet accepting)",
        "FATAL: (sorry, too many clients|remaining connection slots)",
        "Could not find a server with specified targetServerType",
    )
)
"""Messages of the JDBC driver for SQLSTATE classes 08, 53 and 57. An error of a task has only the message, not the SQLSTATE."""
STACK: Final = re.compile(r"\n\s*at |\n\n?(?:Driver stacktrace|JVM stacktrace|Caused by)")
FAILED_TASK: Final = re.compile(r"most recent failure: Lost task [^\n]*?\(TID \d+\) \([^)]*\): ")
MOST_CHARACTERS: Final = 500
"""Longest reason. PostgreSQL's details have values of the row."""


@dataclass(frozen=True)
class Database:
    """Address of a database for JDBC."""

    url: str = field(repr=False)
    """"jdbc:postgresql://host:port/database"."""
    credentials: dict[str, str] = field(repr=False)

    @classmethod
    def from_url(cls, url: str) -> "Database":
        """Parse a URL. Raise SinkError if it is not a PostgreSQL URL.

        >>> Database.from_url("postgresql://me:s%40fe@db:5432/logs?sslmode=require").url
        'jdbc:postgresql://db:5432/logs?sslmode=require'
        >>> Database.from_url("postgresql://one,two:5433/logs?target_session_attrs=primary").url
        'jdbc:postgresql://one,two:5433/logs?targetServerType=primary'
        >>> Database.from_url("postgresql://me@one,[::1]:5433/logs").url
        'jdbc:postgresql://one,[::1]:5433/logs'
        """
        if url.startswith("jdbc:postgresql:"):
            return cls(url, {})
        parts, hosts = _split(url)
        if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or not parts.path.strip("/"):
            raise SinkError(f"a URL with the scheme {parts.scheme!r} is not the URL of a PostgreSQL database", hint=URL_HINT)
        named = {"user": parts.username, "password": parts.password}
        given = parse_qsl(parts.query, keep_blank_values=True)
        options = [_as_driver_knows(*option) for option in given if option[0] not in named]
        query = f"?{urlencode(options)}" if options else ""
        credentials = {name: unquote(value) for name, value in named.items() if value is not None}
        credentials |= {name: value for name, value in given if name in named}
        return cls(f"jdbc:postgresql://{hosts}{parts.path}{query}", credentials)

    @property
    def where(self) -> str:
        """The URL for messages, without its options, among which a URL of JDBC has the password."""
        return self.url.partition("?")[0]

    def options(self) -> dict[str, str]:
        """Return the options of Spark's JDBC reader and writer."""
        return {"url": self.url, "driver": DRIVER, **self.credentials}

    @contextmanager
    def connect(self, spark: "SparkSession") -> Iterator["Connection"]:
        """Open a connection for the `with` block. Raises SinkError for any error in the block."""
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            text = "the sink Postgres does not work in a session of Spark Connect, which gives no access to its JVM"
            raise SinkError(text, hint="Use a classic session (local, spark://, YARN, Kubernetes), or write to Delta or Parquet.")
        with self.translate_errors():
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
            properties = jvm.java.util.Properties()
            for name, value in self.credentials.items():
                properties.setProperty(name, value)
            java = jvm.java.sql.DriverManager.getConnection(self.url, properties)
            try:
                yield Connection(java, self)
            finally:
                java.close()

    @contextmanager
    def translate_errors(self, where: str | None = None) -> Iterator[None]:
        """Turn errors of the JVM into SinkError. `where`: begin of its text, after the URL."""
        place = self.where if where is None else f"{self.where}: {where}"
        try:
            yield
        except SinkError:
            raise
        except Exception as error:
            if (own := error_of_a_task(error)) is not None:
                raise SinkError(f"{place}: {own.message}", hint=own.hint) from error
            if raised_in_a_task(error):
                raise
            text = _message(error).replace(self.url, self.where)
            if "ClassNotFoundException" in text or "No suitable driver" in text:
                raise SinkError(f"this Spark has no JDBC driver for {self.where}: {text}", hint=JAR_HINT) from error
            hint = "Nothing of the micro-batch was written. Correct the cause and start the query again: Spark repeats the micro-batch."
            raise (SinkUnavailable if is_unavailable(str(error)) else SinkError)(f"{place}: {text}", hint=hint) from error


SERVER_TYPES: Final = {"primary": "primary", "read-write": "primary", "standby": "secondary", "read-only": "secondary"}


def _split(url: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL with its first host alone, and all its hosts.

    The `urlsplit` of newer Pythons refuses an address in brackets that follows another host.
    """
    scheme, slashes, rest = url.partition("://")
    place, *path = re.split(r"(?=[/?#])", rest, maxsplit=1)
    user, at, hosts = place.rpartition("@")
    return urlsplit("".join((scheme, slashes, user, at, hosts.partition(",")[0], *path))), hosts


def _as_driver_knows(name: str, value: str) -> tuple[str, str]:
    """Return the driver's name of the option that chooses one of several hosts. It ignores an option that it does not know."""
    return ("targetServerType", SERVER_TYPES.get(value, "any")) if name == "target_session_attrs" else (name, value)


class Connection:
    """Open JDBC connection."""

    def __init__(self, java: Any, database: Database) -> None:
        self._java = java
        self._database = database

    def execute(self, *statements: str) -> None:
        """Run statements in one transaction."""
        self._java.setAutoCommit(False)
        statement = self._java.createStatement()
        for text in statements:
            statement.execute(text)
        self._java.commit()
        self._java.setAutoCommit(True)

    def update(self, statement: str, values: Sequence[str | int]) -> int:
        """Run one statement with a value for each `?`. Return the number of changed rows."""
        return int(self._prepared(statement, values).executeUpdate())

    def rows(self, query: str, values: Sequence[str | int] = (), where: str | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query. `where`: begin of the text of an error."""
        with self._database.translate_errors(where):
            found = self._prepared(query, values).executeQuery()
        width = found.getMetaData().getColumnCount()
        rows = []
        while found.next():
            rows.append(tuple(found.getObject(column) for column in range(1, width + 1)))
        return rows

    def types(self, table: str) -> dict[str, str]:
        """Return the types of a table's columns by their names. Empty if there is no such table. `table` is already quoted."""
        select = "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(?)"
        return dict(self.rows(f"{select} AND attnum > 0 AND NOT attisdropped ORDER BY attnum", (table,)))

    def _prepared(self, statement: str, values: Sequence[str | int]) -> Any:
        prepared = self._java.prepareStatement(statement)
        for number, value in enumerate(values, 1):
            if isinstance(value, int):
                prepared.setLong(number, value)
            else:
                prepared.setString(number, value)
        return prepared


def is_unavailable(text: str) -> bool:
    """Tell whether the JDBC driver has lost its connection, or the server is starting, stopping or full.

    >>> is_unavailable("org.postgresql.util.PSQLException: FATAL: the database system is starting up")
    True
    """
    return any(found.search(text) for found in UNAVAILABLE)


def reason_in(text: str) -> str:
    """Return the database's reason in the text of a failed job, which begins with a statement and the values of a row.

    >>> reason_in("java.sql.BatchUpdateException: Batch entry 0 INSERT INTO t VALUES ('a') was aborted: ERROR: no  Call getNextException")
    'ERROR: no'
    """
    before_stack = STACK.split(text, maxsplit=1)[0]
    failed = before_stack.partition("  Call getNext")[0].rpartition(" was aborted: ")[2]
    reason = FAILED_TASK.split(failed)[-1].strip()
    return reason if len(reason) <= MOST_CHARACTERS else f"{reason[:MOST_CHARACTERS]}..."


def _message(error: Exception) -> str:
    """Return the message of the JVM, without its stack."""
    java = getattr(error, "java_exception", None)
    return reason_in(str(error) if java is None else str(java.toString()))
