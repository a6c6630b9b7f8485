"""Times and durations: int64 microseconds since 1970 inside, aware datetimes and timedeltas outside."""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from engine.errors import EventTimeError, UsageError
from engine.safe_text import safe_repr

FARTHEST: Final = 2**62
"""Rows lie less than this far from 1970, about 146,000 years; durations are at most half of it. So each end fits into an int64."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LAST_DATETIME: Final = datetime.max.replace(tzinfo=UTC)
_EARLIEST_US: Final = (_EARLIEST - EPOCH) // MICROSECOND
_LATEST_US: Final = (LAST_DATETIME - EPOCH) // MICROSECOND
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def to_micros(value: object, unit: str | None = None) -> int:
    """Return a time as microseconds since 1970. Raises EventTimeError for what is no time.

    An aware datetime is converted exactly. Without `unit`, an int counts milliseconds and a float counts seconds.

    >>> to_micros(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)), to_micros(1500), to_micros(1.5), to_micros(7, "s")
    (-1000000, 1500000, 1500000, 7000000)
    """
    if unit is not None and unit not in _NANOS:
        raise UsageError(f"{safe_repr(unit)} is not a unit of times", hint=f"The units are {', '.join(map(repr, _NANOS))}.")
    if isinstance(value, datetime):
        micros = _micros_of(value)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise EventTimeError(
            f"{safe_repr(value)} of type {type(value).__name__} is not a time",
            hint="Give an aware datetime, an int (milliseconds) or a float (seconds), or set unit=.",
        )
    elif isinstance(value, int):
        micros = value * _NANOS[unit or "ms"] // 1000
    else:
        micros = _micros_of_float(value, unit or "s")
    if not -FARTHEST < micros < FARTHEST:
        raise EventTimeError(f"the time {safe_repr(value)} is out of range", hint="Set unit= if it counts another unit.")
    return micros


def _micros_of(value: datetime) -> int:
    if value.utcoffset() is None:
        raise EventTimeError(f"the datetime {value.isoformat()} has no time zone", hint="Give an aware one, such as datetime.now(UTC).")
    return (value - EPOCH) // MICROSECOND


def _micros_of_float(value: float, unit: str) -> int:
    if not math.isfinite(value):
        raise EventTimeError(f"{value} is not a time", hint="Divert such rows before event_time.")
    whole = math.floor(value)
    # The whole part is exact, and only the fraction is rounded.
    return whole * _NANOS[unit] // 1000 + round((value - whole) * _NANOS[unit] / 1000) if unit != "ns" else whole // 1000


def datetime_of(micros: int) -> datetime:
    """Return a time as an aware datetime in UTC; a time beyond the years 1 to 9999 becomes the nearest one that can be shown.

    >>> datetime_of(-1)
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc)
    """
    if micros <= _EARLIEST_US:
        return _EARLIEST
    if micros >= _LATEST_US:
        return LAST_DATETIME
    return EPOCH + timedelta(microseconds=micros)


def to_duration_micros(value: object, name: str, *, least: int = 1) -> int:
    """Return a duration in microseconds, of at least `least`. Raises UsageError that names the argument.

    >>> to_duration_micros(timedelta(seconds=1), "gap")
    1000000
    """
    if not isinstance(value, timedelta):
        raise UsageError(f"{name}={safe_repr(value)} is not a duration", hint=f"Give a timedelta, such as {name}=minutes(1).")
    micros = value // MICROSECOND
    if micros > FARTHEST // 2:
        raise UsageError(f"{name}={value} is too long", hint="Give at most 73,000 years.")
    if micros < least:
        raise UsageError(f"{name}={value} is too short", hint=f"Give at least {least} microsecond." if least else "It may not be negative.")
    return micros
