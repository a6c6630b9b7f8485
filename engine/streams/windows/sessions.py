"""The open sessions of one task.

A key has one value, its open sessions in the order of time, usually one, in a flat list: first time, last time, accumulator, and so on.
Deadlines are not stored, because they follow from the rows. An index in memory has each key in a bucket that is not after its next
deadline; a key whose session goes on stays where it is until its bucket is due, so a row of an open session costs nothing here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from engine.kernel import span_of
from engine.state.codec import canonical_keys
from engine.streams.aggregates import Reduction
from engine.streams.times import FIRST, INFINITY
from engine.streams.windows.given_keys import GivenKeys
from engine.streams.windows.keyed import NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.panes import SLICE
from engine.streams.windows.results import result_of
from engine.streams.windows.specs import Session

SESSIONS: Final = "sessions"
_BUCKETS_OF_A_GAP: Final = 16

_Record = list[Any]
"""A session while a burst is added: first time, last time, accumulator, and what a subclass keeps."""


class SessionWindows:
    """Keeper of sessions; the face is that of TimeWindows."""

    fields = 3
    """Stored values of one session."""
    _allowed_us = 0
    """How long a session is kept behind its end."""
    closed_for: Callable[[Any], int] | None = None
    """Not used: what is closed of a key stands in its sessions."""

    def __init__(
        self,
        state: NamespacedState,
        spec: Session,
        reduction: Reduction,
        *,
        progress: tuple[int, int] = (FIRST, FIRST),
    ) -> None:
        self._sessions = state.namespace(SESSIONS)
        self._given_keys = GivenKeys(state)
        self._gap, self._reduction = spec.gap_us, reduction
        self.closed, self.watermark = progress
        self._width = max(1, spec.gap_us // _BUCKETS_OF_A_GAP)
        self._due: defaultdict[int, list[Any]] = defaultdict(list)
        self._greatest = FIRST
        """Greatest time of a row, as far as it matters for what is open."""
        self.lateness = Lateness()
        self.open_windows = 0
        """How many sessions are open."""
        self._find_open()

    def _find_open(self) -> None:
        """Take up the open sessions. There may be millions, and the run waits for them."""
        fields, due, width, next_deadline = self.fields, self._due, self._width, self._next_deadline
        opened, greatest, last = 0, FIRST, 1 - self.fields
        for key, stored in self._sessions.items():
            opened += len(stored) // fields
            if stored[last] > greatest:
                greatest = stored[last]
            due[next_deadline(stored) // width].append(key)
        self.open_windows, self._greatest = opened, greatest

    @property
    def progress(self) -> tuple[int, int]:
        """`closed` and `watermark`, for the caller to store."""
        return self.closed, self.watermark

    def _await(self, key: Any, deadline: int) -> None:
        self._due[deadline // self._width].append(key)

    def _next_deadline(self, stored: list[Any]) -> int:
        """Return when something has to be done for a key."""
        end: int = stored[1] + self._gap
        return end

    def add_rows(self, keys: Sequence[Any], times: list[int], rows: Sequence[Any]) -> list[tuple[int, int]]:
        """Add a burst, given as columns, and return its late rows: the index of each, and how far it is behind the watermark."""
        if not times:
            return []
        self.lateness.rows += len(times)
        least, greatest = span_of(times)
        if least < self.watermark:
            self.lateness.note_behind(times, self.watermark)
        self._greatest = max(self._greatest, greatest)
        late: list[tuple[int, int]] = []
        forms = canonical_keys(keys)
        distinct = list(dict.fromkeys(forms))
        stored = self._sessions.get_many(distinct, ())
        opened = {key: self._records(value) for key, value in zip(distinct, stored, strict=True)}
        changed: dict[Any, Any] = {}  # by canonical key the key as it was given, in the order of arrival, so that each run does the same
        for index, (form, key, time, row) in enumerate(zip(forms, keys, times, rows, strict=True)):
            if self._add(form, opened[form], time, row):
                changed.setdefault(form, key)
            else:
                late.append((index, self.watermark - time))
                self.lateness.note_late(self.watermark - time)
        if changed:
            self._given_keys.noted(SESSIONS, list(changed.values()), self._sessions)
            more = sum(map(len, opened.values())) - sum(map(len, stored)) // self.fields
            self._put_records({key: opened[key] for key in changed})
            self.open_windows += more  # at last, because what raises before has opened none
        return late

    def _records(self, stored: Sequence[Any]) -> list[_Record]:
        """Return the sessions of a key."""
        loaded = self._reduction.loaded
        return [[stored[at], stored[at + 1], loaded(stored[at + 2])] for at in range(0, len(stored), 3)]

    def _put_records(self, records: dict[Any, list[_Record]]) -> None:
        for its in records.values():
            for record in its:
                record[2] = self._reduction.stored(record[2])
        self._sessions.put_many({key: list(chain.from_iterable(its)) for key, its in records.items()})

    def _add(self, key: Any, sessions: list[_Record], time: int, row: Any) -> bool:
        """Add a row to the sessions of its key; False if it is late."""
        gap, reduction = self._gap, self._reduction
        low = 0
        while low < len(sessions) and sessions[low][1] + gap <= time:
            low += 1
        high = low
        while high < len(sessions) and sessions[high][0] < time + gap:
            high += 1
        if low == high:
            if time + gap + self._allowed_us <= self.watermark:
                return False
            sessions.insert(low, self._new(key, time, reduction.add(None, row)))
            return True
        # The row joins all sessions from low to high.
        acc = sessions[low][2]
        for other in sessions[low + 1 : high]:
            acc = reduction.merge(acc, other[2])
        first, last = min(time, sessions[low][0]), max(time, sessions[high - 1][1])
        sessions[low:high] = [self._joined(key, [first, last, reduction.add(acc, row)], sessions[low:high])]
        return True

    def _new(self, key: Any, time: int, acc: Any) -> _Record:
        """Return a session of one row."""
        self._await(key, time + self._gap)
        return [time, time, acc]

    def _joined(self, key: Any, record: _Record, parts: list[_Record]) -> _Record:
        """Return a session that has grown, or has been merged of several."""
        return record

    def close(self, watermark: int, size: int = SLICE) -> Iterator[list[Any]]:
        """Close all sessions that end at `watermark` or before, and give their results in slices, roughly in the order of the ends.

        Between two slices the caller takes neither rows nor a checkpoint. INFINITY closes everything, and `watermark` becomes the greatest
        end.
        """
        self._raise_watermark(watermark)
        return self._close(size)

    def _raise_watermark(self, watermark: int) -> None:
        if watermark == INFINITY:
            watermark = self._greatest + self._gap if self.open_windows else self.watermark
        self.watermark = max(self.watermark, watermark)

    def _close(self, size: int) -> Iterator[list[Any]]:
        ended = self._ended(size)
        while part := list(islice(ended, size)):
            yield part
        self.closed = self.watermark

    def _ended(self, size: int) -> Iterator[Any]:
        """Yield the results of the sessions that have ended. What is yielded is removed from the state."""
        for bucket in sorted(bucket for bucket in self._due if bucket * self._width <= self.watermark):
            keys = iter(dict.fromkeys(self._due.pop(bucket)))
            while part := list(islice(keys, size)):
                yield from self._ended_of(part)

    def _ended_of(self, keys: list[Any]) -> Iterator[Any]:
        """Yield the results of these keys in the order of their ends. A key that is not due goes to its own bucket."""
        due: list[tuple[int, Any]] = []
        sessions: dict[Any, list[Any]] = {}
        for key, stored in zip(keys, self._sessions.get_many(keys, ()), strict=True):
            for last in stored[1::3]:
                if last + self._gap > self.watermark:
                    self._await(key, last + self._gap)
                    break
                due.append((last + self._gap, key))
                sessions[key] = stored
        due.sort(key=lambda one: one[0])
        reduction = self._reduction
        for end, key in due:
            first, _, acc, *rest = sessions[key]
            sessions[key] = rest
            [given] = self._given_keys.of((SESSIONS,), [key])
            result = result_of(reduction, given, first, end, reduction.loaded(acc))
            self._put(key, rest)
            self.open_windows -= 1
            yield result

    def _put(self, key: Any, stored: list[Any]) -> None:
        if stored:
            self._sessions.put(key, stored)
        else:
            self._sessions.delete(key)
            self._given_keys.forget(SESSIONS, key)
