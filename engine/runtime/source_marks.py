"""`SourceMarks` sends the watermarks of one source task (ET-1). `SourceClock` decides what they are."""

import asyncio
import math
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from typing import Any, Final

from engine.api import Spout
from engine.clock import Clock
from engine.errors import EventTimeError
from engine.event_time import NO_WATERMARK, EventTime, Mark, PartitionView, SourceClock
from engine.event_time.holder import source_reason
from engine.kernel import RowStamp, SourceTimes, SpoutCore, emit_mark
from engine.names import MARK_STREAM
from engine.runtime.error_report import ErrorReporter
from engine.topology import ComponentSpec

PERIOD_SECS: Final = 0.2
"""Time between two looks at the watermark."""


class SourceMarks:
    """The watermarks of one task of a spout, through all its instances."""

    def __init__(self, spec: ComponentSpec, settings: EventTime, core: SpoutCore, clock: Clock, reporter: ErrorReporter) -> None:
        self.settings: Final = settings
        self.clock: Final = SourceClock(settings)
        self._spec = spec
        self._core = core
        self._time = clock
        self._reporter = reporter
        self._times: Final = SourceTimes()
        self._spout: Any = None
        self._is_open = False
        """True while the spout can tell what it reads."""
        self._may_end = True
        self._timer: asyncio.TimerHandle | None = None
        self._before: dict[str, int] = {}
        """Greatest times of partitions before the position at which the source has begun, by their texts."""
        self._at_commit = self._prepared = NO_WATERMARK
        """The watermark of the last commit, and of the checkpoint that is being prepared."""

    # The instance

    def use_instance(self, spout: Any) -> None:
        """Stamp the rows of a new instance, before its `open`. Send the last watermark again, because a bolt may have forgotten it."""
        self._spout, self._is_open = spout, False
        self._core.set_stamps({name: self._stamp(name, spout) for name in self._spec.timed_streams})
        self._send(self.clock.sent)
        self._look_later()

    def note_open(self) -> None:
        """Note that the instance is open, and is where it begins to read. Until then it cannot tell what it reads."""
        self._is_open = True

    def _stamp(self, stream: str, spout: Any) -> RowStamp:
        has_partitions = type(spout).partition_of is not Spout.partition_of or "partition_of" in vars(spout)
        per_unit = {None: 1_000, "s": 1_000_000, "ms": 1_000, "us": 1}.get(self.settings.unit, 0)
        partition_of = spout.partition_of if has_partitions else None
        rows = self.settings.rows
        if rows is None:
            time_at = self._spec.streams[stream].index(str(self.settings.time))
            convert = self._converter(f"{self._spec.where}: stream {stream!r}, field {self.settings.time!r}")
            return RowStamp(self._times, convert, per_unit=per_unit, partition_of=partition_of, time_at=time_at)
        assert self._spec.given_fields is not None
        parts = rows.parts(self._spec.given_fields.names)
        convert = self._converter(f"source {self._spec.component_id!r}, the time of a row")
        return RowStamp(self._times, convert, per_unit=per_unit, partition_of=partition_of, parts=tuple(parts))

    def _converter(self, where: str) -> Callable[[Any], int]:
        """Return the function from times of rows to microseconds. It compares the first time with the clock that is not 0."""
        settings, is_first = self.settings, True

        def convert(value: Any) -> int:
            nonlocal is_first
            try:
                micros = settings.micros(value)
                if is_first:
                    settings.check_first(value, micros, self._wall_us())
                    is_first = micros == 0
            except EventTimeError as error:
                raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
            return micros

        return convert

    def drop_instance(self) -> None:
        """Forget what the rows of a dead instance have told. Its source sends them again, and W stands where it is."""
        self._spout, self._is_open = None, False
        self._times.forget()
        self._before = {}
        self.clock.held.clear()
        self.clock.go_back(self.clock.sent.watermark)

    # Looks

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_SECS, self._look_on_time)

    def _look_on_time(self) -> None:
        self._timer = None
        self._look_later()
        self.look()

    def look(self) -> None:
        """Record the watermark of now, and send what is due."""
        if self._is_open and not self.clock.has_end:
            self._record(self._time.now())
        self.send_due(self._time.now())

    def _record(self, now: float) -> None:
        wall_us = self._wall_us()
        ahead = self.settings.ahead_us
        if ahead is not None:
            self._times.limit = wall_us + ahead
        try:
            partitions, known = self._partitions(), self._spout.watermark()
        except Exception as error:  # noqa: BLE001 - code of the user
            self._reporter.report(error, next_step="the watermark stands, and the spout is asked again")
        else:
            self.clock.record(now, wall_us, partitions, known)

    def look_now(self) -> bool:
        """Look now, because the source knows that its watermark has changed. Return True if the watermark of now has left."""
        self.look()
        return not self.clock.has_records

    def send_due(self, now: float) -> None:
        """Send the last watermark whose rows are settled."""
        if not self.clock.has_records:
            return
        passed = self.clock.passed_held
        due = self.clock.take_due(now, self._core.oldest_open(), self._core.is_open)
        if self.clock.passed_held > passed:
            self._reporter.warn(
                f"{self._spec.where}: the watermark has waited {self.settings.hold_secs:g} s for a failed row, and passes it now. "
                "If the row is sent again, it may be late. hold_secs of event_time says how long it waits."
            )
        if not self.clock.held:
            self._core.held_ids = None
        if due is not None:
            self._send(due)

    def _partitions(self) -> dict[Hashable, PartitionView]:
        spout, times = self._spout, self._times.partitions
        assigned: Collection[Hashable] | None = spout.partitions()
        views: dict[Hashable, PartitionView] = {}
        for partition in [None] if assigned is None else assigned:
            at, before = times.get(partition), self._before.get(str(partition), NO_WATERMARK)
            greatest = before if at is None else max(at.greatest, before)
            caught_up = False if partition in Spout.UNKNOWN_PARTITIONS else spout.caught_up(partition)
            is_known = partition not in Spout.UNKNOWN_PARTITIONS
            views[partition] = PartitionView(greatest, 0 if at is None else at.rows, caught_up, is_known)
        return views

    def _send(self, mark: Mark) -> None:
        emit_mark(self._core, MARK_STREAM, (*mark,))

    def _wall_us(self) -> int:
        return round(self._time.wall() * 1_000_000)

    def why(self, now: float, owing: str | None) -> str:
        """Return the reason for which the watermark stands. owing: the bolt task with the oldest unsettled input."""
        if self._spout is None:
            return "it has no instance now"
        core = self._core
        return source_reason(self.clock, now, self._wall_us(), core.oldest_open(), core.is_open, owing)

    # The end

    def end_if_settled(self) -> None:
        """Send the end of time, because the source is exhausted, when all its rows are settled."""
        if not self.has_ended and self._may_end and self._spout is not None:
            now = self._time.now()
            if not self.clock.has_end:
                if self._is_open:
                    self._record(now)
                self.clock.record_end(now, max([*self._times.greatest().values(), *self._before.values()], default=NO_WATERMARK))
            self.send_due(now)

    def forbid_end(self) -> None:
        """Send no end of time from now on, because the run drains or the source is broken. It may have more rows in a later run (ET-3)."""
        self._may_end = False
        self.clock.forget_end()

    @property
    def has_ended(self) -> bool:
        """True when the end of time has left, because the source is exhausted and settled."""
        return self.clock.has_ended

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Failed rows

    def note_failed(self, message_id: Any) -> None:
        """Note that a row has failed, and that the source may send it again."""
        with suppress(TypeError):  # an id that cannot be hashed
            self._hold(message_id, self._core.failed_since)

    def hold(self, key: object, *, from_start: bool) -> None:
        """Wait for a row that has just failed or is kept back. from_start: it belongs before all others."""
        self._hold(key, -math.inf if from_start else min(self._core.failed_since or math.inf, self._time.now()))

    def _hold(self, key: Any, emitted_at: float) -> None:
        self.clock.note_failed(key, emitted_at, self._time.now())
        self._core.held_ids = self.clock.held

    def forget_failed(self, key: Any) -> None:
        """Note that a failed row is given up."""
        self.clock.forget_failed([key])

    # Commits

    @property
    def now(self) -> tuple[int, dict[str, int]]:
        """The watermark that has left, without the end, and the greatest time of each partition, by its text, as in its position."""
        greatest = {str(partition): time for partition, time in self._times.greatest().items()}
        return self.clock.before_end, self._before | greatest

    def cut(self) -> None:
        """Take the watermark of now for the checkpoint that begins."""
        self._prepared = self.clock.before_end

    def note_committed(self) -> None:
        """Note that the last cut is committed."""
        self._at_commit = self._prepared

    def restore(self, watermark: int, greatest: dict[str, int]) -> None:
        """Begin at the times of a stored checkpoint, from which the source repeats all rows."""
        self.clock.held.clear()
        self._times.forget()
        self._before = greatest
        self._at_commit = self._prepared = watermark
        self.go_back()

    def go_back(self) -> None:
        """Go back to the watermark of the last commit. A source that cannot rewind goes on, and sends the rows again that fail now."""
        self._send(self.clock.go_back(self._at_commit))

    def wait_until_open(self) -> None:
        """Look no more until the source has gone back, because its times are those of rows that it repeats."""
        self._is_open = False
