"""`FileSpout` emits the rows of files, and tracks each row to its end (FI-1 to FI-9)."""

import asyncio
from collections.abc import Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, ClassVar, Final, Unpack, cast

from engine.api import BurstSpout, Fields, OutputFields, SpoutExhausted
from engine.api.fields import short_repr
from engine.errors import FAILED, EngineError, Failure, FatalError
from engine.files.format_of import format_of
from engine.files.in_flight import RowsInFlight
from engine.files.listing import Listing, require_files
from engine.files.metrics import FileMetrics
from engine.files.progress import Event, FileEnd, FileProgress, LongLine, Place, places_of
from engine.files.read_ahead import ReadAhead, read_in_thread
from engine.files.reader import FileReader
from engine.files.rows import Chunk, Rows
from engine.files.settings import BAD_FIELDS, BAD_STREAM, FileFormat, FileOptions, FileSettings, Paths
from engine.log import EngineLogger
from engine.names import DEFAULT_STREAM
from engine.raised import headline
from engine.topology.task_port import SpoutPortUser
from engine.undone import Undone

ROWS_AT_ONCE: Final = 1024
"""Largest number of rows that an `emit_many` emits before it returns (BP-4)."""
LOGGER: Final = EngineLogger("engine.files")


class _Diverted(tuple[Any, ...]):
    """Values of the stream `bad`."""

    __slots__ = ()


class FileSpout(BurstSpout, SpoutPortUser):
    """Reads the rows of files: lines, JSON lines or CSV, plain or compressed by gzip.

    The files of a pattern are divided among the tasks. A row is tracked to its end, and a failed one is emitted again. The message id of a
    row is the name of its file and its line number.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from engine import FileSpout, TopologyBuilder
    >>> from engine.testing import Capture, run_topology
    >>> folder = TemporaryDirectory()
    >>> _ = Path(folder.name, "users.csv").write_text('user,plan\\nada,free\\n"bob, jr.",paid\\n')
    >>> users = Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("users", lambda: FileSpout(f"{folder.name}/*.csv", "csv"))
    >>> _ = builder.set_bolt("sink", users).shuffle_grouping("users")
    >>> run_topology(builder.build()).state
    'complete'
    >>> users.values
    [('ada', 'free'), ('bob, jr.', 'paid')]
    >>> folder.cleanup()
    """

    partitioned: ClassVar[bool] = True
    """Positions are dicts, with an entry for each file."""

    def __init__(
        self, paths: Paths, format: FileFormat = "lines", *, fields: str | Sequence[str] = (), **options: Unpack[FileOptions]
    ) -> None:
        """paths: a file, a folder (its files that are not hidden), a pattern such as "logs/*.log", or a list of these.

        The fields are `line` for lines; for CSV the columns that the first file names in its header. For JSON lines it is one field
        `record` with the whole value, or the keys that `fields` names. With `follow=True` the spout waits for new rows and files. Raises
        ConfigError with all faults. docs/FILES.md describes all options.
        """
        self.settings = FileSettings(paths=paths, format=format, fields=fields, **options)  # type: ignore[arg-type]  # made tuples there
        self._listing = Listing(self.settings.paths)
        self._format = format_of(self.settings, self._listing)
        rows = Fields(*self._format.output_fields)
        diverts = self.settings.on_bad == "divert"
        self.output_fields: OutputFields = {DEFAULT_STREAM: rows, BAD_STREAM: Fields(*BAD_FIELDS)} if diverts else rows
        self.partition_of = itemgetter(0)  # type: ignore[method-assign, assignment]  # without a step of Python for each row
        self._in_flight = RowsInFlight(self.settings.max_retries)
        self._given_up = 0
        self._pool: ThreadPoolExecutor | None = None
        self._reading: ReadAhead | None = None
        self._reading_task: asyncio.Task[None] | None = None
        self._places: dict[str, Place] = {}
        self._engine_tracks_rows = False
        self._files: dict[str, FileProgress] = {}
        self._file: FileProgress | None = None
        """The file whose rows are being emitted."""
        self._rows: Rows | None = None
        self._next_row = 0
        """Number of good rows of `_rows` that were emitted."""
        self._alarm: asyncio.TimerHandle | None = None

    # Start and stop

    async def open(self) -> None:
        """Look for the files. The reading begins with the first poll."""
        if self.settings.on_bad == "divert" and not self.port.subscribers(BAD_STREAM):
            raise FatalError(
                f'spout {self.context.component_id!r} has on_bad="divert", but nobody reads its stream {BAD_STREAM!r}',
                hint=f'Add a bolt with shuffle_grouping({self.context.component_id!r}, stream="{BAD_STREAM}"), or write on_bad="skip".',
            )
        self._logger = LOGGER.for_task(self.context.component_id, self.context.task_id)
        self._metrics = FileMetrics(self.context)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"files of {self.context.component_id}")
        if not self.settings.follow:
            await read_in_thread(self._pool, partial(require_files, self._listing))
        else:
            for path, why in await read_in_thread(self._pool, self._listing.missing):
                self._logger.info("%r: %s. The spout waits for it", path, why)

    def close(self) -> None:
        """Stop reading, and close the files."""
        self._stop_reading()
        if self._pool is not None:
            self._pool.shutdown(wait=False)

    def on_drop(self) -> None:
        """Close the files of a killed instance."""
        self.close()

    def _start_reading(self) -> ReadAhead:
        assert self._pool is not None
        context = self.context
        reader = FileReader(self.settings, self._listing, (context.task_index, context.tasks), self._logger, context.clock.now)
        reading = self._reading = ReadAhead(reader, self._pool, context.wake, follow=self.settings.follow)
        self._reading_task = context.create_task(reading.run(self._places))
        return reading

    def _stop_reading(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._reading is not None and self._reading_task is not None and self._pool is not None:
            self._reading_task.cancel()
            self._pool.submit(self._reading.reader.close)
            self._reading = self._reading_task = None

    # Positions

    def let_engine_track_rows(self) -> None:
        """Keep no rows, and keep the places of files that were read to their end until they are committed."""
        self._engine_tracks_rows = True

    def seek(self, position: Any) -> None:
        """Continue behind a position that `position` has returned, or begin with the first row if it is None.

        The position may have files of all tasks. A file that is not in it is read from its beginning. If a file is gone or changed, the
        next polls raise FatalError, or report it (`on_lost`).
        """
        try:
            self._places = {} if position is None else places_of(position)
        except ValueError as error:
            raise FatalError(f"this is no position of a FileSpout: {error}", hint="Reset the position of this spout.") from None
        self._stop_reading()
        self._in_flight.clear()
        self._files = {}
        self._file = self._rows = None

    def position(self) -> dict[str, list[Any]]:
        """Return the position behind the last row that was emitted, with an entry for each file of this task that was begun."""
        return {key: list(file.place()) for key, file in self._files.items() if file.is_known}

    def committed(self, position: dict[str, list[Any]]) -> None:
        """Forget files that are read no more, after a position with their last places was committed."""
        for key, place in places_of(position).items():
            if (file := self._files.get(key)) is not None and file.is_over and file.place() == place:
                del self._files[key]

    # Event time

    def partitions(self) -> Collection[Hashable]:
        """Return the files that are open or still to be read, and those with a row that waits for a retry, by their keys in positions."""
        files = None if self._reading is None else self._reading.files
        return self.UNKNOWN_PARTITIONS if files is None else files.keys() | self._in_flight.waiting_by_file.keys()

    def partition_of(self, message_id: Any) -> Hashable:
        """Return the key of the file of a row. Instances replace this by a function without a step of Python."""
        return message_id[0]  # type: ignore[no-any-return]

    def caught_up(self, partition: Hashable = None) -> bool:
        """Return True if a followed file is emitted to its end, as of a look that is not overdue. Else its rows end with the file."""
        if partition is None:
            return all(map(self.caught_up, self.partitions()))
        reading, waiting = self._reading, self._in_flight.waiting_by_file
        if reading is None or reading.files is None or partition in waiting or not reading.is_fresh(self.context.clock.now()):
            return False
        file = reading.files.get(cast(str, partition))
        return file is not None and file.is_at_end

    # Rows

    def next_tuples(self, limit: int) -> None:
        """Emit failed rows that are due, or else the next rows."""
        reading = self._reading or self._start_reading()
        limit = min(limit, ROWS_AT_ONCE)
        if self._in_flight.waiting and self._emit_due(limit):
            return
        room = self.settings.max_in_flight - len(self._in_flight)
        if room <= 0:
            self.port.wait_for_wake()
        elif self._rows is not None:
            self._emit_rows(self._rows, min(limit, room))
        elif (event := reading.take()) is None:
            self._rest(reading)
        else:
            self._metrics.show(reading.reader.counts)
            rows = self._handle(event)
            if rows is not None:
                self._emit_rows(rows, min(limit, room))
            else:
                self.context.wake()  # the next event may have rows

    def _rest(self, reading: ReadAhead) -> None:
        """Handle a poll that emits nothing. Raise SpoutExhausted at the end."""
        if reading.is_finished and not self._in_flight.waiting:
            self._metrics.show(reading.reader.counts)
            raise SpoutExhausted
        self.port.wait_for_wake()

    def _handle(self, event: Event) -> Rows | None:
        """Begin the rows of a piece and return them, or note what has happened to a file."""
        file = event.progress
        self._files[file.key] = file
        is_end = isinstance(event, LongLine) or (isinstance(event, FileEnd) and (event.is_last or not self.settings.follow))
        if file.unfinished and is_end:  # the row that they belong to has no end
            assert self._reading is not None
            self._reading.put_back(event)
            return self._begin_rows(file, file.next_chunk(b"", at_end=True))
        if isinstance(event, LongLine):
            error = f"it has {event.size:,} bytes, and max_line_bytes is {self.settings.max_line_bytes:,}"
            self._handle_bad(file, file.lines + 1, error, event.beginning)
            file.skip_line(event)
        elif isinstance(event, FileEnd):
            file.note_end(event)
            if is_end and event.found == file.found and self._reading is not None:  # else it has come back
                self._reading.forget_file(file.key)
            if event.is_last and not self._engine_tracks_rows:
                del self._files[file.key]
        else:
            self._metrics.bytes.add(len(event.data))
            return self._begin_rows(file, file.next_chunk(event.data, at_end=False))
        return None

    def _begin_rows(self, file: FileProgress, chunk: Chunk) -> Rows | None:
        rows = self._format.parse(chunk, file.beginning)
        file.begin_rows(rows)
        self._metrics.rows.add(len(rows.values))
        if not rows.values and not rows.bad:
            file.end_rows()
            return None
        self._file, self._rows, self._next_row = file, rows, 0
        return rows

    def _emit_rows(self, rows: Rows, limit: int) -> None:
        """Emit rows up to the next bad one, or else handle this one."""
        file, begin = self._file, self._next_row
        assert file is not None
        end = min(begin + limit, rows.bad[0].rows_before if rows.bad else len(rows.values))
        if end > begin:
            numbers = map(rows.number_of(0).__add__, rows.begins[begin:end])
            emitted = self._emit(rows.values[begin:end], list(zip(repeat(file.key), numbers)), rows, file)
            self._next_row = begin + emitted
            file.note_done(rows.ends[self._next_row - 1])
        else:
            bad = rows.bad.popleft()
            self._handle_bad(file, rows.number_of(bad.begin), bad.error, bad.raw)
            file.note_done(bad.end)
        if self._next_row == len(rows.values) and not rows.bad:
            file.end_rows()
            self._rows = None

    def _emit(self, values: list[Any], message_ids: list[Any], rows: Rows, file: FileProgress) -> int:
        """Emit rows, and return their number. A row that cannot be emitted, for example because its key has no hash, is a bad row."""
        if not self._engine_tracks_rows:
            self._in_flight.add(message_ids, values)
        try:
            self.collector.emit_many(values, message_ids)
        except BaseException as error:
            emitted = self.collector.rows_emitted
            if not self._engine_tracks_rows:
                self._in_flight.forget(message_ids[emitted:])
            if not isinstance(error, Exception):
                raise
            text = f"it cannot be emitted: {error.message if isinstance(error, EngineError) else headline(error)}"
            refused = self._next_row + emitted
            raw = rows.chunk.raw(rows.begins[refused], rows.ends[refused])
            self._handle_bad(file, rows.number_of(rows.begins[refused]), text, raw)
            return emitted + 1
        return len(values)

    def _handle_bad(self, file: FileProgress, number: int, error: str, raw: bytes) -> None:
        """End the run because of a bad row, skip it, or divert it."""
        text = f"file {file.name!r}, line {number:,}: {error}"
        if self.settings.on_bad == "fail":
            raise FatalError(f"{text}: {short_repr(raw)}", hint='Correct the row, or write on_bad="skip" or on_bad="divert".')
        self._metrics.bad_rows.add()
        if self.settings.on_bad == "skip":
            self.collector.report_error(EngineError(f"{text}. The row is skipped: {short_repr(raw)}"))
            return
        message_id, values = (file.key, number), _Diverted((file.name, number, error, raw))
        if not self._engine_tracks_rows:
            self._in_flight.add([message_id], [values])
        self.collector.emit(values, message_id, BAD_STREAM)

    # Verdicts

    def ack_many(self, message_ids: list[Any]) -> None:
        """Forget rows that are processed."""
        self._in_flight.forget(message_ids)

    def fail(self, message_id: Any) -> None:
        """Emit the row again after a pause, or give it up after `max_retries`."""
        now = self.context.clock.now()
        if self._in_flight.fail(message_id, now) is False:
            failure = self.context.failure or Failure(FAILED)
            values, tries = self._in_flight[message_id], self._in_flight.failures(message_id)
            self._in_flight.forget([message_id])
            self._given_up += 1
            self._metrics.given_up.add()
            text = f"the row {message_id!r} was given up after {tries} emit{'s' * (tries > 1)}: {failure.describe()}: {short_repr(values)}"
            self.collector.report_error(EngineError(text, hint="Write a larger max_retries, or handle such rows in the bolt."))
        self._set_alarm(now)

    def undone(self, open_trees: int) -> Undone:
        """Return the rows that are in flight or wait for a retry, and those that were given up."""
        return Undone(open_trees + self._in_flight.waiting, self._given_up)

    def _emit_due(self, limit: int) -> bool:
        """Emit failed rows that are due. Return False if none is."""
        now = self.context.clock.now()
        due = self._in_flight.take_due(now, limit)
        for message_id in due:
            values = self._in_flight[message_id]
            self.collector.emit(values, message_id, BAD_STREAM if isinstance(values, _Diverted) else DEFAULT_STREAM)
        self._set_alarm(now)
        return bool(due)

    def _set_alarm(self, now: float) -> None:
        """Poll the spout when the next failed row is due."""
        due = self._in_flight.next_due()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            self._alarm = asyncio.get_running_loop().call_later(max(due - now, 0), self.context.wake)
