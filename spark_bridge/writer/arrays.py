"""Converts Python values to Arrow arrays, each value exactly or not at all (SP-7)."""

import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from engine.kernel import (
    binary_buffers,
    boolean_buffers,
    date_buffers,
    decimal_values,
    double_buffers,
    float_buffers,
    integer_buffers,
    list_parts,
    map_parts,
    python_values,
    string_buffers,
    struct_parts,
    timestamp_buffers,
    values_of_classes,
)
from engine.safe_text import safe_repr
from spark_bridge.writer.exact_values import Misfit, exact_values, numpy_kinds

Buffers: TypeAlias = list[bytes | None]
WHOLE: Final = -1
"""Place of a value that stands alone, and not in a row."""
BUFFERS: Final[dict[pa.DataType, Callable[[list[Any], int], tuple[int, Buffers] | None]]] = {
    pa.int8(): partial(integer_buffers, byte_width=1),
    pa.int16(): partial(integer_buffers, byte_width=2),
    pa.int32(): partial(integer_buffers, byte_width=4),
    pa.int64(): partial(integer_buffers, byte_width=8),
    pa.bool_(): boolean_buffers,
    pa.date32(): date_buffers,
    pa.float32(): float_buffers,
    pa.float64(): double_buffers,
    pa.string(): string_buffers,
    pa.binary(): binary_buffers,
    pa.timestamp("us"): partial(timestamp_buffers, in_utc=False),
    pa.timestamp("us", tz="UTC"): partial(timestamp_buffers, in_utc=True),
}
"""Compiled conversions by type, for columns whose values are all None or plain.

These conversions take an eighth of pyarrow's time.
"""
EMPTY: Final[dict[Callable[[pa.DataType], bool], object]] = {
    types.is_boolean: False,
    types.is_string: "",
    types.is_binary: b"",
    types.is_date: date(1970, 1, 1),
    types.is_list: [],
    types.is_map: {},
    lambda _: True: 0,  # numbers and timestamps
}
"""Plain values, by the kinds of types that have them."""
NUMPY_NAMES: Final = {kind: str(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())} | {
    pa.float32(): "float32",
    pa.float64(): "float64",
}
"""Names of the types of NumPy that have the same values."""
DISTINCT_KEYS: Final = frozenset({pa.string(), pa.binary(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.date32()})
"""Types of keys that are equal in Spark only if they are equal in a dict too. Other ones have two NaN, or an int for a time."""


def array_of(kind: pa.DataType, rows: list[Any], place: int, path: str) -> pa.Array:
    """Convert the values at a place of each row. Raise Misfit for a value that the type does not hold exactly.

    path: the column, or the part of it that has the values, such as `who.tags[]`.
    """
    made = plain_array(kind, rows, place, path)
    numpy = sys.modules.get("numpy")  # a value of NumPy exists only if it was imported
    if made is None and numpy is not None:
        rows, place = python_values(rows, place, numpy.generic, numpy_kinds(numpy)), WHOLE
        made = _numpy_lists(kind, rows, numpy)
        made = plain_array(kind, rows, place, path) if made is None else made
    if made is None:
        values = rows if place == WHOLE else [row[place] for row in rows]
        made = plain_array(kind, exact_values(kind, values, path), WHOLE, path)
    if made is None:
        raise Misfit(path, "a column of Arrow holds 2 GiB at most", f"of {len(rows)} values")
    return made


def plain_array(kind: pa.DataType, rows: list[Any], place: int, path: str) -> pa.Array | None:
    """Convert plain values. Return None if a value is not plain. Raise Misfit for a part that does not fit."""
    compiled = BUFFERS.get(kind)
    if compiled is not None:
        read = compiled(rows, place)
        return None if read is None else _array(kind, len(rows), *read)
    if types.is_decimal(kind):
        return _decimals(kind, rows, place)
    if types.is_list(kind):
        return _lists(kind, rows, place, path)
    return _maps(kind, rows, place, path) if types.is_map(kind) else _structs(kind, rows, place, path)


def _array(kind: pa.DataType, count: int, nulls: int, buffers: Buffers, children: list[pa.Array] | None = None) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [each if each is None else pa.py_buffer(each) for each in buffers], nulls, 0, children)


def _decimals(kind: pa.DataType, rows: list[Any], place: int) -> pa.Array | None:
    """pyarrow converts these values exactly, or raises. It would read one of a subclass by the text that its own code prints."""
    values = decimal_values(rows, place, Decimal, kind.scale)
    if values is None:
        return None
    try:
        return pa.array(values, kind)
    except (ValueError, pa.ArrowException):  # ValueError also for an int with more digits than Python prints
        return None


def _lists(kind: pa.DataType, rows: list[Any], place: int, path: str) -> pa.Array | None:
    read = list_parts(rows, place)
    if read is None:
        return None
    nulls, buffers, values = read
    return _array(kind, len(rows), nulls, buffers, [_part(kind.value_field, values, f"{path}[]")])


def _numpy_lists(kind: pa.DataType, values: list[Any], numpy: Any) -> pa.Array | None:
    """Convert arrays of NumPy that all have the type of the list's values, without a Python object for each number. Else None."""
    name = NUMPY_NAMES.get(kind.value_type) if types.is_list(kind) else None
    arrays = None if name is None else values_of_classes(values, WHOLE, (numpy.ndarray,))
    if not arrays or any(each is None or each.ndim != 1 for each in arrays):
        return None
    if {each.dtype for each in arrays} != {numpy.dtype(name)}:
        return None
    ends = pa.array([0, *accumulate(map(len, arrays))], pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(numpy.concatenate(arrays)), kind)


def _structs(kind: pa.DataType, rows: list[Any], place: int, path: str) -> pa.Array | None:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    read = struct_parts(rows, place, tuple(field.name for field in fields), tuple(map(_filler, fields)))
    if read is None:
        return None
    nulls, buffers, columns = read
    parts = [_part(field, values, f"{path}.{field.name}") for field, values in zip(fields, columns, strict=True)]
    return _array(kind, len(rows), nulls, buffers, parts)


def _filler(field: pa.Field) -> object:
    """Return a value for the field of a struct that is null itself. Parquet refuses a null in a field declared not null even there."""
    kind = field.type
    if field.nullable:
        return None
    if types.is_struct(kind):
        return tuple(_filler(kind.field(number)) for number in range(kind.num_fields))
    return EMPTY[next(is_kind for is_kind in EMPTY if is_kind(kind))]


def _part(field: pa.Field, values: list[Any], path: str) -> pa.Array:
    """Convert the values of a part of a column. Raise Misfit if one does not fit, or is null and must not be."""
    array = array_of(field.type, values, WHOLE, path)
    check_nulls(field, array, path)
    return array


def check_nulls(field: pa.Field, array: pa.Array, path: str) -> None:
    """Raise Misfit for a null in a field declared not null."""
    if array.null_count and not field.nullable:
        raise Misfit(path, "it is declared not null", "None")


def _maps(kind: pa.DataType, rows: list[Any], place: int, path: str) -> pa.Array | None:
    read = map_parts(rows, place)
    if read is None:
        return None
    nulls, buffers, key_values, item_values, may_repeat = read
    keys = _part(kind.key_field, key_values, f"{path}{{key}}")
    items = _part(kind.item_field, item_values, f"{path}{{}}")
    entries = _array(pa.struct([kind.key_field, kind.item_field]), len(keys), 0, [None], [keys, items])
    made = _array(kind, len(rows), nulls, buffers, [entries])
    if may_repeat or kind.key_type not in DISTINCT_KEYS:
        _check_distinct(made, path)
    return made


def _check_distinct(maps: pa.Array, path: str) -> None:
    """Raise Misfit if a map has a key twice, because Spark's maps have one value for each key."""
    keys = [_comparable(key) for key in maps.keys.to_pylist()]
    for begin, end in pairwise(maps.offsets.to_pylist()):
        part = keys[begin:end]
        if len(set(part)) < len(part):
            [(twice, _)] = Counter(part).most_common(1)
            shown = safe_repr(maps.keys[begin + part.index(twice)].as_py())
            raise Misfit(path, f"a map has each key once, and {shown} is there again", "a map")


def _comparable(key: Any) -> Any:
    """Return what is equal for keys that are equal in Spark. There each NaN equals another one, and zeros of both signs are equal too."""
    if isinstance(key, dict):
        return tuple(map(_comparable, key.values()))
    if isinstance(key, list):
        return tuple(map(_comparable, key))
    return key if key == key else "NaN"
