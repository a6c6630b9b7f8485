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
from engine.topology import ComponentSpec

PERIOD_SECS: Final = 0.2
"""Time between two looks at the watermark."""


class SourceMarks:
    """The watermarks of one task of a spout, through all its instances."""

    def __init__(self, spec: ComponentSpec, settings: EventTime, core: SpoutCore, clock: Clock, report: Callable[[str], None]) -> None:
        """report: warns of something that an operator should know."""
        self.settings: Final = settings
        self.clock: Final = SourceClock(settings)
        self._spec = spec
        self._core = core
        self._time = clock
        self._report = report
        self._times: Final = SourceTimes()
        self._spout: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._at_commit = self._prepared = NO_WATERMARK
        """The watermark of the last commit, and of the checkpoint that is being prepared."""

    # The instance

    def use_instance(self, spout: Any) -> None:
        """Stamp the rows of a new instance, and send the last watermark again, because a bolt may have forgotten it."""
        self._spout = spout
        self._core.set_stamps({name: self._stamp(name, spout) for name in self._spec.timed_streams})
        self._send(self.clock.sent)
        self._look_later()

    def _stamp(self, stream: str, spout: Any) -> RowStamp:
        has_partitions = type(spout).partition_of is not Spout.partition_of or "partition_of" in vars(spout)
        per_unit = {None: 1_000, "s": 1_000_000, "ms": 1_000, "us": 1}.get(self.settings.unit, 0)
        make = None if self._spec.make_row is None else self._spec.make_row(spout)
        fields = self._spec.streams[stream]
        time_at = len(fields) - 1 if make is not None else fields.index(str(self.settings.time))
        convert = self._converter(stream, fields[time_at])
        partition_of = spout.partition_of if has_partitions else None
        return RowStamp(self._times, time_at, convert, per_unit=per_unit, make=make, partition_of=partition_of)

    def _converter(self, stream: str, field: str) -> Callable[[Any], int]:
        """Return the function from times of rows to microseconds. The first time that it gets is compared with the clock."""
        settings, is_first = self.settings, True

        def convert(value: Any) -> int:
            nonlocal is_first
            try:
                micros = settings.micros(value)
                if is_first:
                    settings.check_first(value, micros, self._wall_us())
                    is_first = False
            except EventTimeError as error:
                where = f"{self._spec.where}: stream {stream!r}, field {field!r}"
                raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
            return micros

        return convert

    def drop_instance(self) -> None:
        """Forget what the rows of a dead instance have told. Its source sends them again, and W stands where it is."""
        self._spout = None
        self._times.restore({})
        self.clock.held.clear()
        self.clock.go_back(self.clock.sent.watermark)

    # Looks

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_SECS, self._look_on_time)

    def _look_on_time(self) -> None:
        self._timer = None
        self.look()
        self._look_later()

    def look(self) -> None:
        """Record the watermark of now, and send what is due."""
        if self._spout is None or self.has_ended:
            return
        now, wall_us = self._time.now(), self._wall_us()
        ahead = self.settings.ahead_us
        if ahead is not None:
            self._times.limit = wall_us + ahead
        self.clock.record(now, wall_us, self._partitions())
        self.send_due(now)

    def send_due(self, now: float) -> None:
        """Send the last watermark whose rows are settled."""
        if not self.clock.has_records:
            return
        passed = self.clock.passed_held
        due = self.clock.take_due(now, self._core.oldest_open(), self._core.is_open)
        if self.clock.passed_held > passed:
            self._report(
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
            at = times.get(partition)
            caught_up = spout.caught_up(partition)
            greatest, rows = (NO_WATERMARK, 0) if at is None else (at.greatest, at.rows)
            views[partition] = PartitionView(greatest, rows, caught_up, partition not in Spout.UNKNOWN_PARTITIONS)
        return views

    def _send(self, mark: Mark) -> None:
        emit_mark(self._core, MARK_STREAM, (mark.watermark, mark.is_active))

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
        if not self.has_ended and self._spout is not None:
            now = self._time.now()
            self.clock.record_end(now)
            self.send_due(now)

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
    def now(self) -> tuple[int, dict[Hashable, int]]:
        """The watermark that has left, and the greatest times."""
        return self.clock.sent.watermark, self._times.greatest()

    def cut(self) -> None:
        """Take the watermark of now for the checkpoint that begins."""
        self._prepared = self.clock.sent.watermark

    def note_committed(self) -> None:
        """Note that the last cut is committed."""
        self._at_commit = self._prepared

    def restore(self, watermark: int, greatest: dict[Hashable, int]) -> None:
        """Begin at the times of a stored checkpoint, from which the source repeats all rows."""
        self.clock.held.clear()
        self._times.restore(dict(greatest))
        self._at_commit = self._prepared = watermark
        self.go_back()

    def go_back(self) -> None:
        """Go back to the watermark of the last commit. A source that cannot rewind goes on, and sends the rows again that fail now."""
        self._send(self.clock.go_back(self._at_commit))
