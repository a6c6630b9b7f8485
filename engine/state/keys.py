"""The stored form of a key: equal keys have equal bytes, so `1`, `1.0` and `True` are one row (GRP-2)."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

PLAIN: Final = frozenset({str, bytes, int, type(None), UUID})
"""Types whose values are their own canonical form."""
MOST_DEPTH: Final = 64
"""How deep tuples may be nested; a fields grouping hashes no deeper."""
_MOST_DIGITS: Final = 4300
"""Of a Decimal that is a whole number: it becomes an int."""


def canonical(key: object, depth: int = 0) -> Any:
    """Return the one form that stands for all keys equal to this one; raise TypeError for what is no key.

    >>> canonical((True, 2.0, "a"))
    (1, 2, 'a')
    """
    kind = type(key)
    if kind in PLAIN:
        return key
    if kind is tuple:
        if depth == MOST_DEPTH:
            raise TypeError(f"a tuple nested more than {MOST_DEPTH} deep is no key of a state")
        return tuple([canonical(item, depth + 1) for item in key])  # type: ignore[attr-defined]
    form = _FORMS.get(kind)
    return form(key) if form is not None else canonical(_plain(key), depth)


def _plain(key: object) -> object:
    """The plain value that one of a derived type equals: of a named tuple, an IntEnum, a StrEnum."""
    for base in (str, bytes, int, float, tuple, Decimal, UUID, datetime):
        if isinstance(key, base):
            plain = _PLAIN_OF[base](key)
            if plain == key and hash(plain) == hash(key):
                return plain
    raise TypeError(
        f"a {type(key).__qualname__} is no key of a state. Keys are None, bool, int, float, str, bytes, datetime, Decimal, UUID, "
        "and tuples of these"
    )


_PLAIN_OF: Final[dict[type, Callable[[Any], object]]] = {
    str: str.__str__,
    bytes: lambda key: bytes.__getitem__(key, slice(None)),
    int: int.__int__,
    float: float.__float__,
    tuple: lambda key: tuple.__getitem__(key, slice(None)),
    Decimal: Decimal,
    UUID: lambda key: UUID(int=key.int),
    datetime: lambda key: datetime.combine(key.date(), key.timetz()),
}


def _of_float(number: float) -> int | float:
    """The int of the same value, else the number itself."""
    if number != number:
        raise TypeError("not-a-number is no key: it is not equal to itself")
    return int(number) if number.is_integer() else number


def _of_decimal(number: Decimal) -> int | float | Decimal:
    """The int of the same value, else the float of the same value, else the number without the zeros at its end."""
    if number.is_nan():
        raise TypeError("not-a-number is no key: it is not equal to itself")
    if number.is_infinite():
        return float(number)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return 0
    text = "".join(map(str, digits)).rstrip("0")  # not normalize(), which rounds
    exponent += len(digits) - len(text)
    if exponent >= 0:
        if number.adjusted() >= _MOST_DIGITS:
            raise TypeError(f"a Decimal of more than {_MOST_DIGITS} digits is no key of a state")
        return int(number)
    as_float = float(number)
    return as_float if as_float == number else Decimal((sign, tuple(map(int, text)), exponent))


def _of_datetime(moment: datetime) -> datetime:
    """Without its fold, which equality ignores too; with an offset, in UTC: two that are equal may have different offsets."""
    moment = moment.replace(fold=0)
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=None)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise TypeError(f"{moment} is no key of a state: in UTC it is before year 1 or after year 9999") from None


_FORMS: Final[dict[type, Callable[[Any], object]]] = {bool: int, float: _of_float, Decimal: _of_decimal, datetime: _of_datetime}
