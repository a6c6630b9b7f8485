"""Parses the times of options."""

from datetime import datetime


def timestamp_ms(text: str) -> int | None:
    """Return the milliseconds since the epoch of a time, which is local without a UTC offset. None for another text.

    >>> timestamp_ms("1970-01-01T00:00:01Z"), timestamp_ms("1970-01-01T01:00+01:00"), timestamp_ms("noon")
    (1000, 0, None)
    """
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
