"""Typed columns for the fields of a key, so that SQL can use them (TX-8). Decides types and converts keys; does no I/O.

The first key of a new map decides the type of each column. A key fits a column if the column has an equal value: 2.0 fits a column of ints,
and 2.5 does not. So equal keys share one row here too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NamedTuple
from uuid import UUID

from engine.api.fields import short_repr
from engine.state.row_codecs import INT64, is_text
from engine.state.values import Raw, ValueRefused

ROW_COLUMNS: Final = ("value", "txid", "attempt", "previous")
"""The other columns of a map."""
MOST_DIGITS: Final = 4300
"""Limit for a number in a column of numerics, before and behind its point."""
LONGEST_COLUMN: Final = 63
"""In bytes. PostgreSQL would cut a longer name."""


def _int(value: Any) -> int | None:
    is_number = isinstance(value, (int, float, Decimal)) and isfinite(value)
    number = int(value) if is_number else None
    return number if number is not None and number in INT64 and number == value else None


def _float(value: Any) -> float | None:
    number = float(value) + 0.0 if isinstance(value, (int, float, Decimal)) else None
    return number if number == value else None


def _bool(value: Any) -> bool | None:
    return bool(value) if isinstance(value, (int, float, Decimal)) and value in (0, 1) else None


def _numeric(value: Any) -> Decimal | None:
    if not (isinstance(value, (int, float, Decimal)) and isfinite(value)):
        return None
    number = Decimal(int(value)) if isinstance(value, int) else Decimal(value)
    exponent = number.as_tuple().exponent
    fits = isinstance(exponent, int) and number.adjusted() < MOST_DIGITS and exponent >= -MOST_DIGITS
    return Decimal(plain_digits(number)) if fits else None


def plain_digits(number: Decimal) -> str:
    """Return the digits of a number without an exponent and without zeros at its end. Equal numbers have equal digits.

    >>> plain_digits(Decimal("1.50")), plain_digits(Decimal("2E+2"))
    ('1.5', '200')
    """
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _text(value: Any) -> str | None:
    text = str.__str__(value) if isinstance(value, str) else None
    return text if text is not None and "\0" not in text and is_text(text) else None


def _bytes(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes) else None


def _timestamptz(value: Any) -> datetime | None:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.utcoffset() is not None else None


def _timestamp(value: Any) -> datetime | None:
    return value.replace(fold=0) if isinstance(value, datetime) and value.utcoffset() is None else None


def _uuid(value: Any) -> UUID | None:
    return UUID(int=value.int) if isinstance(value, UUID) else None


class KeyType(NamedTuple):
    """Type of a key column."""

    python: str
    """Name of the Python type, for errors."""
    postgres: str
    sqlite: str
    fit: Callable[[Any], Any]
    """Returns the value as it is stored, None if the column has no equal one."""


INT: Final = KeyType("int", "bigint", "INTEGER", _int)
FLOAT: Final = KeyType("float", "double precision", "REAL", _float)
BOOL: Final = KeyType("bool", "boolean", "BOOLEAN", _bool)
NUMERIC: Final = KeyType("Decimal", "numeric", "NUMERIC_TEXT", _numeric)
TEXT: Final = KeyType("str", "text", "TEXT", _text)
BYTES: Final = KeyType("bytes", "bytea", "BLOB", _bytes)
TIMESTAMPTZ: Final = KeyType("datetime with a time zone", "timestamp with time zone", "TIMESTAMPTZ_TEXT", _timestamptz)
TIMESTAMP: Final = KeyType("datetime without a time zone", "timestamp without time zone", "TIMESTAMP_TEXT", _timestamp)
KEY_UUID: Final = KeyType("UUID", "uuid", "UUID_TEXT", _uuid)
KEY_TYPES: Final = (INT, FLOAT, BOOL, NUMERIC, TEXT, BYTES, TIMESTAMPTZ, TIMESTAMP, KEY_UUID)
_BASES: Final = ((bool, BOOL), (int, INT), (float, FLOAT), (Decimal, NUMERIC), (str, TEXT), (bytes, BYTES), (UUID, KEY_UUID))


def type_of(value: object) -> KeyType | None:
    """Return the type of the column for a first value, None if no column has such values."""
    if isinstance(value, datetime):
        return TIMESTAMP if value.utcoffset() is None else TIMESTAMPTZ
    if isinstance(value, int) and value not in INT64:
        return NUMERIC
    return next((kind for base, kind in _BASES if isinstance(value, base)), None)


class KeyColumn(NamedTuple):
    """One column of a key."""

    name: str
    type: KeyType


def column_names(fields: Sequence[str]) -> list[str]:
    """Return the names of the columns for these fields. No database takes two of them for one, or for another column of the map.

    >>> column_names(["user", "hour"]), column_names(["user", "value"]), column_names(["user", "User"])
    (['user', 'hour'], ['user', 'key_value'], ['key_1', 'key_2'])
    """
    names = [f"key_{field}" if field.lower() in ROW_COLUMNS else field for field in fields]
    are_usable = all(0 < len(name.encode(errors="replace")) <= LONGEST_COLUMN and "\0" not in name and is_text(name) for name in names)
    is_clear = len({name.lower() for name in names}) == len(names)
    return names if are_usable and is_clear else [f"key_{number}" for number in range(1, len(fields) + 1)]


@dataclass(frozen=True)
class KeyColumns:
    """The typed columns of a map. Encodes each key as a tuple with a value for each column."""

    columns: tuple[KeyColumn, ...]

    @property
    def quoted(self) -> list[str]:
        """The names for a statement."""
        return [quoted(column.name) for column in self.columns]

    def keys(self, keys: Sequence[object]) -> list[Raw]:
        """Encode keys. Raises ValueRefused with the field of a key that does not fit."""
        rows: Any = [(key,) for key in keys] if len(self.columns) == 1 else keys
        for key, row in zip(keys, rows, strict=True):
            if not isinstance(row, tuple) or len(row) != len(self.columns):
                names = ", ".join(column.name for column in self.columns)
                hint = "Return a tuple with a value for each of them, or give the map another name."
                raise ValueRefused(f"{short_repr(key)} cannot be a key of this map, whose keys have the fields {names}", hint=hint)
        fitted = [self._fitted(at, column, rows) for at, column in enumerate(self.columns)]
        return list(zip(*fitted, strict=True)) if rows else []

    def _fitted(self, at: int, column: KeyColumn, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        values = [row[at] for row in rows]
        types = set(map(type, values))
        if column.type is INT and types == {int} and min(values) in INT64 and max(values) in INT64:
            return values
        if column.type is TEXT and types == {str} and "\0" not in (joined := "".join(values)) and is_text(joined):
            return values
        return [_fit(column, value, row) for value, row in zip(values, rows, strict=True)]

    def key(self, raw: Raw) -> object:
        """Decode a key."""
        return raw[0] if len(self.columns) == 1 else raw


def _fit(column: KeyColumn, value: object, row: tuple[Any, ...]) -> Any:
    try:
        fitted = column.type.fit(value)
    except (OverflowError, ValueError, ArithmeticError):  # an instant outside of the years 1 to 9999, a number too large for a float
        fitted = None
    if fitted is None:
        of = "" if len(row) == 1 else f" of the key {short_repr(row)}"
        has = "is None" if value is None else f"is {short_repr(value)} ({type(value).__name__})"
        raise ValueRefused(
            f"the field {column.name!r}{of} {has}, but the map's column {column.name!r} is {column.type.postgres}, for "
            f"{column.type.python}, as the first key of the map decided",
            hint=NONE_HINT if value is None else FIT_HINT,
        )
    return fitted


NONE_HINT: Final = "A key column has no NULL. Replace None in a bolt before the committer, or begin a new map with columns=False."
FIT_HINT: Final = (
    "Give the field one type in a bolt before the committer. A new map with columns=False takes keys of any type, in one encoded column."
)


def planned_columns(fields: Sequence[str], first: object) -> KeyColumns | None:
    """Return the columns for a new map with this first key, None if a field has no type for a column.

    Raises ValueRefused if a field is None, because the first key of the map decides, and None has no type.
    """
    if not fields or (len(fields) > 1 and not (isinstance(first, tuple) and len(first) == len(fields))):
        return None
    values: Any = first if len(fields) > 1 else (first,)
    for field, value in zip(fields, values, strict=True):
        if value is None:
            text = (
                f"the field {field!r} of the key {short_repr(first)} is None, and it is the first key of the map, which decides the columns"
            )
            raise ValueRefused(text, hint=NONE_HINT)
    types = [type_of(value) for value in values]
    if None in types:
        return None
    return KeyColumns(tuple(KeyColumn(name, kind) for name, kind in zip(column_names(fields), types, strict=True) if kind is not None))


def quoted(name: str) -> str:
    """Return a name for a statement."""
    return '"' + name.replace('"', '""') + '"'
