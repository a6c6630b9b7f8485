"""`format("stormcell")` in a local Spark: streams, batches, and error texts."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_bridge import register
from spark_bridge.cli.main import run_command_line
from spark_bridge.handover import REJECTS_SCHEMA, Manifest, StagedFile
from spark_bridge.handover.manifest import RESTORE_FILE
from spark_bridge.handover.names import REJECTS, StagedName
from spark_bridge.pipeline.faults import fault_in_text
from tests.spark_bridge.writing import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.deep

ReadsStream = Callable[..., list[list[Any]]]


@pytest.fixture
def source(spark: "SparkSession") -> "SparkSession":
    register(spark)
    return spark


@pytest.fixture
def stream(source: "SparkSession", writer: Writer, tmp_path: Path) -> ReadsStream:
    """Runs the query until it is idle, and returns the rows of each micro-batch as (word, n, txid)."""

    def run(checkpoint: str = "checkpoint", **options: str) -> list[list[Any]]:
        seen: list[list[Any]] = []
        batches = source.readStream.format("stormcell").options(**{"consumer": "c", **options}).load(writer.folder)

        def collect(rows: "DataFrame", batch_id: int) -> None:
            seen.append(sorted((row.word, row.n, row.txid) for row in rows.collect()))

        started = batches.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / checkpoint))
        started.trigger(availableNow=True).start().awaitTermination()
        return seen

    return run


@pytest.mark.guarantee("SP-3")
def test_a_stream_continues_from_its_checkpoint(stream: ReadsStream, writer: Writer) -> None:
    writer.commit_many(2, rows=2)
    assert stream() == [[("1", 0, 1), ("1", 1, 1), ("2", 0, 2), ("2", 1, 2)]]
    writer.commit()
    writer.commit_many(1, rows=2)
    assert stream() == [[("4", 0, 4), ("4", 1, 4)]]
    position = writer.handover.consumer("c").read()
    assert (position.planned, position.committed) == (4, 2)


@pytest.mark.guarantee("SP-3")
def test_a_micro_batch_has_at_most_max_transactions(stream: ReadsStream, writer: Writer, source: "SparkSession") -> None:
    writer.commit_many(5, rows=2)
    taken = [sorted({row[2] for row in batch}) for _ in range(3) for batch in stream(maxTransactionsPerBatch="2")]
    assert taken == [[1, 2], [3, 4], [5]]


@pytest.mark.guarantee("SP-3")
def test_a_new_checkpoint_is_refused_with_the_fix(stream: ReadsStream, writer: Writer) -> None:
    writer.commit_many(2, rows=2)
    stream()
    with pytest.raises(Exception, match="has planned up to txid 2") as raised:
        stream("another")
    assert '.option("startingTxid", "committed")' in str(raised.value)
    assert len(stream("another", startingTxid="committed")[0]) == 4


@pytest.mark.guarantee("SP-3")
def test_a_deleted_txid_ends_the_stream_with_the_reason(stream: ReadsStream, writer: Writer) -> None:
    writer.commit_many(2, rows=2)
    stream()
    writer.commit_many(2, rows=2)
    writer.delete_up_to(3)
    with pytest.raises(Exception, match="txid 3 is deleted, like all up to 3"):
        stream()


@pytest.mark.guarantee("SP-2")
def test_a_damaged_file_ends_the_stream_before_a_row_of_it(stream: ReadsStream, writer: Writer) -> None:
    writer.commit_many(1, rows=2)
    assert len(stream()) == 1
    writer.commit([("a", number) for number in range(1000)])
    [file] = writer.handover.manifest(2).files
    with open(Path(writer.folder, file.name), "r+b") as damaged:
        damaged.seek(file.bytes // 3)
        damaged.write(bytes(40))
    with pytest.raises(Exception, match=f"'{file.name}' of txid 2 is not the file that was committed") as raised:
        stream()
    fault = fault_in_text(str(raised.value))
    assert (fault.kind, fault.text[-32:]) == ("final", file.digest)
    assert fault.hint == RESTORE_FILE


@pytest.mark.guarantee("SP-3")
def test_a_damaged_consumer_is_repaired_and_nothing_comes_twice(stream: ReadsStream, writer: Writer, tmp_path: Path) -> None:
    writer.commit_many(2, rows=2)
    stream()
    content = Path(writer.consumer_file("c")).read_bytes()
    Path(writer.consumer_file("c")).write_bytes(content[: len(content) // 2])
    writer.commit_many(1, rows=2)
    repair = ["consumers", writer.folder, "repair", "c", "--checkpoint"]
    with pytest.raises(Exception, match=f"'consumers/c.json' is damaged.*\n?.*{' '.join(repair)} PATH"):
        stream()
    assert run_command_line([*repair, str(tmp_path / "checkpoint")]) == 0
    assert stream() == [[("3", 0, 3), ("3", 1, 3)]]


def test_an_unknown_consumer_is_refused_at_load(stream: ReadsStream) -> None:
    with pytest.raises(Exception, match=r"no consumer 'd' \(it has: c\)"):
        stream(consumer="d")


def test_a_folder_without_a_contract_is_refused_at_load(source: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"is not a hand-over folder: it has no contract\.json"):
        source.read.format("stormcell").load(str(tmp_path))


@pytest.mark.guarantee("SP-3")
def test_batches_are_read_as_a_table(source: "SparkSession", writer: Writer) -> None:
    reader = source.read.format("stormcell")
    assert reader.load(writer.folder).count() == 0
    writer.commit_many(4, rows=2)
    table = reader.load(writer.folder)
    assert table.schema.simpleString() == "struct<word:string,n:bigint,txid:bigint,batch_time:timestamp>"
    assert {row.txid: row["sum(n)"] for row in table.groupBy("txid").sum("n").collect()} == {1: 1, 2: 1, 3: 1, 4: 1}
    some = reader.options(fromTxid=2, toTxid=3).load(writer.folder)
    assert sorted(row.txid for row in some.select("txid").distinct().collect()) == [2, 3]
    assert writer.handover.consumer("c").read().planned == 0


def test_a_missing_txid_is_named(source: "SparkSession", writer: Writer) -> None:
    writer.commit_many(2, rows=2)
    with pytest.raises(Exception, match="txid 3 is not committed yet: the newest is 2"):
        source.read.format("stormcell").option("toTxid", 3).load(writer.folder).count()


def test_all_types_arrive(source: "SparkSession", tmp_path: Path) -> None:
    schema = """a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h decimal(10,2), i string, j binary, k date,
        l timestamp, m timestamp_ntz, n array<int>, o map<string,int>, p struct<x: int, y: string>"""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    noon = datetime(2026, 1, 2, 12)
    simple = (True, 1, 2, 3, 4, 0.5, 0.25, Decimal("1.50"), "i", b"j", date(2026, 1, 2), noon.replace(tzinfo=UTC), noon)
    row = (*simple, [1], [("k", 1)], {"x": 1, "y": "z"})
    writer = Writer(tmp_path / "types", schema=schema)
    writer.commit([row], [tuple([None] * 16)])
    first, empty = sorted(source.read.format("stormcell").load(writer.folder).collect(), key=lambda found: found.a is None)
    assert first.asDict(recursive=True)["o"] == {"k": 1}
    assert (first.a, first.h, first.k, first.m, first.n, first.p.y) == (True, Decimal("1.50"), date(2026, 1, 2), noon, [1], "z")
    assert set(empty[:16]) == {None}


def test_rejects_are_a_table_of_their_own(source: "SparkSession", writer: Writer) -> None:
    name = str(StagedName(1, 1, 0, 1, 0, REJECTS))
    rejects = {"txid": [1], "task": [0], "row": [3], "error": ["n is no number"], "values": ['{"n": "x"}']}
    with writer.storage.open_output(name) as file:
        pq.write_table(pa.table(rejects, REJECTS_SCHEMA), file)
    writer._publish(Manifest(1, 1, 0, (), (StagedFile(name, 1, Path(writer.folder, name).stat().st_size),)))
    [row] = source.read.format("stormcell").option("table", "rejects").load(writer.folder).collect()
    assert (row.task, row.row, row.error, row.txid) == (0, 3, "n is no number", 1)


def test_a_user_defined_schema_is_refused(source: "SparkSession", writer: Writer) -> None:
    with pytest.raises(Exception, match=r"Leave \.schema\(\) out"):
        source.read.format("stormcell").schema("word string").load(writer.folder).count()
