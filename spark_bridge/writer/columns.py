"""Converts rows of Python values to Arrow columns of the declared schema, and finds the rows that do not fit."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from engine.errors import FatalError
from engine.kernel import boolean_buffers, date_buffers, double_buffers, integer_buffers, string_buffers, timestamp_buffers
from engine.safe_text import safe_repr
from engine.transactional import TransactionAttempt

Row: TypeAlias = tuple[Any, ...]
CONVERSION_ERRORS: Final = (ValueError, TypeError, OverflowError, pa.ArrowException)
"""Errors of pyarrow for a value of another type, too large a number, or a text that is not valid."""
BUFFERS: Final[dict[pa.DataType, Callable[[list[Row], int], tuple[int, list[bytes | None]] | None]]] = {
    pa.int8(): partial(integer_buffers, byte_width=1),
    pa.int16(): partial(integer_buffers, byte_width=2),
    pa.int32(): partial(integer_buffers, byte_width=4),
    pa.int64(): partial(integer_buffers, byte_width=8),
    pa.bool_(): boolean_buffers,
    pa.date32(): date_buffers,
    pa.float64(): double_buffers,
    pa.string(): string_buffers,
    pa.timestamp("us"): timestamp_buffers,
    pa.timestamp("us", tz="UTC"): timestamp_buffers,
}
"""Compiled conversions by type, for columns whose values are all None or exactly of the type.

These conversions take an eighth of pyarrow's time.
"""


class BadRow(NamedTuple):
    """First fault of a row that does not fit the schema."""

    row: int
    """Index among the converted rows: 0, 1, …"""
    column: str
    error: str


class Columns:
    """Converts rows to a schema, column by column. Between two columns a thread releases the GIL."""

    def __init__(self, schema: pa.Schema, places: Sequence[int]) -> None:
        """`places`: index in a row of each column."""
        self.schema: Final = schema
        self._places = list(zip(schema, places, strict=True))
        self._may_be_plain = all(field.type in BUFFERS for field in schema)

    def convert_plain(self, rows: list[Row]) -> pa.RecordBatch | None:
        """Convert rows of plain values. Return None if a value is not plain or does not fit. Takes 0.1 µs per row of five columns."""
        if not self._may_be_plain:
            return None
        arrays: list[pa.Array] = []
        for field, place in self._places:
            array = plain_column(field, place, rows)
            if array is None or (array.null_count and not field.nullable):
                return None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def convert(self, rows: list[Row]) -> tuple[pa.RecordBatch, list[BadRow]]:
        """Return the rows that fit, in order, and the faults of the others."""
        arrays: list[pa.Array] = []
        faults: dict[int, BadRow] = {}
        for field, place in self._places:
            try:
                arrays.append(column_at(field, place, rows))
            except CONVERSION_ERRORS:
                for bad in _bad_values(field, [row[place] for row in rows], 0):
                    faults.setdefault(bad.row, bad)
        if not faults:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema), []
        batch, _ = self.convert([row for number, row in enumerate(rows) if number not in faults])
        return batch, [faults[number] for number in sorted(faults)]


def places_of(schema: pa.Schema, fields: Iterable[str]) -> list[int]:
    """Return the index of each column in tuples of these fields, by name."""
    places = {name: place for place, name in enumerate(fields)}
    return [places[name] for name in schema.names]


def bad_row_error(attempt: TransactionAttempt, schema: pa.Schema, names: Sequence[str], row: Row, bad: BadRow, hint: str) -> FatalError:
    """Return the error for a row that does not fit. `bad.row` counts from the first row of its attempt."""
    field = schema.field(bad.column)
    value: Any = row[list(names).index(bad.column)]
    wanted = f"{field.type}{'' if field.nullable else ' not null'}"
    text = f"row {bad.row} of batch {attempt} does not fit the schema: column {bad.column!r} is {wanted}"
    shown = dict(zip(names[1:], row[1:], strict=True))
    return FatalError(
        f"{text}, and the value is {safe_repr(value)} ({type(value).__name__}): {bad.error}. The row: {safe_repr(shown)}", hint=hint
    )


def column_at(field: pa.Field, place: int, rows: list[Row]) -> pa.Array:
    """Convert the values at an index of each row. Raise one of CONVERSION_ERRORS if a value does not fit."""
    column = plain_column(field, place, rows)
    if column is None:
        return column_of(field, list(map(itemgetter(place), rows)))
    _check_nulls(field, column, field.name)
    return column


def plain_column(field: pa.Field, place: int, rows: list[Row]) -> pa.Array | None:
    """Convert a column with a compiled conversion of BUFFERS. Return None if a value or the type is not plain."""
    compiled = BUFFERS.get(field.type)
    read = None if compiled is None else compiled(rows, place)
    if read is None:
        return None
    nulls, buffers = read
    return pa.Array.from_buffers(field.type, len(rows), [each if each is None else pa.py_buffer(each) for each in buffers], nulls)


def column_of(field: pa.Field, values: list[Any]) -> pa.Array:
    """Convert values with pyarrow. Raise one of CONVERSION_ERRORS if a value does not fit."""
    column = pa.array(values, field.type)
    _check_nulls(field, column, field.name)
    return column


def _check_nulls(field: pa.Field, column: pa.Array, name: str) -> None:
    """Raise ValueError for a null in a field declared not null, at any depth. pyarrow does not check this."""
    if not field.nullable and column.null_count:
        raise ValueError(f"{name} is null, and declared not null")
    for inner, path, find in _inner_fields(field.type, name):
        _check_nulls(inner, find(column), path)


def _inner_fields(kind: pa.DataType, name: str) -> "list[tuple[pa.Field, str, Callable[[pa.Array], pa.Array]]]":
    """Return the fields of a nested type, each with its path and a function that finds its values."""
    if pa.types.is_struct(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return [(field, f"{name}.{field.name}", partial(_struct_values, number)) for number, field in enumerate(inner)]
    if pa.types.is_list(kind):
        return [(kind.value_field, f"{name}[]", lambda column: column.flatten())]
    if pa.types.is_map(kind):
        return [(kind.item_field, f"{name}{{}}", lambda column: column.drop_null().items)]
    return []


def _struct_values(number: int, column: pa.Array) -> pa.Array:
    """Return the values of a field of a struct. A struct that is null itself has none."""
    return column.drop_null().field(number)


def _bad_values(field: pa.Field, values: list[Any], first: int) -> list[BadRow]:
    """Find the values that do not fit. Uses bisection, because most values of a column fit."""
    try:
        column_of(field, values)
    except CONVERSION_ERRORS as error:
        if len(values) == 1:
            return [BadRow(first, field.name, str(error).strip() or type(error).__name__)]
    else:
        return []
    half = len(values) // 2
    return _bad_values(field, values[:half], first) + _bad_values(field, values[half:], first + half)
