"""`SourceClock` decides what the watermark of one source task is, and when it may leave (ET-1, ET-3).

A watermark is recorded behind the rows that have been emitted by then. It leaves when all these rows are settled, so that no row that is
sent again can be late.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.event_time.settings import EventTime
from engine.event_time.watermark import END_OF_TIME, NO_WATERMARK, Mark


class PartitionView(NamedTuple):
    """What is known of one partition now."""

    greatest: int
    """Greatest time of its rows in microseconds. NO_WATERMARK: it has had no row."""
    rows: int
    """Number of its rows."""
    caught_up: bool | None
    """True: it is read to its end. False: more rows wait, or nobody knows. None: its source cannot know."""
    is_known: bool = True
    """False: it stands for the partitions that the source does not know yet."""


class Record(NamedTuple):
    """A watermark that waits until the rows before it are settled."""

    at: float
    """Time of the run's clock. Rows that are emitted later are behind it."""
    mark: Mark


@dataclass(slots=True, eq=False)
class HeldRow:
    """A row that has failed and holds the watermark, because it may be sent again."""

    emitted_at: float
    """Time of its first emit."""
    failed_at: float
    """Time of its first failure."""
    root: int = 0
    """Root of the tree in which it was sent again. 0: it has not been."""


@dataclass(slots=True)
class _Quiet:
    """How long a partition has had nothing to read."""

    rows: int = -1
    since: float | None = None


class SourceClock:
    """The watermark of one task of a source."""

    def __init__(self, settings: EventTime) -> None:
        self.settings: Final = settings
        self.sent = Mark(NO_WATERMARK, True)
        """The last mark that has left."""
        self.before_end = NO_WATERMARK
        """The last watermark that has left and is not the end, because the source may have more rows in a later run."""
        self.held: Final[dict[Any, HeldRow]] = {}
        """Failed rows by their ids."""
        self.passed_held = 0
        """Failed rows that the watermark has passed after `hold_secs`."""
        self._records: deque[Record] = deque()
        self._quiet: dict[Hashable, _Quiet] = {}
        self.partitions: Mapping[Hashable, PartitionView] = {}
        """The partitions at the last record."""
        self._known: int | None = None
        """The watermark at the last record, of a source that knows it."""

    # What is recorded

    def record(self, now: float, wall_us: int, partitions: Mapping[Hashable, PartitionView], known: int | None = None) -> None:
        """Record the watermark behind all rows that have been emitted by now.

        known: the watermark of a source that knows it. None: it follows from the times of the rows.
        """
        self.partitions, self._known = partitions, known
        self._add(now, self._mark(now, wall_us, partitions, known))

    def record_end(self, now: float, greatest: int = NO_WATERMARK) -> None:
        """Record the end, because the source is exhausted. greatest: time of its rows. Those behind it hear where it has stood (ET-3)."""
        last = self._last.if_idle
        before_end = last if self._known is not None else max(last, _before(greatest, self.settings.bound_us))
        self._add(now, Mark(END_OF_TIME, True, before_end))

    def forget_end(self) -> None:
        """Forget the recorded end, because the source is polled again."""
        while self._records and self._records[-1].mark.watermark == END_OF_TIME:
            self._records.pop()

    @property
    def has_ended(self) -> bool:
        """True when the end of time has left."""
        return self.sent.watermark == END_OF_TIME

    @property
    def has_end(self) -> bool:
        """True when the end of time is recorded or has left."""
        return self._last.watermark == END_OF_TIME

    @property
    def _last(self) -> Mark:
        return self._records[-1].mark if self._records else self.sent

    def _add(self, now: float, mark: Mark) -> None:
        last = self._last
        mark = mark._replace(watermark=max(mark.watermark, last.watermark))
        if mark != last:
            self._records.append(Record(now, mark))

    def _mark(self, now: float, wall_us: int, partitions: Mapping[Hashable, PartitionView], known: int | None) -> Mark:
        self._quiet = {partition: self._quiet.get(partition, _Quiet()) for partition in partitions}
        for partition, view in partitions.items():
            self._note_quiet(now, partition, view)
        active = [view.greatest for partition, view in partitions.items() if not self.is_idle(now, partition)]
        bound = self.settings.bound_us
        if known is not None:
            watermark = min(known, END_OF_TIME - 1)  # the end is for sources that are exhausted
        elif active:
            watermark = _before(min(active), bound)
        else:
            watermark = _before(max((view.greatest for view in partitions.values()), default=NO_WATERMARK), bound)
        if not active and self.settings.close_when_idle:
            watermark = max(watermark, wall_us - bound)
        return Mark(watermark, bool(active))

    def _note_quiet(self, now: float, partition: Hashable, view: PartitionView) -> None:
        quiet = self._quiet[partition]
        if view.caught_up is False or view.rows != quiet.rows:
            quiet.rows, quiet.since = view.rows, None
        if view.caught_up is not False and quiet.since is None:
            quiet.since = now

    def idle_in(self, now: float, partition: Hashable) -> float | None:
        """Return the seconds until a partition is idle, if it stays quiet. None: it is not read to its end."""
        quiet = self._quiet.get(partition)
        return None if quiet is None or quiet.since is None else max(quiet.since + self.settings.idle_secs - now, 0.0)

    def is_idle(self, now: float, partition: Hashable) -> bool:
        """Tell whether a partition is read to its end for `idle_secs`, so that nobody waits for it."""
        quiet = self._quiet.get(partition)
        return quiet is not None and quiet.since is not None and now - quiet.since >= self.settings.idle_secs

    # What leaves

    @property
    def has_records(self) -> bool:
        """True while a watermark waits until the rows before it are settled."""
        return bool(self._records)

    def take_due(self, now: float, oldest_open: float | None, is_open: Callable[[int], bool]) -> Mark | None:
        """Return the mark that may leave now. None: there is none.

        oldest_open: time of the emit of the oldest row that is not settled. is_open: tells whether a tree is open.
        """
        due: Mark | None = None
        least = self._oldest(now, oldest_open, is_open)
        while self._records and (least is None or self._records[0].at < least):
            due = self._records.popleft().mark
            if due.watermark != END_OF_TIME:
                self.before_end = due.watermark
        if due is not None:
            self.sent = due
        return due

    def _oldest(self, now: float, oldest_open: float | None, is_open: Callable[[int], bool]) -> float | None:
        if not self.settings.wait_for_acks:
            return None
        for key, row in list(self.held.items()):
            if row.root and not is_open(row.root):
                del self.held[key]
            elif now - row.failed_at >= self.settings.hold_secs:
                del self.held[key]
                self.passed_held += 1
        times = [row.emitted_at for row in self.held.values()]
        return min(times if oldest_open is None else [*times, oldest_open], default=None)

    def oldest_held(self) -> tuple[Any, HeldRow] | None:
        """Return the failed row that was emitted first, with its id. None: no row is held."""
        return min(self.held.items(), key=lambda item: item[1].emitted_at, default=None)

    def note_failed(self, key: Any, emitted_at: float, now: float) -> None:
        """Note that a row has failed, and may be sent again."""
        row = self.held.setdefault(key, HeldRow(emitted_at, now))
        row.root = 0

    def forget_failed(self, keys: Iterable[Any]) -> None:
        """Note that failed rows are given up."""
        for key in keys:
            self.held.pop(key, None)

    # What goes back

    def go_back(self, watermark: int) -> Mark:
        """Begin anew with this watermark, because the rows behind it come again. Return the mark to send (ET-4).

        Failed rows still hold it, until the source has sent them again.
        """
        self._records.clear()
        self._quiet.clear()
        if watermark != END_OF_TIME:
            self.before_end = watermark
            self.sent = Mark(watermark, True)
        return self.sent


def _before(time: int, bound: int) -> int:
    return time if time == NO_WATERMARK else max(time - bound, NO_WATERMARK + 1)
