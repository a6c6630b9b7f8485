"""The schema of a hand-over: declared by pyarrow or in Spark's DDL, and what both sides make of it."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import types

from spark_bridge.handover.ddl import SIMPLE_TYPES, fields_of
from spark_bridge.handover.errors import HandoverError

RESERVED: Final = ("txid", "batch_time")
"""Columns that the source adds to those of the schema."""
REJECTS_SCHEMA: Final = pa.schema(
    [("txid", pa.int64()), ("task", pa.int32()), ("row", pa.int64()), ("error", pa.string()), ("values", pa.string())]
)
"""Of the rows that do not fit, where they are kept: `row` is which of the task's rows of this txid it was, 0 the first; `error` why it
did not fit; `values` those of the tuple, by field, as a JSON text."""
_SIMPLE_NAMES: Final = {kind: name for name, kind in reversed(SIMPLE_TYPES.items())}
_INSTEAD: Final = "Use bool, int8 to int64, float32, float64, decimal128, string, binary, date32, timestamp, list, map or struct."


def schema_of(declared: pa.Schema | str) -> pa.Schema:
    """Return the schema that is written, from a pyarrow Schema or Spark's DDL; raise HandoverError where Spark has no such columns.

    Timestamps are in microseconds, of UTC; one without a zone is Spark's `timestamp_ntz`. Metadata is left out.

    >>> schema_of("host string not null, at timestamp, price decimal(10,2)").names
    ['host', 'at', 'price']
    """
    given: object = declared
    if isinstance(given, str):
        fields = fields_of(given)
    elif isinstance(given, pa.Schema):
        fields = [pa.field(field.name, _type_of(field.type, field.name), nullable=field.nullable) for field in given]
    else:
        text = f"the schema of a hand-over is {given!r}"
        raise HandoverError(text, hint='Give a pyarrow.Schema, or text such as "host string not null, at timestamp".')
    for fault in _faults([field.name for field in fields]):
        raise HandoverError(f"the schema of a hand-over {fault}", hint="Rename the column.")
    return pa.schema(fields)


def ddl_of(schema: pa.Schema) -> str:
    """Return a schema of `schema_of` in Spark's DDL, for `DataSource.schema()` or a person.

    >>> ddl_of(schema_of("host string not null, tags array<string>"))
    '`host` string not null, `tags` array<string>'
    """
    return ", ".join(f"{_quoted(field.name)} {_ddl_type(field.type)}{'' if field.nullable else ' not null'}" for field in schema)


def _faults(names: list[str]) -> Iterator[str]:
    if not names:
        yield "has no column"
    for name in names:
        if not name:
            yield "has a column without a name"
        if name.lower() in RESERVED:
            yield f"has a column {name!r}, and the source adds one of that name"
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            yield f"has {count} columns {name!r}, which to Spark are one: it knows no upper and lower case"


def _type_of(kind: pa.DataType, name: str) -> pa.DataType:
    """Return what is written of a type of pyarrow."""
    if kind in _SIMPLE_NAMES:
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
        return pa.list_(_type_of(kind.value_type, f"{name}[]"))
    if types.is_map(kind):
        return pa.map_(_type_of(kind.key_type, f"{name} (key)"), _type_of(kind.item_type, f"{name} (value)"))
    if types.is_struct(kind) and kind.num_fields:
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([pa.field(each.name, _type_of(each.type, f"{name}.{each.name}"), nullable=each.nullable) for each in inner])
    raise HandoverError(f"column {name!r} is of type {kind}, which Spark has not", hint=_INSTEAD)


def _ddl_type(kind: pa.DataType) -> str:
    simple = _SIMPLE_NAMES.get(kind)
    if simple is not None:
        return simple
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind):
        return f"array<{_ddl_type(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{_ddl_type(kind.key_type)},{_ddl_type(kind.item_type)}>"
    inner = [kind.field(number) for number in range(kind.num_fields)]
    texts = [f"{_quoted(each.name)}: {_ddl_type(each.type)}{'' if each.nullable else ' not null'}" for each in inner]
    return f"struct<{', '.join(texts)}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
