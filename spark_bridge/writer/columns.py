"""Converts rows of Python values to Arrow columns of the declared schema, and finds the rows that do not fit."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from engine.errors import FatalError
from engine.safe_text import safe_repr
from engine.transactional import TransactionAttempt
from spark_bridge.writer.arrays import BUFFERS, array_of, check_nulls, plain_array
from spark_bridge.writer.exact_values import Misfit, value_text

Row: TypeAlias = tuple[Any, ...]


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
            array = plain_array(field.type, rows, place, field.name)
            if array is None or (array.null_count and not field.nullable):
                return None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def convert(self, rows: list[Row]) -> tuple[list[pa.RecordBatch], list[BadRow]]:
        """Return the rows that fit, in order, and the faults of the others."""
        batches: list[pa.RecordBatch] = []
        bad: list[BadRow] = []
        self._convert(rows, 0, batches, bad)
        return batches, bad

    def _convert(self, rows: list[Row], first: int, batches: list[pa.RecordBatch], bad: list[BadRow]) -> None:
        """Convert rows, the first of which has this number. Bisects at a fault, because most rows fit, and a fault may need two rows."""
        arrays: list[pa.Array] = []
        for field, place in self._places:
            try:
                arrays.append(column_at(field, place, rows))
            except Misfit as misfit:
                if len(rows) == 1:
                    bad.append(BadRow(first, field.name, misfit.told_of(field.name)))
                    return
                break
        else:
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
            return
        half = len(rows) // 2
        self._convert(rows[:half], first, batches, bad)
        self._convert(rows[half:], first + half, batches, bad)


def places_of(schema: pa.Schema, fields: Iterable[str]) -> list[int]:
    """Return the index of each column in tuples of these fields, by name."""
    places = {name: place for place, name in enumerate(fields)}
    return [places[name] for name in schema.names]


def bad_row_error(attempt: TransactionAttempt, schema: pa.Schema, names: Sequence[str], row: Row, bad: BadRow, hint: str) -> FatalError:
    """Return the error for a row that does not fit. `bad.row` counts from the first row of its attempt."""
    field = schema.field(bad.column)
    wanted = f"{field.type}{'' if field.nullable else ' not null'}"
    text = f"row {bad.row} of batch {attempt} does not fit the schema: column {bad.column!r} is {wanted}"
    shown = dict(zip(names[1:], row[1:], strict=True))
    return FatalError(
        f"{text}, and the value is {value_text(value_at(names, row, bad))}: {bad.error}. The row: {safe_repr(shown)}", hint=hint
    )


def value_at(names: Sequence[str], row: Row, bad: BadRow) -> object:
    """Return the value that does not fit."""
    return row[list(names).index(bad.column)]


def column_at(field: pa.Field, place: int, rows: list[Row]) -> pa.Array:
    """Convert the values at an index of each row. Raise Misfit if a value does not fit."""
    column = array_of(field.type, rows, place, field.name)
    check_nulls(field, column, field.name)
    return column
