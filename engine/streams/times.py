"""Durations of a flow, and its times as microseconds since 1970 (`engine.event_time.instants`)."""

from datetime import timedelta
from typing import Final

from engine.event_time import END_OF_TIME, NO_WATERMARK
from engine.event_time.instants import EPOCH, FARTHEST, MICROSECOND, datetime_of, to_duration_micros, to_micros

__all__ = [
    "EPOCH",
    "FARTHEST",
    "FIRST",
    "INFINITY",
    "MICROSECOND",
    "datetime_of",
    "days",
    "hours",
    "milliseconds",
    "minutes",
    "seconds",
    "to_duration_micros",
    "to_micros",
]
FIRST: Final = NO_WATERMARK
"""The watermark before all rows."""
INFINITY: Final = END_OF_TIME
"""The watermark behind the last row of all sources."""


def milliseconds(number: float) -> timedelta:
    """Return a duration.

    >>> milliseconds(1500)
    datetime.timedelta(seconds=1, microseconds=500000)
    """
    return timedelta(milliseconds=number)


def seconds(number: float) -> timedelta:
    """Return a duration.

    >>> seconds(90)
    datetime.timedelta(seconds=90)
    """
    return timedelta(seconds=number)


def minutes(number: float) -> timedelta:
    """Return a duration.

    >>> minutes(2)
    datetime.timedelta(seconds=120)
    """
    return timedelta(minutes=number)


def hours(number: float) -> timedelta:
    """Return a duration.

    >>> hours(1)
    datetime.timedelta(seconds=3600)
    """
    return timedelta(hours=number)


def days(number: float) -> timedelta:
    """Return a duration of 24 hours each; days of a calendar are `calendar("day", tz=...)`.

    >>> days(1)
    datetime.timedelta(days=1)
    """
    return timedelta(days=number)
