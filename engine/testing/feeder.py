"""A spout that a test feeds by hand, and that remembers how each of its trees ended."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from engine.errors import FAILED, Failure, UsageError
from engine.names import DEFAULT_STREAM
from engine.topology import Fields, Spout, SpoutExhausted, Streams, Values, declare_streams


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one try of a fed tuple ended."""

    message_id: object
    failure: Failure | None
    """None: acked."""
    task_id: int
    secs: float
    """When, by the run's clock."""


@dataclass(slots=True)
class _Fed:
    values: Values
    stream: str
    message_id: object
    tries: int = 0


class Feeder:
    """The test's end of a `FeederSpout`, and its factory: `builder.set_spout("lines", feeder)`.

    It is fed before the run or during it. A tuple that fails, or that was open when its spout instance died, is emitted again
    up to `max_retries` times, as a replaying source would. The tasks of a spout with a parallelism take from one queue.

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
        """Emit on the default stream with these fields, or on several `streams`."""
        declared = streams if streams is not None else fields[0] if len(fields) == 1 and isinstance(fields[0], Fields) else fields
        self.output_fields: Final[Streams] = declare_streams(declared)
        self.max_retries: Final = max_retries
        self.verdicts: Final[list[Verdict]] = []
        """Every ack and fail that the spout got, in order; a retried tuple has several."""
        self.lost: Final[list[object]] = []
        """Message ids that were open when their spout instance died: no verdict ever comes for that try (ACK-13)."""
        self._queue: deque[_Fed] = deque()
        self._open: dict[int, dict[object, _Fed]] = {}
        self._unsettled: dict[object, _Fed] = {}
        self._instances: dict[int, FeederSpout] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._count = 0
        self._is_closed = False

    def create(self) -> "FeederSpout":
        """Return a new spout that takes from this feeder; the engine calls it once per task."""
        return FeederSpout(self)

    # What a test does

    def feed(self, values: Values, stream: str = DEFAULT_STREAM, *, message_id: object = None, tracked: bool = True) -> object:
        """Have one tuple emitted; return its message id: the one given, else 1, 2, 3, …; None where it is not tracked."""
        if self._is_closed:
            raise UsageError("this feeder is closed", hint="Feed before close().")
        if tracked and message_id is None:
            self._count += 1
            message_id = self._count
        if message_id in self._unsettled:
            raise UsageError(f"message id {message_id!r} is fed already and not settled", hint="Give each fed tuple an id of its own.")
        fed = _Fed(values, stream, message_id)
        if message_id is not None:
            self._unsettled[message_id] = fed
        self._queue.append(fed)
        self._wake()
        return message_id

    def feed_all(self, rows: Iterable[Values], stream: str = DEFAULT_STREAM) -> list[object]:
        """Feed one tuple for each row; return their message ids."""
        return [self.feed(values, stream) for values in rows]

    def close(self) -> None:
        """Take nothing more in; the spout is exhausted once all that was fed is emitted."""
        self._is_closed = True
        self._wake()

    async def settled(self, *message_ids: object) -> None:
        """Wait until these, or all that was fed, are through: acked, or failed or lost with no retry left."""
        while any(message_id in self._unsettled for message_id in message_ids or tuple(self._unsettled)):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    @property
    def acked(self) -> list[object]:
        """The message ids that were acked, in order."""
        return [verdict.message_id for verdict in self.verdicts if verdict.failure is None]

    @property
    def failed(self) -> list[tuple[object, Failure]]:
        """The message ids that failed, each with why, in order."""
        return [(verdict.message_id, verdict.failure) for verdict in self.verdicts if verdict.failure is not None]

    @property
    def open(self) -> list[object]:
        """The message ids that are emitted and have no verdict yet."""
        return [message_id for fed in self._open.values() for message_id in fed]

    @property
    def unsettled(self) -> list[object]:
        """The message ids that are not through: queued, open, or waiting for a retry."""
        return list(self._unsettled)

    # What its spouts do

    def attach(self, spout: "FeederSpout") -> None:
        """Serve a new instance; what the one before it in its task had open is lost, and retried."""
        task_id = spout.context.task_id
        self._instances[task_id] = spout
        left, self._open[task_id] = self._open.get(task_id, {}), {}
        for fed in left.values():
            self.lost.append(fed.message_id)
            self._retry(fed)

    def take(self, task_id: int) -> tuple[Values, object, str] | None:
        """Take the oldest tuple out of the queue; None when it is empty. Raises SpoutExhausted when it stays so."""
        if not self._queue:
            if self._is_closed:
                raise SpoutExhausted
            return None
        fed = self._queue.popleft()
        fed.tries += 1
        if fed.message_id is not None:
            self._open[task_id][fed.message_id] = fed
        return fed.values, fed.message_id, fed.stream

    def settle(self, verdict: Verdict) -> None:
        """Note a verdict."""
        self.verdicts.append(verdict)
        fed = self._open[verdict.task_id].pop(verdict.message_id, None)
        if fed is None:
            return
        if verdict.failure is None:
            self._through(fed)
        else:
            self._retry(fed)

    def _retry(self, fed: _Fed) -> None:
        if fed.tries > self.max_retries:
            self._through(fed)
        else:
            self._queue.append(fed)

    def _through(self, fed: _Fed) -> None:
        del self._unsettled[fed.message_id]
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake(self) -> None:
        for spout in self._instances.values():
            spout.context.wake()


class FeederSpout(Spout):
    """A task's spout of a `Feeder`."""

    def __init__(self, feeder: Feeder) -> None:
        self.output_fields = dict(feeder.output_fields)
        self.feeder = feeder

    def open(self) -> None:
        """Begin to take from the feeder."""
        self.feeder.attach(self)

    def next_tuple(self) -> None:
        """Emit the oldest tuple that was fed."""
        taken = self.feeder.take(self.context.task_id)
        if taken is not None:
            self.collector.emit(*taken)

    def ack(self, message_id: object) -> None:
        """Note an ack."""
        self.feeder.settle(Verdict(message_id, None, self.context.task_id, self.context.clock.now()))

    def fail(self, message_id: object) -> None:
        """Note a fail, and retry."""
        failure = self.context.failure or Failure(FAILED)
        self.feeder.settle(Verdict(message_id, failure, self.context.task_id, self.context.clock.now()))
