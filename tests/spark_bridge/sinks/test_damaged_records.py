"""A damaged record of a sink is refused with a clear error, and an error of the source stays one."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException

from spark_bridge.handover import TornFile
from spark_bridge.pipeline.faults import fault_of_error
from spark_bridge.sinks import Delta, SinkBatch, SinkError, Sqlite
from spark_bridge.sinks.jdbc import Database

pytestmark = pytest.mark.guarantee("SP-1")
BATCH = SinkBatch("words", "one", 3)
OF_THE_SOURCE = (
    "[UDF] An exception was thrown: Traceback (most recent call last):\n"
    '  File "file_partition.py", line 7, in read\n'
    "spark_bridge.handover.errors.TornFile: 'files/7.parquet' of txid 7 is not the file that was committed\n"
    "Fix: Restore it from a copy.\n"
)


class Frame:
    """The parts of a DataFrame that a sink uses before it writes."""

    columns = ("word",)

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    @property
    def sparkSession(self) -> Any:
        raise self._error or AssertionError("it was asked for")


@pytest.mark.parametrize(("query_id", "batch_id"), [(None, 3), ("one", None), (b"one", 3), ("one", "x"), ("one", b"3"), (7, 1.5)])
def test_a_damaged_batch_record_in_sqlite_is_refused(tmp_path: Path, query_id: object, batch_id: object) -> None:
    sink = Sqlite(str(tmp_path / "words.db"), "words")
    with closing(sqlite3.connect(sink.path)) as connection, connection:
        sink._stored_batch(connection, BATCH)
        connection.execute("DROP TABLE stormcell_batches")
        connection.execute("CREATE TABLE stormcell_batches (target, query, query_id, batch_id, PRIMARY KEY (target, query))")
        connection.execute("INSERT INTO stormcell_batches VALUES ('words', 'words', ?, ?)", (query_id, batch_id))
    with pytest.raises(SinkError, match=r"words.db: table 'words': the record of its newest micro-batch is damaged"):
        sink.write(Frame(), BATCH)  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [b"x" * 4096, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.db").write_bytes(content)
    with pytest.raises(SinkError, match="table 'words': file is not a database") as raised:
        Sqlite(str(tmp_path / "words.db"), "words").write(Frame(), BATCH)  # type: ignore[arg-type]
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("The file is not an SQLite file, or it is damaged")


def test_a_file_with_a_damaged_schema_is_refused(tmp_path: Path) -> None:
    sink = Sqlite(str(tmp_path / "words.db"), "words")
    with closing(sqlite3.connect(sink.path)) as connection, connection:
        sink._stored_batch(connection, BATCH)
    stored = (tmp_path / "words.db").read_bytes()
    (tmp_path / "words.db").write_bytes(
        stored.replace(b"CREATE TABLE", b"CREATE TABLX").replace(b"stormcell_batches", b"\xff\xfeormcell_batches")
    )
    with pytest.raises(SinkError, match="table 'words': the file is damaged"):
        sink.write(Frame(), BATCH)  # type: ignore[arg-type]


def test_an_error_of_the_source_is_not_reported_as_one_of_the_table() -> None:
    """Spark raises it inside the sink, when the sink reads the rows of the micro-batch."""
    error = PythonException(message=OF_THE_SOURCE)
    with pytest.raises(PythonException) as raised:
        Delta("a/table").write(Frame(error), SinkBatch("words", "one", 0))  # type: ignore[arg-type]
    fault = fault_of_error(raised.value)
    assert (fault.kind, fault.hint) == ("final", "Restore it from a copy.")
    assert TornFile.__name__ not in fault.text
    with pytest.raises(PythonException), Database("jdbc:postgresql://db/logs", {}).translate_errors():
        raise error
