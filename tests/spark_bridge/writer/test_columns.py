"""Rows become columns in one way, whatever stands beside them: the compiled conversions, and the slower one with the rules of a type."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.handover import schema_of
from spark_bridge.writer.arrays import BUFFERS, WHOLE, plain_array
from spark_bridge.writer.columns import Columns
from spark_bridge.writer.exact_values import exact_values

OFFSET = timezone(timedelta(hours=1))
ODD = st.sampled_from([
    True, 7, 2**40, 2**53 + 1, 2**60, 2**70, 1.5, 0.1, 1e300, float("nan"), float("inf"),
    Decimal("1.5"), "text", b"bytes", "\ud800", (1,), date(2026, 1, 1),
    datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=OFFSET),
])  # fmt: skip
EXACT = {
    "integer": st.integers(-(2**7), 2**7 - 1),
    "bool": st.booleans(),
    "date32[day]": st.dates(),
    "double": st.floats() | st.integers(-(2**53), 2**53),
    "float": st.floats(width=32) | st.integers(-(2**24), 2**24),
    "binary": st.binary(max_size=6),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "timestamp[us]": st.datetimes() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    "timestamp[us, tz=UTC]": st.datetimes(timezones=st.sampled_from([None, UTC])) | st.just(253_402_300_799_999_999),
}


def exact_values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return a strategy for plain values of this type."""
    if pa.types.is_integer(kind):
        return EXACT["integer"]
    return EXACT[str(kind)]


def shown(batches: list[pa.RecordBatch]) -> str:
    for batch in batches:
        batch.validate(full=True)
    return repr([row for batch in batches for row in batch.to_pylist()])


@given(st.data())
def test_plain_values_need_no_rule_and_keep_the_rule(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(BUFFERS)))
    values = data.draw(st.lists(exact_values_of(kind) | st.none()))
    array = plain_array(kind, [(0, value) for value in values], 1, "x")
    assert array is not None
    array.validate(full=True)
    by_rule = plain_array(kind, exact_values(kind, values, "x"), WHOLE, "x")
    assert by_rule is not None
    assert repr(by_rule.to_pylist()) == repr(array.to_pylist())


NESTED = [
    "array<int>", "map<string,double>", "struct<a: int, b: array<float>>", "decimal(10,2)", "array<timestamp>",
    "map<date,struct<a: string>>", "struct<a: int not null, b: array<struct<c: string not null>> not null>",
]  # fmt: skip
DEEP = st.recursive(
    ODD | st.none() | st.just(Decimal("1.5")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", date(2026, 1, 1)]), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@pytest.mark.guarantee("SP-7")
@given(st.data())
def test_a_row_is_converted_as_if_it_stood_alone(data: st.DataObject) -> None:
    """So no value changes what becomes of another one, and the compiled conversions agree with the slower one."""
    kind = data.draw(st.sampled_from([*BUFFERS, *(schema_of(f"x {ddl}").field(0).type for ddl in NESTED)]))
    columns = Columns(pa.schema([pa.field("x", kind, data.draw(st.booleans()))]), [1])
    exact = exact_values_of(kind) if kind in BUFFERS else DEEP
    rows = [(0, value) for value in data.draw(st.lists(exact | st.none() | DEEP, max_size=6))]
    alone = [columns.convert([row]) for row in rows]
    batches, bad = columns.convert(rows)
    assert shown(batches) == shown([batch for each, _ in alone for batch in each])
    assert bad == [fault._replace(row=number) for number, (_, faults) in enumerate(alone) for fault in faults]
    plain = columns.convert_plain(rows)
    if plain is not None:
        assert shown([plain]) == shown(batches)
        assert not bad


@pytest.mark.guarantee("SP-2")
def test_the_error_of_a_wrong_row_names_its_first_wrong_column() -> None:
    schema = pa.schema([pa.field("number", pa.int32(), nullable=False), pa.field("name", pa.string())])
    batches, bad = Columns(schema, [2, 1]).convert([(0, "a", 1), (0, 7, None), (0, "b", 2**40), (0, None, 2)])
    assert [row for batch in batches for row in batch.to_pylist()] == [{"number": 1, "name": "a"}, {"number": 2, "name": None}]
    assert [(each.row, each.column) for each in bad] == [(1, "number"), (2, "number")]
