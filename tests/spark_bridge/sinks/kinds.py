"""The ready-made sinks for tests: created in a folder or a database, and read back."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_bridge.sinks import Delta, Parquet, Postgres, Sink, Sqlite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS: Final = ("parquet by txid", "parquet by batch", "delta", "postgres", "sqlite")
Rows = list[tuple[Any, ...]]


def sink_of(kind: str, place: str, replaces: str | None = None) -> Sink:
    """Return a sink of this kind. `place`: a folder, or the URL of a database."""
    makes: dict[str, Callable[[], Sink]] = {
        "parquet by txid": lambda: Parquet(f"{place}/words"),
        "parquet by batch": lambda: Parquet(f"{place}/words", by="batch"),
        "delta": lambda: Delta(f"{place}/words", replaces=replaces),
        "postgres": lambda: Postgres(place, "words", replaces=replaces),
        "sqlite": lambda: Sqlite(f"{place}/words.db", "words", replaces=replaces),
    }
    return makes[kind]()


def place_of(kind: str, folder: Path, database: Callable[[], str]) -> str:
    """Return the place to which a sink of this kind writes in a test."""
    return database() if kind == "postgres" else str(folder)


def rows_in(sink: Sink, spark: "SparkSession") -> Rows:
    """Return the visible rows as (word, n, txid), sorted."""
    columns = ("word", "n", "txid")
    if isinstance(sink, Sqlite):
        with closing(sqlite3.connect(sink.path)) as connection:
            return sorted(connection.execute(f"SELECT {', '.join(columns)} FROM {sink.table}"))
    if isinstance(sink, Parquet):
        found = sink.read(spark)
    elif isinstance(sink, Delta):
        found = spark.read.format("delta").load(sink.table)
    else:
        assert isinstance(sink, Postgres)
        from spark_bridge.sinks.jdbc import Database

        found = spark.read.format("jdbc").options(**Database.from_url(sink.url).options(), dbtable=sink.table).load()
    return sorted(tuple(row) for row in found.select(*columns).collect())
