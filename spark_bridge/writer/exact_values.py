"""Says which Python values a column holds exactly. Every other value does not fit, because none is cut or guessed (SP-7).

A rule makes a value plain, so that the compiled conversions of `arrays.py` take it. They take plain values without asking a rule. So a rule
accepts each plain value too, and returns it unchanged.
"""

import array
import math
import struct
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import types

from engine.safe_text import safe_repr, safe_str, type_name
from spark_bridge.handover.ddl import type_text

EPOCH: Final = datetime(1970, 1, 1)
FIRST_MICROSECOND: Final = -62_135_596_800_000_000
LAST_MICROSECOND: Final = 253_402_300_799_999_999
"""Microseconds since 1970 of the first and the last datetime that Python has."""
NUMPY_KINDS: Final = frozenset("biufSU")
"""Kinds of NumPy's types whose values become Python's own without a loss: bool, int, float, bytes and str."""
FLOAT_ROUNDING: Final = 2.0**-24
"""Rounding of a float to 32 bits, relative to it, where no digits are lost."""
MOST_DIGITS: Final = 10**38
"""First int with too many digits for any decimal column."""


class Misfit(ValueError):
    """A value that its column does not hold exactly."""

    def __init__(self, path: str, reason: str, part: str = "") -> None:
        """`path`: the column, or a part of it such as `who.tags[]`. `part`: the value there, for people."""
        super().__init__(path, reason, part)
        self._path, self._reason, self._part = path, reason, part

    def told_of(self, column: str) -> str:
        """Return the reason for people who are told the column and its value. They do not see which part of it does not fit."""
        return self._reason if self._path == column else f"{self._path} is {self._part}, and {self._reason}"


class Rule(NamedTuple):
    """Which values a type takes."""

    takes: str
    """The values, for people."""
    exact: Callable[[Any], Any]
    """Return a value in its plain form, or None if it does not fit. The value is not None.

    May raise anything, because a value may have code of its own, such as a zone.
    """


def value_text(value: object) -> str:
    """Return a value and its type for an error. Never raises.

    >>> value_text(1.5)
    '1.5 (float)'
    """
    return f"{safe_repr(value, 200)} ({type_name(value)})"


def exact_values(kind: pa.DataType, values: list[Any], path: str) -> list[Any]:
    """Return the values in their plain form. Raise Misfit for the first one that does not fit.

    path: the column, or the part of it that has the values, such as `who.tags[]`.
    """
    rule = rule_of(kind)
    return [None if value is None else _exact_value(rule, kind, value, path) for value in values]


def _exact_value(rule: Rule, kind: pa.DataType, value: Any, path: str) -> Any:
    try:
        plain = rule.exact(value)
        why = ""
    except Exception as error:  # noqa: BLE001 - the value's own code, such as that of a zone, may raise anything
        plain = None
        why = f" ({safe_str(error)})"
    if plain is None:
        raise Misfit(path, f"{type_text(kind)} takes {rule.takes}{why}", value_text(value))
    return plain


@lru_cache(1)
def numpy_kinds(numpy: Any) -> dict[type, str]:
    """Return the letter of the kind of each class of NumPy that has an equal value of Python."""
    found = {numpy.dtype(letter).type: numpy.dtype(letter).kind for letter in numpy.typecodes["All"]}
    return {each: kind for each, kind in found.items() if kind in NUMPY_KINDS and each is not numpy.longdouble}


@lru_cache(256)
def rule_of(kind: pa.DataType) -> Rule:
    """Return the rule of a type that `schema_of` allows."""
    if kind in SIMPLE_RULES:
        return SIMPLE_RULES[kind]
    if types.is_decimal(kind):
        before = kind.precision - kind.scale
        takes = f"a Decimal or an int with at most {before} digits before the point and {kind.scale} behind it"
        digits = Context(kind.precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation])
        return Rule(takes, partial(_decimal, Decimal(1).scaleb(-kind.scale), digits))
    if types.is_list(kind):
        return Rule("a list, a tuple without names, or an array of NumPy", _list)
    if types.is_map(kind):
        return Rule("a dict, or a list of pairs", _map)
    names = tuple(kind.field(number).name for number in range(kind.num_fields))
    takes = f"a dict or a named tuple with no other names than {', '.join(names)}, or a tuple of {len(names)} values"
    return Rule(takes, partial(_struct, names))


def _scalar(value: Any) -> Any:
    """Return a value of NumPy as the equal value of Python, and any other value unchanged."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and type(value) in numpy_kinds(numpy) else value


def _is_int(value: object) -> bool:
    return issubclass(type(value), int) and type(value) is not bool


def _boolean(value: Any) -> bool | None:
    plain = _scalar(value)
    return plain if type(plain) is bool else None


def _integer(most: int, value: Any) -> int | None:
    plain = _scalar(value)
    return int.__int__(plain) if _is_int(plain) and -most - 1 <= int.__int__(plain) <= most else None


def _double(value: Any) -> float | None:
    plain = _scalar(value)
    if issubclass(type(plain), float):
        return float.__float__(plain)
    if not _is_int(plain):
        return None
    number = int.__int__(plain)
    return float(number) if float(number) == number else None


def _float(value: Any) -> float | None:
    """Return the nearest number of 32 bits, unless it is further away than their digits allow: infinite, or nearly zero."""
    plain = _double(value)
    if plain is None or not math.isfinite(plain):
        return plain
    nearest = float(struct.unpack("f", struct.pack("f", plain))[0])
    if _is_int(_scalar(value)):
        return nearest if nearest == plain else None
    return nearest if abs(nearest - plain) <= abs(plain) * FLOAT_ROUNDING else None


def _decimal(last: Decimal, digits: Context, value: Any) -> Decimal | None:
    """Return an equal number whose last digit is that of the column. `digits`: the column's number of them."""
    plain = _scalar(value)
    if _is_int(plain):
        number = int.__int__(plain)
        plain = Decimal(number) if -MOST_DIGITS < number < MOST_DIGITS else None
    if not issubclass(type(plain), Decimal) or not Decimal.is_finite(plain):
        return None
    try:
        return digits.quantize(Decimal(plain), last)
    except (Inexact, InvalidOperation):
        return None


def _string(value: Any) -> str | None:
    plain = str.__str__(value) if issubclass(type(value), str) else None
    if plain is not None:
        plain.encode()  # raises for a lone surrogate
    return plain


def _binary(value: Any) -> bytes | None:
    return bytes(memoryview(value)) if issubclass(type(value), (bytes, bytearray)) else None


def _date(value: Any) -> date | None:
    is_date = issubclass(type(value), date) and not issubclass(type(value), datetime)
    return date.fromordinal(date.toordinal(value)) if is_date else None


def _timestamp(value: Any, *, in_utc: bool) -> datetime | int | None:
    """Return a datetime without a zone, or an int."""
    if _is_int(plain := _scalar(value)):
        number = int.__int__(plain)
        return number if FIRST_MICROSECOND <= number <= LAST_MICROSECOND else None
    if not issubclass(type(value), datetime):
        return None
    if type(value) is not datetime:
        value = _plain_datetime(value)
    if value is None or value.tzinfo is None:
        return value  # type: ignore[no-any-return]  # a datetime, or None
    return value.astimezone(UTC).replace(tzinfo=None) if in_utc else None


def _plain_datetime(value: Any) -> datetime | None:
    """Return a datetime of another class, such as pandas' Timestamp, if it is one with whole microseconds. NaT raises TypeError."""
    if getattr(value, "nanosecond", 0):
        return None
    clock = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(value.year, value.month, value.day, *clock, tzinfo=value.tzinfo, fold=value.fold)


def _list(value: Any) -> list[Any] | None:
    kind = type(value)
    if issubclass(kind, (list, tuple)):
        return _items(value) if issubclass(kind, list) or _names_of(value) is None else None
    if issubclass(kind, array.array):
        return array.array.tolist(value)
    numpy = sys.modules.get("numpy")
    is_array = numpy is not None and kind is numpy.ndarray and value.ndim and value.dtype.kind in NUMPY_KINDS | {"O"}
    return list(value.tolist()) if is_array else None


def _items(value: Any) -> list[Any]:
    """Return the items of a list or a tuple, without code of its class."""
    return list.copy(value) if issubclass(type(value), list) else list(tuple.__getitem__(value, slice(None)))


def _map(value: Any) -> dict[Any, Any] | list[tuple[Any, Any]] | None:
    """Return a dict, or a list of pairs, whose keys need not be hashable."""
    if issubclass(type(value), dict):
        return dict(dict.items(value))
    pairs = _items(value) if issubclass(type(value), (list, tuple)) else None
    if pairs is None or any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in pairs):
        return None
    return [(key, item) for key, item in pairs]


def _struct(names: tuple[str, ...], value: Any) -> dict[Any, Any] | tuple[Any, ...] | None:
    if issubclass(type(value), dict):
        plain = dict(dict.items(value))
    elif not issubclass(type(value), tuple):
        return None
    elif (own := _names_of(value)) is not None:
        plain = dict(zip(own, _items(value), strict=True))
        if len(plain) < len(own):
            raise ValueError("it has a name twice")
    else:
        return tuple.__getitem__(value, slice(None)) if len(names) == tuple.__len__(value) else None
    if unknown := [name for name in plain if name not in names]:
        raise ValueError(f"it has {', '.join(safe_repr(name, 50) for name in unknown[:3])} too")
    return plain


def _names_of(value: Any) -> tuple[str, ...] | None:
    """Return the names of a named tuple, or of a Row of Spark. None for a tuple without names."""
    names = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
    return None if names is None else tuple(names)


SIMPLE_RULES: Final = {
    pa.bool_(): Rule("True or False", _boolean),
    **{
        kind: Rule(f"an int from -2**{kind.bit_width - 1} to 2**{kind.bit_width - 1} - 1", partial(_integer, 2 ** (kind.bit_width - 1) - 1))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    pa.float32(): Rule("a float in the range of 32 bits, of which it keeps about 7 digits, or an int that 32 bits hold exactly", _float),
    pa.float64(): Rule("a float, or an int that a float holds exactly", _double),
    pa.string(): Rule("a str that UTF-8 can encode", _string),
    pa.binary(): Rule("bytes or a bytearray", _binary),
    pa.date32(): Rule("a date without a time of day", _date),
    pa.timestamp("us"): Rule(
        "a datetime without a zone and with whole microseconds, or an int of microseconds since 1970, in the years 1 to 9999",
        partial(_timestamp, in_utc=False),
    ),
    pa.timestamp("us", tz="UTC"): Rule(
        "a datetime with whole microseconds, or an int of microseconds since 1970, in the years 1 to 9999 in UTC",
        partial(_timestamp, in_utc=True),
    ),
}
"""Rules of the types without parts."""
