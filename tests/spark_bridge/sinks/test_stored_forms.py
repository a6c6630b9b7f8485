"""The stored forms of values, without Spark: each is read back by SQLite, Arrow or Python's own types."""

import base64
import json
import math
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_bridge.sinks import SinkBatch, SinkError, Sqlite
from spark_bridge.sinks.affinity import affinity_of, is_changed
from spark_bridge.sinks.jdbc import Database
from spark_bridge.sinks.postgres_rows import Staging, faults
from spark_bridge.sinks.values import date_text, timestamp_text

BATCH: Final = SinkBatch("words", "one", 0)
EVERY_TYPE: Final = pa.struct(
    [
        pa.field("number", pa.float64()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="Europe/Berlin")),
        pa.field("local", pa.timestamp("us")),
        pa.field("clock", pa.time64("ns")),
        pa.field("length", pa.duration("us")),
        pa.field("price", pa.decimal128(5, 2)),
        pa.field("text", pa.string()),
    ]
)
VALUES: Final = st.fixed_dictionaries(
    {
        "number": st.none() | st.floats(),
        "bytes": st.none() | st.binary(max_size=5),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "local": st.none() | st.datetimes(),
        "clock": st.none() | st.times(),
        "length": st.none() | st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8)),
        "price": st.none() | st.decimals(-999, 999, places=2),
        "text": st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    }
)


def write(sink: Sqlite, rows: pa.Table) -> None:
    with closing(sqlite3.connect(sink.path)) as connection, connection:
        sink._stored_batch(connection, BATCH)
        sink._write(connection, rows, BATCH)


def read(sink: Sqlite) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(sink.path)) as connection:
        return list(connection.execute(f"SELECT * FROM {sink.table}"))


READ_BACK: Final = {
    "number": float,
    "day": date.fromisoformat,
    "at": datetime.fromisoformat,
    "local": datetime.fromisoformat,
    "clock": time.fromisoformat,
    "length": lambda micros: timedelta(microseconds=micros),
    "price": Decimal,
}


def read_back(name: str, value: Any, read_bytes: Any) -> Any:
    if value is None:
        return None
    return read_bytes(value) if name == "bytes" else READ_BACK.get(name, lambda same: same)(value)


@pytest.mark.guarantee("SP-8")
@settings(max_examples=30)
@given(rows=st.lists(VALUES, min_size=1, max_size=3))
def test_sqlite_gives_every_value_back(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    sink = Sqlite(str(tmp_path_factory.mktemp("sqlite") / "words.db"), "words")
    structs = pa.array(rows, EVERY_TYPE)
    maps = pa.array([[(row["text"] or "", row)] for row in rows], pa.map_(pa.string(), EVERY_TYPE))
    write(sink, pa.table([*structs.flatten(), structs, maps], names=[*EVERY_TYPE.names, "nested", "mapped"]))
    for row, (*simple, nested, mapped) in zip(rows, read(sink), strict=True):
        found = {name: read_back(name, value, lambda same: same) for name, value in zip(EVERY_TYPE.names, simple, strict=True)}
        assert _comparable(found) == _comparable(row)
        [[key, value]] = json.loads(mapped)
        for each in (json.loads(nested), value):
            inner = {name: read_back(name, each[name], base64.b64decode) for name in EVERY_TYPE.names}
            assert _comparable(inner) == _comparable(row)
        assert key == (row["text"] or "")


def _comparable(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "number": "nan" if row["number"] is not None and math.isnan(row["number"]) else row["number"]}


@given(days=st.integers(-(2**31), 2**31 - 1))
@example(days=-719_162)
@example(days=-719_528)
@example(days=2_932_896)
def test_a_day_of_any_year_is_as_arrow_prints_it(days: int) -> None:
    arrows = pa.array([days], pa.date32()).cast(pa.string())[0].as_py()
    if len(arrows.lstrip("-")) == len("2026-01-01"):  # Arrow's calendar ends at the year 32767
        assert date_text(days).lstrip("+") == arrows


@given(micros=st.integers(-(2**63), 2**63 - 1))
def test_a_time_of_any_year_counts_its_microseconds(micros: int) -> None:
    day, _, clock = timestamp_text(micros, is_utc=False).partition(" ")
    days, rest = divmod(micros, 86_400_000_000)
    assert day == date_text(days)
    assert timedelta(microseconds=rest) == datetime.combine(date.min, time.fromisoformat(clock)) - datetime.min


@given(
    value=st.from_regex(r"\A[ +-]?[0-9]{0,20}\.?[0-9]{0,3}(e[0-9]{1,2})?\Z")
    | st.text(max_size=3)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False),
    declared=st.sampled_from(["int", "STRING", "numeric(9)", "real", "text", "blob", ""]),
)
def test_a_value_that_passes_the_check_is_not_changed_by_sqlite(value: Any, declared: str) -> None:
    if is_changed(value, affinity_of(declared), is_decimal=False):
        return
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t (v {declared})")
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        [(found,)] = connection.execute("SELECT v FROM t")
    assert found == value or str(found) == str(value) or float(found) == value


@pytest.mark.guarantee("SP-8")
@pytest.mark.parametrize(
    ("declared", "value", "kind"),
    [
        ("STRING", "007", pa.string()),
        ("INTEGER", "1e3", pa.string()),
        ("REAL", 2**53 + 1, pa.int64()),
        ("NUMERIC", Decimal("12345678901234567.89"), pa.decimal128(38, 2)),
        ("TEXT", 0.1 + 0.2, pa.float64()),
    ],
)
def test_an_existing_column_of_sqlite_changes_no_value(tmp_path: Path, declared: str, value: Any, kind: pa.DataType) -> None:
    sink = Sqlite(str(tmp_path / "words.db"), "words")
    with closing(sqlite3.connect(sink.path)) as connection:
        connection.execute(f"CREATE TABLE words (v {declared})")
    with pytest.raises(SinkError, match=f"column 'v' is declared as {declared}, which would change the value"):
        write(sink, pa.table({"v": pa.array([value], kind)}))
    assert read(sink) == []


@pytest.mark.parametrize(("declared", "value"), [("NUMERIC", Decimal("1.10")), ("DATE", date(1, 1, 1)), ("STRING", "abc"), ("REAL", 7)])
def test_an_existing_column_of_sqlite_takes_what_it_does_not_change(tmp_path: Path, declared: str, value: Any) -> None:
    sink = Sqlite(str(tmp_path / "words.db"), "words")
    with closing(sqlite3.connect(sink.path)) as connection:
        connection.execute(f"CREATE TABLE words (v {declared})")
    write(sink, pa.table({"v": [value]}))
    [(found,)] = read(sink)
    assert str(found) == str(value) or Decimal(str(found)) == value


@pytest.mark.guarantee("SP-8")
def test_sqlite_numbers_no_null_of_an_integer_key(tmp_path: Path) -> None:
    sink = Sqlite(str(tmp_path / "words.db"), "words", key="id")
    with pytest.raises(SinkError, match="column 'id' is the key of the table, and its value NULL would become a number"):
        write(sink, pa.table({"id": pa.array([1, None], pa.int32()), "n": [1, 2]}))
    texts = Sqlite(str(tmp_path / "texts.db"), "words", key="id")
    write(texts, pa.table({"id": pa.array(["a", None], pa.string()), "n": [1, 2]}))
    assert read(texts) == [("a", 1), (None, 2)]


@pytest.mark.guarantee("SP-8")
def test_postgres_refuses_values_by_row_and_column() -> None:
    words = pa.array(["a", None, "b\0", "日"])
    assert [row for row, _ in faults(words, "UTF8")] == [2]
    assert [row for row, _ in faults(words, "LATIN1")] == [2, 3]
    assert [row for row, _ in faults(pa.array([["a"], None, [], ["b", None, "\0"]]), "UTF8")] == [3]
    assert [row for row, _ in faults(pa.array([-2_440_589, None, 0], pa.date32()), "UTF8")] == [0]
    with pytest.raises(SinkError, match=r"column 'word' has the value 'b.x00', and PostgreSQL's texts") as raised:
        list(
            Staging(("n", "word"), "UTF8", rejects=False, numbers=False)._staged(pa.record_batch([pa.array(range(4)), words], ["c0", "c1"]))
        )
    assert 'on_bad_row="reject"' in str(raised.value)


def test_a_batch_without_a_row_to_reject_is_stored() -> None:
    staging, marks = Staging(("word",), "UTF8", rejects=True, numbers=False), []
    for words in (["a"], ["b", "\0"], []):
        good, bad = staging._staged(pa.record_batch([pa.array(words, pa.string())], ["c0"]))
        marks.append((good.num_rows, bad.num_rows))
    assert marks == [(1, 0), (1, 1), (0, 0)]


@pytest.mark.parametrize("scheme", ["postgresql", "jdbc:postgresql"])
def test_the_password_of_a_url_is_in_no_text(scheme: str) -> None:
    """Also if it is an option, which PostgreSQL's own clients and JDBC allow."""
    database = Database.from_url(f"{scheme}://one,two:5433/logs?user=me&password=s%2Fcret&sslmode=require")
    with pytest.raises(SinkError, match="jdbc:postgresql://one,two:5433/logs: ") as raised, database.translate_errors():
        raise OSError(f"not reached: {database.url}")
    assert "cret" not in f"{raised.value} {database}"
    if scheme == "postgresql":
        assert database.credentials == {"user": "me", "password": "s/cret"}
        assert database.url == "jdbc:postgresql://one,two:5433/logs?sslmode=require"
