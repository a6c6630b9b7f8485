"""The open sessions of one task.

A key has one value, the list of its open sessions, usually one, each as [first time, last time, accumulator], in the order of time.
Deadlines are not stored, because they follow from the rows. An index in memory has each key in a bucket that is not after its next
deadline; a key whose session goes on stays where it is until its bucket is due, so a row of an open session costs nothing here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from engine.streams.times import FIRST, INFINITY
from engine.streams.windows.aggregates import Aggregate
from engine.streams.windows.keyed import NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.panes import SLICE
from engine.streams.windows.results import Windowed
from engine.streams.windows.specs import Session

SESSIONS: Final = "sessions"
_BUCKETS_OF_A_GAP: Final = 16

_Open = list[list[Any]]


def _same(value: Any) -> Any:
    return value


class SessionWindows:
    """Keeper of sessions; the face is that of TimeWindows."""

    def __init__(
        self,
        state: NamespacedState,
        spec: Session,
        aggregate: Aggregate[Any, Any, Any],
        *,
        progress: tuple[int, int] = (FIRST, FIRST),
        codec: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (_same, _same),
    ) -> None:
        self._sessions = state.namespace(SESSIONS)
        self._gap, self._aggregate = spec.gap_us, aggregate
        self.closed, self.watermark = progress
        self._encode, self._decode = codec
        self._width = max(1, spec.gap_us // _BUCKETS_OF_A_GAP)
        self._due: dict[int, list[Any]] = {}
        self.lateness = Lateness()
        self.open_windows = 0
        """How many sessions are open."""
        for key, value in self._sessions.items():
            self.open_windows += len(value)
            self._await(key, value[0][1])

    @property
    def progress(self) -> tuple[int, int]:
        """`closed` and `watermark`, for the caller to store."""
        return self.closed, self.watermark

    def _await(self, key: Any, last: int) -> None:
        self._due.setdefault((last + self._gap) // self._width, []).append(key)

    def add_rows(self, keys: Sequence[Any], times: Sequence[int], rows: Sequence[Any]) -> list[tuple[int, int]]:
        """Add a burst, given as columns. Return the index of each late row, and by how much it is late in microseconds."""
        late: list[tuple[int, int]] = []
        self.lateness.rows += len(times)
        distinct = list(dict.fromkeys(keys))
        stored = self._sessions.get_many(distinct, None)
        opened = {}
        for key, value in zip(distinct, stored, strict=True):
            opened[key] = [[first, last, self._decode(acc)] for first, last, acc in value or ()]
        changed: dict[Any, None] = {}  # in the order of arrival, so that each run does the same
        for index, (key, time, row) in enumerate(zip(keys, times, rows, strict=True)):
            if self._add(key, opened[key], time, row):
                changed[key] = None
            else:
                late.append((index, self.watermark - time))
                self.lateness.note(self.watermark - time)
        encode = self._encode
        if changed:
            self._sessions.put_many({key: [[first, last, encode(acc)] for first, last, acc in opened[key]] for key in changed})
        return late

    def _add(self, key: Any, sessions: _Open, time: int, row: Any) -> bool:
        """Add a row to the sessions of its key; False if it is late."""
        gap, aggregate = self._gap, self._aggregate
        low = 0
        while low < len(sessions) and sessions[low][1] + gap <= time:
            low += 1
        high = low
        while high < len(sessions) and sessions[high][0] < time + gap:
            high += 1
        if low == high:
            if time + gap <= self.watermark:
                return False
            sessions.insert(low, [time, time, aggregate.add(aggregate.initial(), row)])
            self.open_windows += 1
            self._await(key, time)
            return True
        # The row joins all sessions from low to high.
        acc = sessions[low][2]
        for other in sessions[low + 1 : high]:
            acc = aggregate.merge(acc, other[2])
        first, last = min(time, sessions[low][0]), max(time, sessions[high - 1][1])
        self.open_windows -= high - low - 1
        sessions[low:high] = [[first, last, aggregate.add(acc, row)]]
        return True

    def close(self, watermark: int, size: int = SLICE) -> Iterator[list[Windowed[Any, Any]]]:
        """Close all sessions that end at `watermark` or before, and give their results in slices.

        The caller may take checkpoints between two slices, but no rows. INFINITY closes everything, and `watermark` becomes the
        greatest end.
        """
        if watermark == INFINITY:
            watermark = max((value[-1][1] + self._gap for _, value in self._sessions.items()), default=self.watermark)
        self.watermark = max(self.watermark, watermark)
        return self._close(size)

    def _close(self, size: int) -> Iterator[list[Windowed[Any, Any]]]:
        part: list[Windowed[Any, Any]] = []
        result, decode = self._aggregate.result, self._decode
        for bucket in sorted(bucket for bucket in self._due if bucket * self._width <= self.watermark):
            due, sessions = self._take(bucket)
            for end, key in due:
                (first, _, acc), *rest = sessions[key]
                sessions[key] = rest
                part.append(Windowed(key, first, end, result(decode(acc))))
                self._put(key, rest)
                if len(part) >= size:
                    yield part
                    part = []
        self.closed = self.watermark
        if part:
            yield part

    def _take(self, bucket: int) -> tuple[list[tuple[int, Any]], dict[Any, Any]]:
        """Return the due ends of a bucket in their order, and the sessions of their keys. What is not due goes to its own bucket."""
        keys = list(dict.fromkeys(self._due.pop(bucket)))
        due: list[tuple[int, Any]] = []
        sessions: dict[Any, Any] = {}
        for key, value in zip(keys, self._sessions.get_many(keys, None), strict=True):
            for _, last, _ in value or ():
                if last + self._gap > self.watermark:
                    self._await(key, last)
                    break
                due.append((last + self._gap, key))
                sessions[key] = value
        due.sort(key=lambda one: one[0])
        return due, sessions

    def _put(self, key: Any, rest: _Open) -> None:
        self.open_windows -= 1
        if rest:
            self._sessions.put(key, rest)
        else:
            self._sessions.delete(key)
