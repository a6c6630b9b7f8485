"""A column stores exactly the value that it was given, or the row is rejected with column, value and reason (SP-7)."""

import enum
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine import ComponentError
from engine.safe_text import safe_repr
from engine.transactional import MemoryTransactionalSpout
from spark_bridge import SparkHandover
from spark_bridge.handover import HandoverError, schema_of
from spark_bridge.writer import partition_output
from spark_bridge.writer.columns import Columns
from tests.spark_bridge.writer.playing import handover_at, opened, read_back, run_hand_over
from tests.spark_bridge.writer.value_table import BERLIN, NEAREST, TYPES, VALUES, published, value_of

pytestmark = pytest.mark.guarantee("SP-7")
FIELDS = ("number", "x")


def handed_over(handover: SparkHandover, values: list[Any]) -> tuple[dict[int, Any], dict[int, dict[str, Any]]]:
    """Hand values over in one batch. Return the stored ones and the rejects, by the number of their row."""
    rows: list[Any] = list(enumerate(values))
    finished = run_hand_over(handover, MemoryTransactionalSpout(rows, FIELDS, len(rows)), tasks=1)
    assert not finished.errors
    folder = opened(handover)
    rejects = [row for file in folder.manifest(1).rejects for row in pq.read_table(folder.open_input(file)).to_pylist()]
    return {row["number"]: row["x"] for batch in read_back(handover) for row in batch}, {row["row"]: row for row in rejects}


def handover_of(folder: Path, ddl: str, **settings: Any) -> SparkHandover:
    return handover_at("local", folder, schema=f"number long not null, x {ddl}", **{"on_bad_row": "reject", **settings})


def read_form(heading: str, value: Any) -> Any:
    """Return what pyarrow must read for a stored value. Says it in another way than the code that stores."""
    if value is None:
        return None
    forms: dict[str, Callable[[Any], Any]] = {
        "boolean": bool,
        "float": float,
        "double": float,
        "decimal(5,2)": lambda number: Decimal(int(number) if not isinstance(number, Decimal) else number).quantize(Decimal("0.01")),
        "string": lambda text: "".join(text),
        "binary": lambda text: b"".join([text]),
        "date": lambda day: day,
        "timestamp": lambda at: _instant(at).astimezone(UTC) if isinstance(at, datetime) else _since_1970(at).replace(tzinfo=UTC),
        "timestamp_ntz": lambda at: at if isinstance(at, datetime) else _since_1970(at),
        "array": lambda values: [None if each is None else int(each) for each in values],
        "map": lambda pairs: sorted(dict(pairs).items()),
        "struct": lambda parts: {"a": parts.get("a") if isinstance(parts, dict) else parts[0]},
    }
    return forms.get(heading, int)(value)


def _instant(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _since_1970(number: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=int(number))


def same(found: object, expected: object) -> bool:
    """Compare, with the sign of a zero, and NaN equal to itself."""
    return found == expected and math.copysign(1, found) == math.copysign(1, expected) if isinstance(found, float) and found == found else (
        repr(found) == repr(expected) or found == expected
    )  # fmt: skip


@pytest.mark.parametrize("heading", TYPES)
def test_each_value_is_stored_exactly_or_rejected_as_the_page_says(tmp_path: Path, heading: str) -> None:
    values = [value_of(expression) for expression in VALUES]
    stored, rejects = handed_over(handover_of(tmp_path / "spool", TYPES[heading]), values)
    said = {expression: text for (expression, of), text in published().items() if of == heading}
    assert {expression: number in stored for number, expression in enumerate(VALUES)} == {of: text != "" for of, text in said.items()}
    assert stored.keys().isdisjoint(rejects)
    assert len(stored) + len(rejects) == len(VALUES)
    for number, found in stored.items():
        expected = numpy.float32(values[number]) if said[VALUES[number]] == NEAREST else values[number]
        assert same(found, read_form(heading, expected)), VALUES[number]
    for number, reject in rejects.items():
        assert reject["error"].startswith(f"x is {safe_repr(values[number], 200)} ({type(values[number]).__name__}): "), VALUES[number]
        assert reject["error"].split("): ", 1)[1]


@pytest.mark.parametrize("heading", TYPES)
def test_a_column_that_is_not_null_rejects_none(heading: str) -> None:
    batches, bad = Columns(schema_of(f"x {TYPES[heading]} not null"), [0]).convert([(None,)])
    assert not batches
    assert [each.error for each in bad] == ["it is declared not null"]


@pytest.mark.parametrize(
    ("ddl", "value", "reason"),
    [
        ("array<array<int>>", [[1], [2, 1.5]], "x[][] is 1.5 (float), and int takes an int"),
        ("struct<a: struct<b: tinyint>>", {"a": {"b": 128}}, "x.a.b is 128 (int), and tinyint takes an int"),
        ("map<string,struct<a: float>>", {"k": {"a": 1e300}}, "x{}.a is 1e+300 (float), and float takes a float in the range of 32 bits"),
        ("map<date,int>", {datetime(2026, 1, 1): 1}, "x{key} is datetime.datetime(2026, 1, 1, 0, 0) (datetime), and date takes a date"),
        ("map<double,int>", {math.nan: 1, float("nan"): 2}, "a map has each key once, and nan is there again"),
        ("map<timestamp,int>", {0: 1, datetime(1970, 1, 1): 2}, "a map has each key once, and datetime.datetime(1970, 1, 1, 0, 0, "),
        ("struct<a: int, b: string>", {"a": 1, "B": "lost", "c": 3}, "or a tuple of 2 values (it has 'B', 'c' too)"),
        ("struct<a: int not null>", {}, "x.a is None, and it is declared not null"),
        ("array<struct<a: int>>", [{"a": 1}, (1, 2)], "x[] is (1, 2) (tuple), and struct<`a`: int> takes a dict"),
    ],
)  # fmt: skip
def test_a_part_that_does_not_fit_is_named(ddl: str, value: Any, reason: str) -> None:
    batches, bad = Columns(schema_of(f"x {ddl}"), [0]).convert([(value,)])
    assert not batches
    assert reason in bad[0].error


def test_dicts_and_tuples_may_be_mixed_in_a_column_of_structs(tmp_path: Path) -> None:
    stored, rejects = handed_over(
        handover_of(tmp_path / "spool", "struct<a: int, b: string>"), [{"a": 1, "b": "x"}, (2, "y"), None, {"b": "z"}]
    )
    assert stored == {0: {"a": 1, "b": "x"}, 1: {"a": 2, "b": "y"}, 2: None, 3: {"a": None, "b": "z"}}
    assert not rejects


def test_a_null_struct_may_have_parts_that_are_declared_not_null(tmp_path: Path) -> None:
    parts = ", ".join(f"p{number}: {ddl} not null" for number, ddl in enumerate(TYPES.values()))
    handover = handover_of(tmp_path / "spool", f"struct<inner: struct<{parts}> not null>")
    stored, rejects = handed_over(handover, [None, {"inner": None}, {"inner": {}}])
    assert stored == {0: None}
    assert [reject["error"].split("): ")[1] for reject in rejects.values()] == [
        "x.inner is None, and it is declared not null", "x.inner.p0 is None, and it is declared not null",
    ]  # fmt: skip


def test_a_named_tuple_is_read_by_its_names() -> None:
    class Reversed(tuple):  # type: ignore[type-arg]  # as a Row of Spark
        __slots__ = ()
        __fields__ = ("b", "a")

    [batch], _ = Columns(schema_of("x struct<a: int, b: string>"), [0]).convert([(Reversed(("text", 1)),)])
    assert batch.to_pylist() == [{"x": {"a": 1, "b": "text"}}]


# A bad value breaks nothing but its own row


class Unshowable:
    def __repr__(self) -> str:
        raise KeyError("no repr")


class NoZone(tzinfo):
    def utcoffset(self, at: datetime | None) -> timedelta:
        raise RuntimeError("no offset")


class OddDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise ValueError("no name")


class OfNameless(metaclass=Nameless):
    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Unhashable(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash of the class")


class OfUnhashable(metaclass=Unhashable):
    """Of a class that is in no table of classes."""


class Signal(enum.IntFlag):
    ON = 1

    def __int__(self) -> int:
        raise RuntimeError("no int")


ODD = [
    10**5000,
    -(10**5000),
    Unshowable(),
    datetime(2026, 1, 1, tzinfo=NoZone()),
    OddDict(a=1),
    OfNameless(),
    OfUnhashable(),
    [(1, 2), (OfNameless(), 1)],
    [Unshowable()],
    "x" * 600_000,
]


@pytest.mark.parametrize("ddl", ["int", "decimal(5,2)", "timestamp", "array<int>", "map<string,date>", "struct<b: int>"])
@pytest.mark.parametrize("on_bad_row", ["stop", "reject"])
def test_a_row_whose_value_breaks_its_own_text_is_told(tmp_path: Path, ddl: str, on_bad_row: str) -> None:
    handover = handover_of(tmp_path / "spool", ddl, on_bad_row=on_bad_row)
    if on_bad_row == "reject":
        stored, rejects = handed_over(handover, ODD)
        assert not stored
        assert sorted(rejects) == list(range(len(ODD)))
        assert all(len(row["values"]) <= partition_output.ROW_CHARS and len(row["error"]) < 1_000 for row in rejects.values())
        return
    for number, value in enumerate(ODD):
        with pytest.raises(ComponentError, match="column 'x' is") as raised:
            run_hand_over(handover, MemoryTransactionalSpout([(number, value)], FIELDS, 1), tasks=1)
        assert len(str(raised.value)) < 3_000


def test_a_number_with_code_of_its_own_is_read_without_it() -> None:
    [batch], _ = Columns(schema_of("x int, y double"), [0, 1]).convert([(Signal.ON, Signal.ON)])
    assert batch.to_pylist() == [{"x": 1, "y": 1.0}]


def test_values_that_are_too_large_together_are_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As texts of more than 2 GiB: no value is bad, and the column fails."""
    from spark_bridge.writer import arrays

    real = arrays.BUFFERS[pa.string()]
    monkeypatch.setitem(arrays.BUFFERS, pa.string(), lambda rows, place: real(rows, place) if len(rows) <= 3 else None)
    batches, bad = Columns(schema_of("x string"), [0]).convert([(f"{number}",) for number in range(10)])
    assert [row["x"] for batch in batches for row in batch.to_pylist()] == [f"{number}" for number in range(10)]
    assert len(batches) > 1
    assert not bad


@pytest.mark.parametrize("declared", ["x struct<a: int, a: int>", "x array<struct<b: struct<a: int, a: string>>>"])
def test_a_struct_with_a_name_twice_is_refused(declared: str) -> None:
    with pytest.raises(HandoverError, match="has 2 fields 'a'"):
        schema_of(declared)


def test_arrays_of_numpy_keep_their_values() -> None:
    columns = Columns(schema_of("x array<float>"), [0])
    vectors = [numpy.array([0.5, math.nan], "float32"), numpy.array([], "float32"), numpy.array([2.0], "float32")]
    [batch], bad = columns.convert([(vector,) for vector in vectors])
    assert not bad
    assert repr(batch.to_pylist()) == repr([{"x": [0.5, math.nan]}, {"x": []}, {"x": [2.0]}])
    mixed = [*vectors, None, [1, None], numpy.array([1, 2]), numpy.array([1e300]), numpy.array([[1.0]]), numpy.array(1.0)]
    batches, bad = columns.convert([(vector,) for vector in mixed])
    assert [row["x"] for batch in batches for row in batch.to_pylist()][3:] == [None, [1.0, None], [1.0, 2.0]]
    assert [each.row for each in bad] == [6, 7, 8]


def test_a_float_column_rounds_only_where_no_digits_are_lost() -> None:
    values = [0.1, -1.1754943508222875e-38, 2.0**-149, 3.4028234e38, 1e-40, 1e-60, 3.5e38, 2**24 + 1, numpy.float64(19.99)]
    batches, bad = Columns(schema_of("x float"), [0]).convert([(value,) for value in values])
    stored = [row["x"] for batch in batches for row in batch.to_pylist()]
    assert stored == [float(numpy.float32(value)) for value in (*values[:4], values[-1])]
    assert [each.row for each in bad] == [4, 5, 6, 7]


def test_a_time_is_stored_as_its_instant() -> None:
    before = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    [batch], _ = Columns(schema_of("x timestamp"), [0]).convert([(before,), (before.replace(fold=1),)])
    assert [row["x"].astimezone(UTC).hour for row in batch.to_pylist()] == [0, 1]
