"""Compiled conversions make the same columns as pyarrow; values that they refuse are left to pyarrow."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.writer.columns import BUFFERS, CONVERSION_ERRORS, Columns, column_at, column_of, plain_column

OFFSET = timezone(timedelta(hours=1))
ODD = st.sampled_from([
    True, 7, 2**40, 2**70, 1.5, float("nan"), "text", b"bytes", "\ud800", (1,), date(2026, 1, 1), datetime(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=OFFSET),
])  # fmt: skip
EXACT = {
    "integer": st.integers(-(2**7), 2**7 - 1),
    "bool": st.booleans(),
    "date32[day]": st.dates(),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    "timestamp": st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.sampled_from([None, UTC])),
}


def exact_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return a strategy for values of exactly this type."""
    if pa.types.is_integer(kind):
        return EXACT["integer"]
    return EXACT["timestamp" if pa.types.is_timestamp(kind) else str(kind)]


def outcome(make: Callable[[], pa.Array]) -> tuple[object, ...]:
    """Return the type and the values of a column, or the error."""
    try:
        column = make()
    except CONVERSION_ERRORS as error:
        return type(error), str(error)
    column.validate(full=True)
    return column.type, column.null_count, repr(column.to_pylist())


@pytest.mark.guarantee("SP-2")
@given(st.data())
def test_a_column_equals_the_conversion_of_pyarrow(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(BUFFERS)))
    field = pa.field("column", kind, data.draw(st.booleans()))
    exact = exact_values(kind)
    values = data.draw(st.lists(exact, max_size=20) | st.lists(exact | st.none()) | st.lists(exact | st.none() | ODD, max_size=5))
    rows = [(0, value) for value in values]
    assert outcome(lambda: column_at(field, 1, rows)) == outcome(lambda: column_of(field, values))


@given(st.data())
def test_values_of_the_exact_type_need_no_conversion(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(BUFFERS)))
    rows = [(0, value) for value in data.draw(st.lists(exact_values(kind) | st.none()))]
    assert plain_column(pa.field("column", kind), 1, rows) is not None


@pytest.mark.guarantee("SP-2")
def test_the_error_of_a_wrong_row_names_its_first_wrong_column() -> None:
    schema = pa.schema([pa.field("number", pa.int32(), nullable=False), pa.field("name", pa.string())])
    batch, bad = Columns(schema, [2, 1]).convert([(0, "a", 1), (0, 7, None), (0, "b", 2**40), (0, None, 2)])
    assert batch.to_pylist() == [{"number": 1, "name": "a"}, {"number": 2, "name": None}]
    assert [(each.row, each.column) for each in bad] == [(1, "number"), (2, "number")]
