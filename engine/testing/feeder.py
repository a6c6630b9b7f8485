"""Spout that emits tuples given by a test, and records their verdicts."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.api import Fields, Spout, SpoutExhausted, Streams, Values, declare_streams
from engine.errors import FAILED, Failure, UsageError
from engine.names import DEFAULT_STREAM
from engine.topology.task_port import SpoutPortUser
from engine.waiters import Waiters


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one try of a fed tuple."""

    message_id: object
    failure: Failure | None
    """None if the tuple was acked."""
    task_id: int
    secs: float
    """Time of the verdict by the run's clock."""


@dataclass(slots=True)
class _Fed:
    values: Values
    stream: str
    message_id: object
    tries: int = 0


@dataclass(slots=True)
class _Emitted:
    """Tuples that a task of an exact source has emitted."""

    rows: list[_Fed] = field(default_factory=list)
    """Those of after the last commit."""
    first: int = 0
    """Position of the first of them."""


class Feeder:
    """Queue of tuples that a spout emits, filled by a test: `builder.set_spout("lines", feeder)`.

    Feed it before or during the run. Like a replaying source, it emits a tuple again, up to `max_retries` times, if it fails or
    if its spout instance dies. All tasks of the spout share one queue. A feeder is also the factory of its `FeederSpout`s.

    >>> from engine import TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> lines, sink = Feeder("line"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", lines)
    >>> _ = builder.set_bolt("sink", sink).shuffle_grouping("lines")
    >>> lines.feed(("to be",)), lines.feed(("or not",))
    (1, 2)
    >>> lines.close()
    >>> run_topology(builder.build()).state
    'complete'
    >>> sink.values, lines.acked
    ([('to be',), ('or not',)], [1, 2])
    """

    def __init__(self, *fields: str | Fields, streams: Mapping[str, Fields] | None = None, max_retries: int = 0) -> None:
        """Declare the fields of the default stream, or several `streams`."""
        declared = streams if streams is not None else fields[0] if len(fields) == 1 and isinstance(fields[0], Fields) else fields
        self.output_fields: Final[Streams] = declare_streams(declared)
        self.max_retries: Final = max_retries
        self.verdicts: Final[list[Verdict]] = []
        """Every ack and fail, in order. A retried tuple has several."""
        self.lost: Final[list[object]] = []
        """Message ids that were open when their spout instance died. The lost try gets no verdict (ACK-13)."""
        self._queue: deque[_Fed] = deque()
        self._open: dict[int, dict[object, _Fed]] = {}
        self._unsettled: dict[object, _Fed] = {}
        self._emitted: dict[int, _Emitted] = {}
        """What each task has emitted in a topology with state, by task index."""
        self._instances: dict[int, FeederSpout] = {}
        self._waiters = Waiters()
        self._count = 0
        self._is_closed = False

    def create(self) -> "FeederSpout":
        """Return a new spout that emits from this queue. The engine calls it for each instance of a task."""
        return FeederSpout(self)

    # Called by tests.

    def feed(self, values: Values, stream: str = DEFAULT_STREAM, *, message_id: object = None, tracked: bool = True) -> object:
        """Queue one tuple and return its message id.

        Without a given id the ids are 1, 2, 3, …. The id of an untracked tuple is None. Raises UsageError after `close()`, for an id of an
        untracked tuple, and for an id that is fed already and not settled.
        """
        if self._is_closed:
            raise UsageError("this feeder is closed", hint="Call feed() before close().")
        if not tracked and message_id is not None:
            raise UsageError(f"an untracked tuple has no message id, but {message_id!r} was given", hint="Leave tracked=False out.")
        if tracked and message_id is None:
            self._count += 1
            message_id = self._count
        if message_id in self._unsettled:
            raise UsageError(f"message id {message_id!r} is fed already and not settled", hint="Give each fed tuple its own id.")
        fed = _Fed(values, stream, message_id)
        if message_id is not None:
            self._unsettled[message_id] = fed
        self._queue.append(fed)
        self._wake()
        return message_id

    def feed_all(self, rows: Iterable[Values], stream: str = DEFAULT_STREAM) -> list[object]:
        """Queue one tuple per row and return the message ids."""
        return [self.feed(values, stream) for values in rows]

    def close(self) -> None:
        """Refuse more tuples. The spout is exhausted once the queue is empty."""
        self._is_closed = True
        self._wake()

    async def settled(self, *message_ids: object) -> None:
        """Wait until these message ids are acked, or have failed or are lost without a retry left. Default: all ids."""
        while any(message_id in self._unsettled for message_id in message_ids or tuple(self._unsettled)):
            await self._waiters.wait()

    @property
    def acked(self) -> list[object]:
        """The acked message ids, in order."""
        return [verdict.message_id for verdict in self.verdicts if verdict.failure is None]

    @property
    def failed(self) -> list[tuple[object, Failure]]:
        """The failed message ids with their failures, in order. A retried tuple may be in it several times."""
        return [(verdict.message_id, verdict.failure) for verdict in self.verdicts if verdict.failure is not None]

    @property
    def open(self) -> list[object]:
        """The message ids that are emitted and have no verdict."""
        return [message_id for fed in self._open.values() for message_id in fed]

    @property
    def unsettled(self) -> list[object]:
        """The message ids that are queued, open, or waiting for a retry."""
        return list(self._unsettled)

    # Called by its spouts.

    def attach_spout(self, spout: "FeederSpout") -> None:
        """Serve a new instance of a task. Open tuples of the previous instance are lost, and retried, or go back by `seek`."""
        task_id = spout.context.task_id
        self._instances[task_id] = spout
        left, self._open[task_id] = self._open.get(task_id, {}), {}
        for fed in () if spout.is_exact else left.values():
            self.lost.append(fed.message_id)
            self._retry(fed)

    def take_next(self, task_id: int) -> tuple[Values, object, str] | None:
        """Take the oldest tuple from the queue. Return None if the queue is empty. Raises SpoutExhausted if the feeder is also closed."""
        if not self._queue:
            if self._is_closed:
                raise SpoutExhausted
            return None
        fed = self._queue.popleft()
        fed.tries += 1
        if fed.message_id is not None:
            self._open[task_id][fed.message_id] = fed
        return fed.values, fed.message_id, fed.stream

    def seek(self, spout: "FeederSpout", position: int | None) -> None:
        """Queue again what a task has emitted behind a position, or all that it has, if the position is of another feeder or store."""
        emitted = self._emitted.setdefault(spout.context.task_index, _Emitted())
        number = position or 0
        behind = number - emitted.first
        if not 0 <= behind <= len(emitted.rows):
            emitted.first, behind = number, 0
        back = emitted.rows[behind:]
        del emitted.rows[behind:]
        self._queue.extendleft(reversed(back))

    def position(self, spout: "FeederSpout") -> int:
        """Return the number of tuples that a task has emitted."""
        emitted = self._emitted[spout.context.task_index]
        return emitted.first + len(emitted.rows)

    def note_committed(self, spout: "FeederSpout", position: int) -> None:
        """Forget tuples of before a committed position."""
        emitted = self._emitted[spout.context.task_index]
        del emitted.rows[: max(position - emitted.first, 0)]
        emitted.first = max(position, emitted.first)

    def emit_next(self, spout: "FeederSpout") -> None:
        """Emit the oldest tuple for a task of an exact source. One that the engine leaves out, because it was given up, is settled."""
        emitted = self._emitted[spout.context.task_index]
        taken = self.take_next(spout.context.task_id)
        if taken is None:
            return
        values, message_id, stream = taken
        fed = self._open[spout.context.task_id].get(message_id) or _Fed(values, stream, message_id)
        emitted.rows.append(fed)
        before = spout.port.emitted
        spout.collector.emit(values, message_id, stream)
        if spout.port.emitted == before:
            self._open[spout.context.task_id].pop(message_id, None)
            self._finish(fed)

    def add_verdict(self, verdict: Verdict) -> None:
        """Store a verdict, and queue a failed tuple again if it has a retry left."""
        self.verdicts.append(verdict)
        fed = self._open[verdict.task_id].pop(verdict.message_id, None)
        if fed is None:
            return
        if verdict.failure is None:
            self._finish(fed)
        elif not self._instances[verdict.task_id].is_exact:
            self._retry(fed)

    def _retry(self, fed: _Fed) -> None:
        if fed.tries > self.max_retries:
            self._finish(fed)
        else:
            self._queue.append(fed)

    def _finish(self, fed: _Fed) -> None:
        self._unsettled.pop(fed.message_id, None)
        self._waiters.wake_all()

    def _wake(self) -> None:
        for spout in self._instances.values():
            spout.context.wake()


class FeederSpout(Spout, SpoutPortUser):
    """Instance of a task that emits the tuples of a `Feeder`."""

    needs_acks = True

    def __init__(self, feeder: Feeder) -> None:
        self.output_fields = dict(feeder.output_fields)
        self.feeder = feeder
        self.is_exact = False
        """True in a topology with state."""

    def let_engine_track_rows(self) -> None:
        """Retry nothing, because a failed tuple is repeated with its interval (EO-6)."""
        self.is_exact = True

    def open(self) -> None:
        """Attach to the feeder."""
        self.feeder.attach_spout(self)

    def seek(self, position: int | None) -> None:
        """Go back behind a committed position. Without state there is none."""
        if self.is_exact:
            self.feeder.seek(self, position)

    def position(self) -> int:
        """Return the position behind the last tuple that this task has emitted."""
        return self.feeder.position(self)

    def committed(self, position: int) -> None:
        """Forget tuples of before a committed position."""
        self.feeder.note_committed(self, position)

    def next_tuple(self) -> None:
        """Emit the oldest tuple of the queue."""
        if self.is_exact:
            self.feeder.emit_next(self)
            return
        taken = self.feeder.take_next(self.context.task_id)
        if taken is not None:
            self.collector.emit(*taken)

    def ack(self, message_id: object) -> None:
        """Hand an ack to the feeder."""
        self.feeder.add_verdict(Verdict(message_id, None, self.context.task_id, self.context.clock.now()))

    def fail(self, message_id: object) -> None:
        """Hand a failure to the feeder."""
        self.note_failed_row(message_id, self.context.failure or Failure(FAILED))

    def note_failed_row(self, message_id: object, failure: Failure) -> None:
        """Hand a failure to the feeder."""
        if message_id is not None:
            self.feeder.add_verdict(Verdict(message_id, failure, self.context.task_id, self.context.clock.now()))
