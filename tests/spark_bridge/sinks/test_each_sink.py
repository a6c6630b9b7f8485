"""Every ready-made sink writes a micro-batch once, and never confuses two checkpoints."""

import os
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from spark_bridge.sinks import Postgres, Sink, SinkBatch, SinkError, SinkUnavailable, Sqlite
from spark_bridge.sinks.jdbc import Database
from spark_bridge.sinks.postgres import ATTEMPT, PART
from tests.spark_bridge.sinks.kinds import KINDS, place_of, rows_in, sink_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.deep

MakesSink = Callable[..., Sink]
MakesRows = Callable[[Iterable[tuple[Any, ...]]], "DataFrame"]
SCHEMA = "word string, n bigint, txid bigint"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest) -> MakesSink:
    """Return a function that creates sinks of one kind at the same place."""
    for needed, fixture in (("delta", "with_delta"), ("postgres", "with_jdbc")):
        if kind == needed:
            request.getfixturevalue(fixture)
    place = place_of(kind, tmp_path, lambda: request.getfixturevalue("new_database"))
    return lambda **options: sink_of(kind, place, **options)


@pytest.fixture
def rows(spark: "SparkSession") -> MakesRows:
    return lambda values: spark.createDataFrame(list(values), SCHEMA)


@pytest.mark.guarantee("SP-1")
def test_a_repeated_micro_batch_is_written_once(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    sink = make()
    for batch_id, txid in ((0, 1), (0, 1), (1, 2), (1, 2), (2, 3)):
        sink.write(rows([("a", txid, txid), ("b", txid, txid)]), SinkBatch("words", "one", batch_id))
    assert rows_in(sink, spark) == [(word, txid, txid) for word in "ab" for txid in (1, 2, 3)]


@pytest.mark.guarantee("SP-1")
def test_an_empty_micro_batch_is_counted(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    sink = make()
    sink.write(rows([]), SinkBatch("words", "one", 0))
    sink.write(rows([("a", 1, 1)]), SinkBatch("words", "one", 1))
    sink.write(rows([]), SinkBatch("words", "one", 2))
    sink.write(rows([("a", 2, 2)]), SinkBatch("words", "one", 3))
    assert rows_in(sink, spark) == [("a", 1, 1), ("a", 2, 2)]


@pytest.mark.guarantee("SP-1")
def test_another_checkpoint_skips_and_duplicates_no_row(make: MakesSink, kind: str, rows: MakesRows, spark: "SparkSession") -> None:
    sink = make()
    sink.write(rows([("a", 1, 1)]), SinkBatch("words", "one", 0))
    sink.write(rows([("a", 2, 2)]), SinkBatch("words", "one", 1))
    if kind == "parquet by txid":  # folders are replaced: reading all again gives the same
        sink.write(rows([("a", 1, 1), ("a", 2, 2)]), SinkBatch("words", "two", 0))
        sink.write(rows([("a", 3, 3)]), SinkBatch("words", "two", 1))
        assert rows_in(sink, spark) == [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]
        return
    with pytest.raises(SinkError, match="written with another checkpoint") as raised:
        sink.write(rows([("a", 1, 1)]), SinkBatch("words", "two", 0))
    assert 'replaces="one"' in str(raised.value)
    assert rows_in(sink, spark) == [("a", 1, 1), ("a", 2, 2)]


@pytest.mark.guarantee("SP-1")
@pytest.mark.parametrize("kind", ["delta", "postgres", "sqlite"], indirect=True)
def test_a_new_checkpoint_replaces_the_named_one(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    make().write(rows([("a", 1, 1)]), SinkBatch("words", "one", 0))
    sink = make(replaces="one")
    for batch_id, txid in ((0, 2), (0, 2), (1, 3)):
        sink.write(rows([("a", txid, txid)]), SinkBatch("words", "two", batch_id))
    assert rows_in(sink, spark) == [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]


@pytest.mark.parametrize("kind", ["delta", "postgres", "sqlite"], indirect=True)
def test_missing_columns_of_the_table_are_named(make: MakesSink, rows: MakesRows) -> None:
    sink = make()
    sink.write(rows([("a", 1, 1)]), SinkBatch("words", "one", 0))
    with pytest.raises(SinkError, match="colour") as raised:
        sink.write(rows([("a", 2, 2)]).withColumnRenamed("n", "colour"), SinkBatch("words", "one", 1))
    assert "ALTER TABLE" in str(raised.value)
    sink.write(rows([("a", 2, 2)]), SinkBatch("words", "one", 1))


@pytest.mark.guarantee("SP-1")
@pytest.mark.parametrize("kind", ["parquet by txid"], indirect=True)
def test_a_row_of_an_earlier_txid_is_refused_and_nothing_is_replaced(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    sink = make()
    sink.write(rows([("a", 1, 1), ("a", 2, 2)]), SinkBatch("words", "one", 0))
    with pytest.raises(Exception, match=r"txid 1 is complete since an earlier micro-batch.* write Parquet\(path, by='batch'\)"):
        sink.write(rows([("late", 1, 1), ("a", 3, 3)]), SinkBatch("words", "one", 1))
    assert rows_in(sink, spark) == [("a", 1, 1), ("a", 2, 2)]


@pytest.mark.guarantee("SP-1")
@pytest.mark.parametrize("kind", ["parquet by txid"], indirect=True)
def test_a_row_without_a_txid_is_refused(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    """Outer joins create such rows. All micro-batches would write them to one subfolder, and each would replace the last."""
    sink = make()
    sink.write(rows([("a", 1, 1)]), SinkBatch("words", "one", 0))
    with pytest.raises(Exception, match=r"a row has no txid.* write Parquet\(path, by='batch'\)"):
        sink.write(rows([("b", 2, 2), ("nobody's", 2, None)]), SinkBatch("words", "one", 1))
    assert rows_in(sink, spark) == [("a", 1, 1)]


@pytest.mark.guarantee("SP-1")
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_two_concurrent_writers_of_a_micro_batch_write_it_once(make: MakesSink, rows: MakesRows, spark: "SparkSession") -> None:
    """Both have checked the stored batch and collected the rows before the first one writes."""
    sink, batch = make(), SinkBatch("words", "one", 0)
    frame, fetched = rows([("a", 1, 1), ("b", 2, 1)]), Barrier(2)

    class Fetched:
        """A DataFrame that returns its rows to both writers at the same time."""

        schema = frame.schema

        def toArrow(self) -> Any:
            found = frame.toArrow()
            fetched.wait(60)
            return found

    with ThreadPoolExecutor(2) as writers:
        for written in [writers.submit(sink.write, Fetched(), batch) for _ in range(2)]:  # type: ignore[arg-type]
            written.result()
    assert rows_in(sink, spark) == [("a", 1, 1), ("b", 2, 1)]


def test_a_locked_file_is_a_temporary_error(rows: MakesRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_bridge.sinks.sqlite.WAIT_SECS", 0.1)
    path = tmp_path / "words.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SinkUnavailable, match="database is locked"):
            Sqlite(str(path), "words").write(rows([("a", 1, 1)]), SinkBatch("words", "one", 0))


class TaskThatCommitsTwice(Postgres):
    """Its staging table has the rows twice, as after the death of an executor that had committed."""

    def _stage(self, df: "DataFrame", database: Database, staging: str, encoding: str) -> None:
        super()._stage(df, database, staging, encoding)
        with database.connect(df.sparkSession) as connection:
            again = f"SELECT c0, c1, c2, {PART}, {ATTEMPT} + 1000 FROM {staging}"
            connection.execute(f"INSERT INTO {staging} (c0, c1, c2, {PART}, {ATTEMPT}) {again}")


@pytest.mark.guarantee("SP-1")
@pytest.mark.usefixtures("with_jdbc")
def test_a_task_that_commits_twice_duplicates_no_row(new_database: str, rows: MakesRows, spark: "SparkSession") -> None:
    sink = TaskThatCommitsTwice(new_database, "words")
    sink.write(rows([("a", 1, 1), ("b", 2, 1), ("c", 3, 1)]), SinkBatch("words", "one", 0))
    assert rows_in(sink, spark) == [("a", 1, 1), ("b", 2, 1), ("c", 3, 1)]


class FailsOnce(Sink):
    """Fails after the write of a micro-batch, before the checkpoint stores it."""

    def __init__(self, sink: Sink, batch_id: int) -> None:
        self.sink, self.fails_at = sink, batch_id
        self.seen: list[SinkBatch] = []

    def write(self, df: "DataFrame", batch: SinkBatch) -> None:
        self.sink.write(df, batch)
        self.seen.append(batch)
        if [each.batch_id for each in self.seen] == [0, self.fails_at]:
            raise RuntimeError("after the sink, before the checkpoint")


@pytest.mark.guarantee("SP-1")
def test_a_query_continues_after_a_failure_behind_the_sink(make: MakesSink, rows: MakesRows, spark: "SparkSession", tmp_path: Path) -> None:
    """Spark repeats the micro-batch with the query id of its checkpoint."""
    sink = FailsOnce(make(), 1)
    (tmp_path / "input").mkdir()
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "input"))
    for txid in (1, 2, 3):
        (tmp_path / "input" / f"{txid}.json").write_text(f'{{"word": "a", "n": {txid}, "txid": {txid}}}\n')
        os.utime(tmp_path / "input" / f"{txid}.json", (txid, txid))
    for _ in range(2):
        writer = sink.writer(stream, "words").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        with suppress(StreamingQueryException):
            query.awaitTermination()
    assert [each.batch_id for each in sink.seen] == [0, 1, 1, 2]
    assert len({each.query_id for each in sink.seen}) == 1
    assert rows_in(sink.sink, spark) == [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]
