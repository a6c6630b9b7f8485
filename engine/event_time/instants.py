"""Times as microseconds since 1970, and as datetimes."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from engine.errors import EventTimeError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
PER_UNIT: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


def to_micros(value: Any, unit: str | None = None) -> int:
    """Return a time in microseconds since 1970. Integers are milliseconds and floats are seconds, unless `unit` says otherwise."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise EventTimeError(f"{value!r} has no time zone", hint="Use aware datetimes, such as datetime.now(UTC).")
        return (value - EPOCH) // MICROSECOND
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EventTimeError(f"{value!r} is no time", hint="A time is an aware datetime, an int (milliseconds), or a float (seconds).")
    if isinstance(value, float) and not math.isfinite(value):
        raise EventTimeError(f"{value!r} is no time")
    if unit is None:
        unit = "ms" if isinstance(value, int) else "s"
    micros = value // 1_000 if unit == "ns" else value * PER_UNIT[unit]
    whole = round(micros)
    if not -(2**63) < whole < 2**63 - 1:
        raise EventTimeError(f"{value!r} is too far from 1970", hint="Say its unit: event_time(..., unit='s'), or 'ms', 'us', 'ns'.")
    return whole


def datetime_of(micros: int) -> datetime:
    """Return a time as an aware datetime in UTC, the first or the last one for a time beyond them."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.max if micros > 0 else datetime.min).replace(tzinfo=UTC)
