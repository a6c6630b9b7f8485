"""Model of windows: every row stands in a list until its windows are over. It has no panes, no merging and no index.

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
Revision = tuple[int, int, int, int, int, str, tuple[int, ...]]
"""A result with its revision, its kind, and the starts that it replaces."""


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


class Model:
    """What both kinds of windows share. A subclass says which windows the rows make that are kept."""

    def __init__(self, allowed: int = 0, *, early: bool = False) -> None:
        self.allowed, self.early = allowed, early
        self.watermark = -(2**63)
        self.rows: list[Row] = []
        """Rows that are kept."""
        self.results: list[Result | Revision] = []
        self.late: list[Row] = []
        self.standing: dict[tuple[int, int], tuple[int, list[Row]]] = {}
        """The newest results by key and start: their revisions, and their rows."""
        self.finished: dict[tuple[int, int], set[Row]] = {}
        """The rows that results of closed windows had."""

    def windows(self, rows: list[Row]) -> list[tuple[int, int, int, list[Row]]]:
        """Return key, start, end and rows of each window."""
        raise NotImplementedError

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            its = [window for window in self.windows([*self.rows, row]) if row in window[3]]
            if any(end + self.allowed > self.watermark for _, _, end, _ in its):
                self.rows.append(row)
            else:
                self.late.append(row)

    def close(self, watermark: int) -> None:
        """Give what changes, and what ends at a watermark or before; forget what cannot change any more."""
        before, self.watermark = self.watermark, max(self.watermark, watermark)
        over, kept = [], set[Row]()
        for key, start, end, rows in self.windows(self.rows):
            revision, last_rows = self.standing.get((key, start), (-1, []))
            is_new = sorted(rows) != sorted(last_rows)
            kind = None
            if end > self.watermark:
                kind = "early" if self.early and is_new else None
            elif end <= before:
                kind = "late" if is_new and end + self.allowed > before else None
            else:
                kind = "late" if self.finished_rows(key, start, end) else "final"
            if kind is not None:
                self.give((key, start, end, sum(row[2] for row in rows)), revision + 1, kind, rows)
                if kind != "early":
                    self.finished.setdefault((key, start), set()).update(rows)
            if end + self.allowed > self.watermark:
                kept.update(rows)
            else:
                over.append((key, start))
        self.rows = [row for row in self.rows if row in kept]
        for window in over:
            self.forget(window)

    def finished_rows(self, key: int, start: int, end: int) -> set[Row]:
        """Return the rows of a window that a result of a closed window had."""
        return self.finished.get((key, start), set())

    def forget(self, window: tuple[int, int]) -> None:
        """Forget the results of a window."""
        self.standing.pop(window, None)
        self.finished.pop(window, None)

    def give(self, result: Result, revision: int, kind: str, rows: list[Row]) -> None:
        """Note a result."""
        replaces = self.replaced(*result[:3])
        for start in replaces:
            self.standing.pop((result[0], start))
        self.standing[result[:2]] = revision, list(rows)
        self.results.append((*result, revision, kind, replaces) if self.allowed or self.early else result)

    def replaced(self, key: int, start: int, end: int) -> tuple[int, ...]:
        """Return the starts of other results that a result replaces."""
        return ()


class WindowModel(Model):
    """Time windows: `windows_of` returns the windows of a time."""

    def __init__(self, windows_of: Callable[[int], list[tuple[int, int]]], allowed: int = 0, *, early: bool = False) -> None:
        super().__init__(allowed, early=early)
        self.windows_of = windows_of

    def windows(self, rows: list[Row]) -> list[tuple[int, int, int, list[Row]]]:
        """Return the windows of the rows."""
        found: dict[tuple[int, int, int], list[Row]] = {}
        for row in rows:
            for window in self.windows_of(row[1]):
                found.setdefault((row[0], *window), []).append(row)
        return [(*window, its) for window, its in found.items()]


class SessionModel(Model):
    """Sessions: rows of a key in the order of time, cut where the distance is `gap` or more."""

    def __init__(self, gap: int, allowed: int = 0, *, early: bool = False) -> None:
        super().__init__(allowed, early=early)
        self.gap = gap

    def windows(self, rows: list[Row]) -> list[tuple[int, int, int, list[Row]]]:
        """Return the sessions of the rows."""
        sessions: list[list[Row]] = []
        for row in sorted(rows):
            if sessions and sessions[-1][-1][0] == row[0] and row[1] - sessions[-1][-1][1] < self.gap:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        return [(session[0][0], session[0][1], session[-1][1] + self.gap, session) for session in sessions]

    def finished_rows(self, key: int, start: int, end: int) -> set[Row]:
        """Return the rows that closed sessions had which this one consists of."""
        return {row for (its, at), rows in self.finished.items() if its == key and start <= at < end for row in rows}

    def replaced(self, key: int, start: int, end: int) -> tuple[int, ...]:
        """Return the starts of the results that lie within a session."""
        return tuple(sorted(at for its, at in self.standing if its == key and start < at < end))

    def forget(self, window: tuple[int, int]) -> None:
        """Forget the results of a session, and of all that it has swallowed."""
        key, start = window
        own = max(row[1] for row in self.finished[window])
        for of in (self.standing, self.finished):
            for its, at in [each for each in of if each[0] == key and start <= each[1] <= own]:
                del of[its, at]
