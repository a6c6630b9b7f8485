"""Model of windows: every row stands in a list until its windows are closed. It has no panes, no merging and no index.

The value of a row is a number; the result of a window is the sum.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = 60_000_000

Row = tuple[int, int, int]
"""Key, time in microseconds, value."""
Result = tuple[int, int, int, int]
"""Key, start, end, sum."""


def windows_of_time(size: int, every: int, offset: int, time: int) -> list[tuple[int, int]]:
    """Return all windows that contain a time, by trying starts one after the other."""
    number = (time - offset) // every + 2
    found = []
    while (start := offset + number * every) + size > time:
        if start <= time:
            found.append((start, start + size))
        number -= 1
    return found


def period(unit: str, tz: str, time: int) -> tuple[int, ...]:
    """Return the local day, week or month that a time lies in."""
    local = (EPOCH + timedelta(microseconds=time)).astimezone(ZoneInfo(tz))
    if unit == "week":
        return tuple(local.isocalendar())[:2]
    return (local.year, local.month, local.day) if unit == "day" else (local.year, local.month)


@lru_cache(maxsize=100_000)
def _window_of_minute(unit: str, tz: str, minute: int) -> tuple[int, int]:
    own = period(unit, tz, minute * MINUTE)
    first = last = minute
    for step in (360, 15, 1):
        while period(unit, tz, (first - step) * MINUTE) == own:
            first -= step
        while period(unit, tz, (last + step) * MINUTE) == own:
            last += step
    return first * MINUTE, (last + 1) * MINUTE


def window_of_calendar(unit: str, tz: str, time: int) -> list[tuple[int, int]]:
    """Return the local window of a time, by asking for the local date of one minute after the other."""
    return [_window_of_minute(unit, tz, time // MINUTE)]


class WindowModel:
    """Time windows: `windows_of` returns the windows of a time."""

    def __init__(self, windows_of: Callable[[int], list[tuple[int, int]]]) -> None:
        self.windows_of = windows_of
        self.watermark = -(2**63)
        self.open: list[tuple[Row, tuple[int, int]]] = []
        self.results: list[Result] = []
        self.late: list[Row] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            still_open = [window for window in self.windows_of(row[1]) if window[1] > self.watermark]
            self.open += [(row, window) for window in still_open]
            if not still_open:
                self.late.append(row)

    def close(self, watermark: int) -> None:
        """Close what ends at a watermark or before."""
        self.watermark = max(self.watermark, watermark)
        due = [(row, window) for row, window in self.open if window[1] <= self.watermark]
        self.open = [(row, window) for row, window in self.open if window[1] > self.watermark]
        for key, window in {(row[0], window) for row, window in due}:
            self.results.append((key, *window, sum(row[2] for row, its in due if row[0] == key and its == window)))


class SessionModel:
    """Sessions: rows of a key in the order of time, cut where the distance is `gap` or more."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.watermark = -(2**63)
        self.open: list[Row] = []
        self.results: list[Result] = []
        self.late: list[Row] = []

    def _sessions(self, rows: list[Row]) -> list[list[Row]]:
        sessions: list[list[Row]] = []
        for row in sorted(rows):
            if sessions and sessions[-1][-1][0] == row[0] and row[1] - sessions[-1][-1][1] < self.gap:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        return sessions

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            its = next(session for session in self._sessions([*self.open, row]) if row in session)
            if its[-1][1] + self.gap > self.watermark:
                self.open.append(row)
            else:
                self.late.append(row)

    def close(self, watermark: int) -> None:
        """Close what ends at a watermark or before."""
        self.watermark = max(self.watermark, watermark)
        for session in self._sessions(self.open):
            end = session[-1][1] + self.gap
            if end <= self.watermark:
                self.results.append((session[0][0], session[0][1], end, sum(row[2] for row in session)))
                self.open = [row for row in self.open if row not in session]
