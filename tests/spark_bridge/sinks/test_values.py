"""Every value of every type is read back by another reader of the sink, or it is refused with its column and the reason."""

import asyncio
import dataclasses
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import asyncpg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_bridge.sinks import Delta, Parquet, Postgres, Sink, SinkBatch, SinkError, Sqlite
from spark_bridge.sinks.jdbc import Database
from tests.spark_bridge.sinks.cases import CASES, Refused, found_by, normal
from tests.spark_bridge.sinks.kinds import place_of, sink_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.deep, pytest.mark.guarantee("SP-8")]
KINDS: Final = ("parquet by batch", "delta", "postgres", "sqlite")
BATCH: Final = SinkBatch("words", "one", 0)
NAMES: Final = ("a.b", "a`b", 'a"b', "a'b", "é日本", "ROW", "%s?$1", "c0", "stormcell_part", "UPPER")
ONE_CASE: Final = ("upper",)
SPACED: Final = ("a b", "a,b;{}()=")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sink(kind: str, spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest) -> Sink:
    for needed, fixture in (("delta", "with_delta"), ("postgres", "with_jdbc")):
        if kind == needed:
            request.getfixturevalue(fixture)
    return sink_of(kind, place_of(kind, tmp_path, lambda: request.getfixturevalue("new_database")))


@pytest.fixture
def in_new_york(spark: "SparkSession") -> "Iterator[SparkSession]":
    """Set a time zone of the session that differs from the zone of the JVM, and whose offset before 1883 had odd seconds."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def row_of(spark: "SparkSession", columns: Sequence[tuple[str, str]]) -> "DataFrame":
    """Return one row. `columns`: name and SQL of each."""
    return spark.sql(f"SELECT {', '.join(f'{sql} AS c{number}' for number, (_, sql) in enumerate(columns))}").toDF(
        *(name for name, _ in columns)
    )


def read(sink: Sink) -> dict[str, Any]:
    """Return the only row as another reader finds it."""
    if isinstance(sink, Sqlite):
        with closing(sqlite3.connect(sink.path)) as connection:
            connection.row_factory = sqlite3.Row
            return dict(next(connection.execute(f"SELECT * FROM {sink.table}")))
    if isinstance(sink, Postgres):
        return asyncio.run(_read_postgres(sink))
    assert isinstance(sink, (Parquet, Delta))
    place = Path(sink.path if isinstance(sink, Parquet) else sink.table)
    (file,) = (file for file in place.rglob("*.parquet") if "_delta_log" not in file.parts)
    return {name: _of_parquet(column) for name, column in zip(*_columns(pq.ParquetFile(file).read()), strict=True)}


async def _read_postgres(sink: Postgres) -> dict[str, Any]:
    connection = await asyncpg.connect(sink.url)
    try:
        await connection.execute("SET timezone = 'UTC'; SET intervalstyle = 'postgres'")
        described = await connection.fetch("SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0", sink.table)
        quoted = ('"' + name.replace('"', '""') + '"' for (name,) in described)
        return dict(await connection.fetchrow(f"SELECT {', '.join(f'{name}::text AS {name}' for name in quoted)} FROM {sink.table}"))
    finally:
        await connection.close()


def _columns(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return table.column_names, table.columns


def _of_parquet(column: pa.ChunkedArray) -> Any:
    if pa.types.is_date(column.type) or (pa.types.is_timestamp(column.type)):
        return column.cast(pa.string())[0].as_py().removesuffix(".000000").replace(".000000Z", "Z")
    if pa.types.is_struct(column.type) and len({field.name for field in column.type}) < column.type.num_fields:
        return ...
    try:
        return normal(column.to_pylist()[0])
    except (ValueError, OverflowError):  # a day outside of Python's years, inside of a map
        return ...


@pytest.mark.timeout(120)
def test_another_reader_finds_the_values(kind: str, sink: Sink, in_new_york: "SparkSession") -> None:
    wanted = {f"v{number}": found_by(kind, case) for number, case in enumerate(CASES)}
    stored = {name: found for name, found in wanted.items() if not isinstance(found, Refused)}
    rows = row_of(in_new_york, [(name, CASES[int(name[1:])].sql) for name in stored])
    sink.write(rows, BATCH)
    found = {name: value for name, value in read(sink).items() if stored[name] is not ...}
    assert found.keys() >= {name for name, value in stored.items() if value not in (..., None)}
    wrong = {CASES[int(name[1:])].sql: (value, stored[name]) for name, value in found.items() if repr(value) != repr(stored[name])}
    assert wrong == {}


@pytest.mark.timeout(120)
def test_what_a_sink_cannot_store_is_refused_with_column_and_reason(kind: str, sink: Sink, spark: "SparkSession") -> None:
    for case in CASES:
        refused = found_by(kind, case)
        if isinstance(refused, Refused):
            with pytest.raises(SinkError) as raised:
                sink.write(row_of(spark, [("id", "1"), ("the column", case.sql)] if kind != "delta" else [("the_column", case.sql)]), BATCH)
            assert refused.reason in str(raised.value), case.sql
            assert "column" in str(raised.value)
            assert raised.value.hint
            assert "\tat " not in str(raised.value), "the text has Java's stack"
    sink.write(row_of(spark, [("id", "7")]), BATCH)  # the query goes on
    assert str(read(sink)["id"]) == "7"


def test_columns_keep_their_names(kind: str, sink: Sink, spark: "SparkSession") -> None:
    names = [*NAMES, *(SPACED if kind != "delta" else ()), *(ONE_CASE if kind == "postgres" else ())]
    sink.write(row_of(spark, [(name, str(number)) for number, name in enumerate(names)]), BATCH)
    assert {name: int(value) for name, value in read(sink).items()} == {name: number for number, name in enumerate(names)}


@pytest.mark.parametrize(
    ("kind", "name"), [("delta", "a b=c"), ("postgres", "x" * 64), ("postgres", "é" * 32), ("sqlite", "nul\0")], indirect=["kind"]
)
def test_a_name_that_the_sink_does_not_have_is_refused(sink: Sink, spark: "SparkSession", name: str) -> None:
    with pytest.raises(SinkError) as raised:
        sink.write(row_of(spark, [(name, "1")]), BATCH)
    assert name.partition("\0")[0] in str(raised.value)


@pytest.mark.parametrize("kind", ["parquet by txid", "parquet by batch", "delta"], indirect=True)
def test_times_are_not_written_as_int96(kind: str, sink: Sink, spark: "SparkSession") -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    sink.write(row_of(spark, [("at", "timestamp'1582-10-10 00:00:00Z'"), ("day", "date'1000-01-01'"), ("txid", "1L")]), BATCH)
    place = Path(sink.path if isinstance(sink, Parquet) else sink.table)  # type: ignore[attr-defined]
    (file,) = (file for file in place.rglob("*.parquet") if "_delta_log" not in file.parts)
    assert pq.ParquetFile(file).schema.column(0).physical_type == "INT64"
    assert [str(value) for value in pq.ParquetFile(file).read().to_pylist()[0].values()][:2] == ["1582-10-10 00:00:00+00:00", "1000-01-01"]


@pytest.mark.parametrize("kind", ["postgres", "sqlite"], indirect=True)
def test_the_last_row_of_a_key_wins(sink: Sink, spark: "SparkSession") -> None:
    assert isinstance(sink, (Postgres, Sqlite))
    keyed = dataclasses.replace(sink, key="a.k")
    rows = spark.createDataFrame([("x", 1), ("y", 2), ("x", 3), ("y", 4), ("x", 5)], "`a.k` string, n int")
    keyed.write(rows, SinkBatch("words", "one", 0))
    assert written(keyed, '"a.k", n') == [("x", 5), ("y", 4)]
    keyed.write(spark.createDataFrame([("x", 6), ("x", 7)], "`a.k` string, n int").coalesce(1), SinkBatch("words", "one", 1))
    assert written(keyed, '"a.k", n') == [("x", 7), ("y", 4)]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("existing", "sql", "reason"),
    [
        ("int", "1.9d", "column 'v' is of type integer, and the query's of type double precision: the value '1.9' would be changed"),
        ("numeric(5,1)", "1.25BD", "the value '1.25' would be changed"),
        ("real", "0.1d", "the value '0.1' would be changed"),
        ("date", "timestamp'2026-01-01 10:00:00Z'", "would be changed"),
        ("smallint", "100000", "column 'v' is of type smallint, and the query's of type integer: .*smallint out of range"),
        ("varchar(3)", "'four'", "the value 'four' would be changed"),
        ("int", "'x'", "column 'v' .*invalid input syntax for type integer"),
    ],
)
def test_an_existing_column_of_postgres_changes_no_value(sink: Sink, spark: "SparkSession", existing: str, sql: str, reason: str) -> None:
    assert isinstance(sink, Postgres)
    execute(sink.url, f"CREATE TABLE words (id int, v {existing})")
    with pytest.raises(SinkError, match=reason):
        sink.write(row_of(spark, [("id", "1"), ("v", sql)]), BATCH)
    assert written(sink, "id") == []


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_an_existing_column_of_postgres_takes_values_of_a_similar_type(sink: Sink, spark: "SparkSession") -> None:
    assert isinstance(sink, Postgres)
    execute(sink.url, "CREATE TABLE words (a bigint, b varchar(9), c numeric, d jsonb, e text, f real, g timestamp, id bigserial)")
    row = [("a", "1"), ("b", "'x'"), ("c", "1.25BD"), ("d", "map('k', 1)"), ("e", "7"), ("f", "0.5d"), ("g", "date'2026-01-02'")]
    sink.write(row_of(spark, row), BATCH)
    wanted = {"a": "1", "b": "x", "c": "1.25", "d": '[["k", 1]]', "e": "7", "f": "0.5", "g": "2026-01-02 00:00:00", "id": "1"}
    assert read(sink) == wanted


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_postgres_keeps_rejected_rows_apart(sink: Sink, spark: "SparkSession") -> None:
    assert isinstance(sink, Postgres)
    rejecting = dataclasses.replace(sink, on_bad_row="reject")
    schema = "id int, word string, days array<int>"
    rows = spark.createDataFrame([(1, "a", [1]), (2, "b\0", [2]), (3, "c", None), (4, "\0", [4])], schema)
    days = "transform(days, day -> if(id = 4, date_from_unix_date(-2440589), date'2026-01-01'))"
    for batch_id in (0, 0, 1):
        rejecting.write(rows.selectExpr("id", "word", f"{days} AS days"), SinkBatch("words", "one", batch_id))
    assert written(sink, "id, word, days::text") == [(1, "a", "{2026-01-01}"), (1, "a", "{2026-01-01}"), (3, "c", None), (3, "c", None)]
    found = written(dataclasses.replace(sink, table="stormcell_rejects"), 'query, batch_id, reason, "row"::text')
    nul = "PostgreSQL's texts cannot have the character NUL ('\\x00')"
    assert found == [
        row
        for batch_id in (0, 1)
        for row in (
            ("words", batch_id, f"column 'word' has the value '\\x00', and {nul}", '{"id": 4, "word": "\\u0000", "days": ["-4713-11-23"]}'),
            (
                "words",
                batch_id,
                f"column 'word' has the value 'b\\x00', and {nul}",
                '{"id": 2, "word": "b\\u0000", "days": ["2026-01-01"]}',
            ),
        )
    ]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_character_that_the_database_does_not_have_is_refused_with_its_column(sink: Sink, spark: "SparkSession") -> None:
    assert isinstance(sink, Postgres)
    name = f"latin_{secrets.token_hex(4)}"
    execute(sink.url, f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    latin = dataclasses.replace(sink, url=urlsplit(sink.url)._replace(path=f"/{name}").geturl())
    try:
        with pytest.raises(SinkError, match="column 'word' has the value '日本', and the encoding of the database, LATIN1"):
            latin.write(row_of(spark, [("word", "'日本'")]), BATCH)
        latin.write(row_of(spark, [("word", "'é'"), ("more", "map('日', 1)")]), BATCH)
        assert read(latin) == {"word": "é", "more": '[["\\u65e5", 1]]'}
    finally:
        execute(sink.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_the_reason_of_postgres_comes_before_the_statement(sink: Sink, spark: "SparkSession") -> None:
    """The text begins with the reason, although the driver's begins with the statement and all values of the row."""
    assert isinstance(sink, Postgres)
    database = Database.from_url(sink.url)
    execute(sink.url, "CREATE TABLE numbers (id int CHECK (id < 0), word text)")
    rows = row_of(spark, [("id", "1"), ("word", "repeat('x', 2000)")])
    writer = rows.write.format("jdbc").options(**database.options(), dbtable="numbers").mode("append")
    with pytest.raises(SinkError) as raised, database.translate_errors():
        writer.save()
    assert raised.value.message.startswith(f'{database.url}: ERROR: new row for relation "numbers" violates check')
    assert len(raised.value.message) < 700


def execute(url: str, statement: str) -> None:
    asyncio.run(_fetch(url, statement))


def written(sink: Postgres | Sqlite, columns: str) -> list[tuple[Any, ...]]:
    """Return the sorted rows of a sink's table."""
    select = f"SELECT {columns} FROM {sink.table}"
    if isinstance(sink, Postgres):
        return sorted(asyncio.run(_fetch(sink.url, select)), key=repr)
    with closing(sqlite3.connect(sink.path)) as connection:
        return sorted(connection.execute(select), key=repr)


async def _fetch(url: str, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()
