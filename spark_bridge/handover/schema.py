"""Schema of a hand-over. A schema is declared with pyarrow or in Spark's DDL, and limited to types that Spark has."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyarrow import types

from spark_bridge.handover.ddl import SIMPLE_NAMES, parse_ddl
from spark_bridge.handover.errors import HandoverError

RESERVED: Final = ("txid", "batch_time")
"""Columns that the source adds to the declared ones."""
REJECTS_SCHEMA: Final = pa.schema(
    [("txid", pa.int64()), ("task", pa.int32()), ("row", pa.int64()), ("error", pa.string()), ("values", pa.string())]
)
"""Schema of the files in `rejects`. `row` counts the rows of this task and txid from 0. `error` says why the row does not fit. `values`
holds the values of the tuple by field, as a JSON text."""
_SUPPORTED: Final = "Use bool, int8 to int64, float32, float64, decimal128, string, binary, date32, timestamp, list, map or struct."


def schema_of(declared: pa.Schema | str) -> pa.Schema:
    """Return the schema of the files from a pyarrow Schema or Spark's DDL.

    Raises HandoverError if Spark has no such columns. Timestamps become microseconds in UTC. A timestamp without a zone becomes Spark's
    `timestamp_ntz`. Metadata is dropped.

    >>> schema_of("host string not null, at timestamp, price decimal(10,2)").names
    ['host', 'at', 'price']
    """
    given: object = declared
    if isinstance(given, str):
        fields = _written(parse_ddl(given))
    elif isinstance(given, pa.Schema):
        fields = _written(given)
    else:
        text = f"the schema of a hand-over is {given!r}"
        raise HandoverError(text, hint='Give a pyarrow.Schema, or a text such as "host string not null, at timestamp".')
    for fault in _name_faults([field.name for field in fields]):
        raise HandoverError(f"the schema of a hand-over {fault}", hint="Rename the column.")
    return pa.schema(fields)


def _written(fields: Iterable[pa.Field]) -> list[pa.Field]:
    return [pa.field(field.name, _written_type(field.type, field.name), nullable=field.nullable) for field in fields]


def _name_faults(names: list[str]) -> Iterator[str]:
    if not names:
        yield "has no column"
    for name in names:
        if not name:
            yield "has a column without a name"
        if name.lower() in RESERVED:
            yield f"has a column {name!r}, and the source adds one of that name"
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            yield f"has {count} columns {name!r}: Spark does not distinguish upper and lower case"


def _written_type(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type of the files for a declared type. Raise HandoverError if Spark has none."""
    if kind in SIMPLE_NAMES:
        return kind
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_date(kind):
        return pa.date32()
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_written_type(kind.value_type, f"{name}[]"))
    if types.is_map(kind):
        return pa.map_(_written_type(kind.key_type, f"{name} (key)"), _written_type(kind.item_type, f"{name} (value)"))
    if types.is_struct(kind) and kind.num_fields:
        inner = [kind.field(number) for number in range(kind.num_fields)]
        for twice, count in Counter(each.name for each in inner).items():
            if count > 1:
                raise HandoverError(
                    f"column {name!r} has {count} fields {twice!r}, and Spark reads a field by its name", hint="Rename one of them."
                )
        return pa.struct([pa.field(each.name, _written_type(each.type, f"{name}.{each.name}"), nullable=each.nullable) for each in inner])
    raise HandoverError(f"column {name!r} is of type {kind}, and Spark has no such type", hint=_SUPPORTED)
