"""Kinds of windows. All are half open, [start, end), in int64 microseconds."""

import math
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.errors import UsageError
from engine.safe_text import safe_repr
from engine.streams.times import EPOCH, FIRST, INFINITY, MICROSECOND, to_duration_micros

UNITS: Final = ("day", "week", "month")


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `size_us` that begin every `every_us`; tumbling ones if both are equal. Rows are kept in panes of their gcd."""

    size_us: int
    every_us: int
    offset_us: int = 0
    pane_us: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pane_us", math.gcd(self.size_us, self.every_us))

    @property
    def overlaps(self) -> bool:
        """True if a row can belong to several windows."""
        return self.size_us != self.every_us

    def pane_of(self, time: int) -> tuple[int, int]:
        """Return the pane [start, end) of a time."""
        start = time - (time - self.offset_us) % self.pane_us
        return start, start + self.pane_us

    def last_end(self, pane: int) -> int:
        """Return the end of the last window that contains a pane."""
        return pane - (pane - self.offset_us) % self.every_us + self.size_us

    def first_end_after(self, time: int) -> int:
        """Return the least end of a window that is greater than `time`."""
        return time - (time - self.offset_us - self.size_us) % self.every_us + self.every_us


@dataclass(frozen=True, slots=True)
class Calendar:
    """Local days, weeks (from Monday) or months of a time zone."""

    unit: str
    tz: str

    @property
    def overlaps(self) -> bool:
        """False: a row belongs to one window."""
        return False

    def pane_of(self, time: int) -> tuple[int, int]:
        """Return the window [start, end) of a time, exact over changes of the clock and skipped days."""
        if time < _start(self.tz, date(1, 2, 1)):
            return FIRST, _start(self.tz, date(1, 2, 1))
        if time >= _start(self.tz, date(9999, 11, 1)):
            return _start(self.tz, date(9999, 11, 1)), INFINITY
        day = self._floor((EPOCH + timedelta(microseconds=time)).astimezone(ZoneInfo(self.tz)).date())
        while _start(self.tz, day) > time:
            day = self._floor(day - timedelta(days=1))
        while (end := _start(self.tz, following := self._next(day))) <= time:
            day = following
        return max(_start(self.tz, day), _start(self.tz, date(1, 2, 1))), min(end, _start(self.tz, date(9999, 11, 1)))

    def last_end(self, pane: int) -> int:
        """Return the end of the window that starts at `pane`."""
        return self.pane_of(pane)[1]

    def _floor(self, day: date) -> date:
        if self.unit == "day":
            return day
        return day.replace(day=1) if self.unit == "month" else day - timedelta(days=day.weekday())

    def _next(self, day: date) -> date:
        if self.unit == "month":
            return (day + timedelta(days=31)).replace(day=1)
        return day + timedelta(days=7 if self.unit == "week" else 1)


@dataclass(frozen=True, slots=True)
class Session:
    """Sessions of a key: rows less than `gap_us` apart belong together."""

    gap_us: int


@dataclass(frozen=True, slots=True)
class Updates:
    """Results that windows give besides those at their ends."""

    allowed_us: int = 0
    """How long a window is kept behind its end, for late rows."""
    early: bool = False
    """True if open windows give results, too."""


@lru_cache(maxsize=4096)
def _start(tz: str, day: date) -> int:
    """Return the first instant of a local day."""
    zone = ZoneInfo(tz)
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    high = (midnight - EPOCH) // MICROSECOND
    low = (midnight.replace(fold=1) - EPOCH) // MICROSECOND
    if high <= low:
        return high  # one midnight, or the first one of two
    # There is no local midnight on this day. The clock is put forward at the first instant in (low, high] that has the later offset.
    later = (EPOCH + timedelta(microseconds=high)).astimezone(zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if (EPOCH + timedelta(microseconds=middle)).astimezone(zone).utcoffset() == later:
            high = middle
        else:
            low = middle
    return high


def tumbling(size: timedelta, offset: timedelta = timedelta()) -> Sliding:
    """Return windows that follow each other without overlap, from 1970 plus `offset`.

    >>> tumbling(timedelta(minutes=1)).pane_of(61_000_000)
    (60000000, 120000000)
    """
    micros = to_duration_micros(size, "size")
    return Sliding(micros, micros, _offset(offset, micros))


def sliding(size: timedelta, *, every: timedelta, offset: timedelta = timedelta()) -> Sliding:
    """Return windows of `size`, of which one begins at `every` step. The size need not be a multiple of the step.

    >>> sliding(timedelta(seconds=5), every=timedelta(seconds=2)).pane_us
    1000000
    """
    size_us, every_us = to_duration_micros(size, "size"), to_duration_micros(every, "every")
    if every_us > size_us:
        raise UsageError(f"every={every} is longer than size={size}: rows would fall between", hint="Make every at most size.")
    return Sliding(size_us, every_us, _offset(offset, every_us))


def _offset(offset: timedelta, every_us: int) -> int:
    if not isinstance(offset, timedelta):
        raise UsageError(f"offset={safe_repr(offset)} is not a duration", hint="Give a timedelta, such as offset=minutes(1).")
    return offset // MICROSECOND % every_us


def session(*, gap: timedelta) -> Session:
    """Return sessions that end when a key is silent for `gap`.

    >>> session(gap=timedelta(minutes=30)).gap_us
    1800000000
    """
    return Session(to_duration_micros(gap, "gap"))


def calendar(unit: str, *, tz: str) -> Calendar:
    """Return local days, weeks or months.

    >>> start, end = calendar("day", tz="Europe/Berlin").pane_of(1_679_788_800_000_000)
    >>> (end - start) // 3_600_000_000
    23
    """
    if unit not in UNITS:
        raise UsageError(f"{safe_repr(unit)} is not a unit of a calendar", hint=f"The units are {', '.join(map(repr, UNITS))}.")
    try:
        ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError) as error:
        raise UsageError(f"{safe_repr(tz)} is not a time zone", hint="Give a name such as tz='Europe/Berlin'.") from error
    return Calendar(unit, tz)
