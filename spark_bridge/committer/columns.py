"""From rows of Python values to Arrow columns of the declared schema, and which rows do not fit it."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from engine.kernel import boolean_buffers, date_buffers, double_buffers, integer_buffers, string_buffers, timestamp_buffers

Row: TypeAlias = tuple[Any, ...]
MISFIT: Final = (ValueError, TypeError, OverflowError, pa.ArrowException)
"""What pyarrow raises for a value that is of another type, too large, or no text."""
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
"""What makes a column without pyarrow, in an eighth of its time, where all values are None or exactly of the type: the same column."""


class BadRow(NamedTuple):
    """The first fault of a row that does not fit."""

    row: int
    """Among the rows that were to be converted: 0, 1, …"""
    column: str
    error: str


class Columns:
    """Converts rows column by column: so a thread that does it lets go of the interpreter's lock between two of them."""

    def __init__(self, schema: pa.Schema, places: Sequence[int]) -> None:
        """Take the place of each column in a row."""
        self.schema: Final = schema
        self._places = list(zip(schema, places, strict=True))
        self._may_be_plain = all(field.type in BUFFERS for field in schema)

    def convert_plain(self, rows: list[Row]) -> pa.RecordBatch | None:
        """Return rows whose values are all plain; None where some are not, or do not fit. Takes 0.1 µs for a row of five columns."""
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
        """Return the rows that fit, in order, and those that do not."""
        arrays: list[pa.Array] = []
        faults: dict[int, BadRow] = {}
        for field, place in self._places:
            try:
                arrays.append(column_at(field, place, rows))
            except MISFIT:
                for bad in _bad_values(field, [row[place] for row in rows], 0):
                    faults.setdefault(bad.row, bad)
        if not faults:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema), []
        batch, _ = self.convert([row for number, row in enumerate(rows) if number not in faults])
        return batch, [faults[number] for number in sorted(faults)]


def places_of(schema: pa.Schema, fields: Iterable[str]) -> list[int]:
    """Return where each column stands in tuples of these fields, by name."""
    places = {name: place for place, name in enumerate(fields)}
    return [places[name] for name in schema.names]


def column_at(field: pa.Field, place: int, rows: list[Row]) -> pa.Array:
    """Return a column of what stands at a place of each row; raise one of MISFIT where a value does not fit."""
    column = plain_column(field, place, rows)
    if column is None:
        return column_of(field, list(map(itemgetter(place), rows)))
    _check_nulls(field, column, field.name)
    return column


def plain_column(field: pa.Field, place: int, rows: list[Row]) -> pa.Array | None:
    """Return a column where all values are plain: None, or exactly of a type of BUFFERS."""
    compiled = BUFFERS.get(field.type)
    read = None if compiled is None else compiled(rows, place)
    if read is None:
        return None
    nulls, buffers = read
    return pa.Array.from_buffers(field.type, len(rows), [each if each is None else pa.py_buffer(each) for each in buffers], nulls)


def column_of(field: pa.Field, values: list[Any]) -> pa.Array:
    """Return a column; raise one of MISFIT where a value does not fit."""
    column = pa.array(values, field.type)
    _check_nulls(field, column, field.name)
    return column


def _check_nulls(field: pa.Field, column: pa.Array, name: str) -> None:
    """Raise ValueError where there is nothing and the schema says "not null", at any depth."""
    if not field.nullable and column.null_count:
        raise ValueError(f"{name} is null, and declared not null")
    for inner, path, find in _inner(field.type, name):
        _check_nulls(inner, find(column), path)


def _inner(kind: pa.DataType, name: str) -> "list[tuple[pa.Field, str, Callable[[pa.Array], pa.Array]]]":
    """Return the fields in a nested type that may say "not null", with how their values are found in a column of it."""
    if pa.types.is_struct(kind):
        # What is in a struct that is null itself is not looked at.
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return [(field, f"{name}.{field.name}", partial(_struct_values, number)) for number, field in enumerate(inner)]
    if pa.types.is_list(kind):
        return [(kind.value_field, f"{name}[]", lambda column: column.flatten())]
    if pa.types.is_map(kind):
        return [(kind.item_field, f"{name}{{}}", lambda column: column.drop_null().items)]
    return []


def _struct_values(number: int, column: pa.Array) -> pa.Array:
    return column.drop_null().field(number)


def _bad_values(field: pa.Field, values: list[Any], first: int) -> list[BadRow]:
    """Find those that do not fit, by halves: most of a column fits."""
    try:
        column_of(field, values)
    except MISFIT as error:
        if len(values) == 1:
            return [BadRow(first, field.name, str(error).strip() or type(error).__name__)]
    else:
        return []
    half = len(values) // 2
    return _bad_values(field, values[:half], first) + _bad_values(field, values[half:], first + half)
