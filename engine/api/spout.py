"""`Spout` is the base class of all sources of tuples."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from engine.api.collector import SpoutCollector
from engine.api.context import TaskContext
from engine.api.fields import OutputFields
from engine.event_time import EventTime

OnError: TypeAlias = Literal["fail", "restart", "stop"]
"""Reaction to an exception of user code (ACK-12). The input fails in any case.

"fail" keeps the instance, "restart" replaces it, "stop" ends the run.
"""

MaxSpoutPending: TypeAlias = int | Literal["auto"] | None
"""Limit of open trees per spout task. "auto": the engine finds the lowest limit with full throughput. None: no limit."""


class _UnknownPartition:
    """The only partition of `Spout.UNKNOWN_PARTITIONS`."""

    def __repr__(self) -> str:
        return "partitions that are not known yet"


class SpoutExhausted(Exception):
    """Raised by `next_tuple` at the end of a finite source.

    The engine still calls `ack` and `fail`. After a `fail` the engine polls the spout again, until `next_tuple` raises SpoutExhausted again
    (RUN-2).
    """


class Spout(ABC):
    """Base class of all spouts. A spout emits tuples, and gets an ack or a fail for each tracked tuple.

    Each method may be `def` or `async def`. Calls for one task never overlap (ACK-10): while an `async def next_tuple` waits, acks and
    fails of its task wait too. So wait for I/O in `self.context.create_task(...)`, and call `self.context.wake()` when there is data.

    Settings are class attributes, or keywords of `set_spout`: `max_spout_pending`, `on_error`.

    >>> from engine import Spout, SpoutExhausted, TopologyBuilder
    >>> from engine.testing import run_topology
    >>> class Lines(Spout):
    ...     output_fields = "line"
    ...     def open(self):
    ...         self.lines = enumerate(["to be", "or not"])
    ...     def next_tuple(self):
    ...         number, line = next(self.lines, (None, None))
    ...         if line is None:
    ...             raise SpoutExhausted
    ...         self.collector.emit((line,), message_id=number)
    ...     def ack(self, message_id):
    ...         print(f"line {message_id} is processed")
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", Lines)
    >>> _ = run_topology(builder.build())
    line 0 is processed
    line 1 is processed
    """

    output_fields: OutputFields = None
    """Field names of the default stream, or a mapping from stream names to fields. None: the spout emits nothing."""
    max_spout_pending: MaxSpoutPending = None
    """Limit of open trees per task: a number of at least 1, or "auto". None: `Config.max_spout_pending`."""
    on_error: OnError | None = None
    """Reaction to an exception of this spout. None: `Config.on_error`, "fail" by default."""

    event_time: EventTime | None = None
    """Where the rows have their times, and how far the watermark stays behind the greatest one (ET-1). None: they have none."""

    partitioned: ClassVar[bool] = False
    """True if the positions of this spout are dicts {partition: position}, so that its parallelism may change between runs (EO-8).

    A task reports a partition until its last rows are committed. One that is dropped earlier keeps an old position.
    """
    rewinds: ClassVar[bool] = False
    """True for a spout with the methods `seek(position)` and `position()`. Set by the class itself.

    In a topology with state, its rows are processed exactly once (EO-1). `seek` is called after `open` of each instance, before the first
    poll. None means the beginning. `position` is a plain method. It returns the position behind the last row that the spout has emitted, as
    a value that MessagePack can write. It may be called at each await of an async `next_tuple`, so emit a row and move the position without
    one in between. A method `committed(position)` is optional, and is called after a commit.
    """

    survives_rollback: ClassVar[bool] = False
    """True if `seek` lets an instance forget all rows that it has. A rollback then keeps the instance of a spout with positions (EO-5)."""

    chooses_tasks: ClassVar[bool] = False
    """True for spouts that choose the task of each tuple, and have a window for each task (FC-1)."""

    UNKNOWN_PARTITIONS: Final[frozenset[Hashable]] = frozenset((_UnknownPartition(),))
    """What `partitions` returns while the spout does not know its partitions. No row belongs to this one, and it is never caught up."""

    context: TaskContext
    """Gives access to the ids of this task, the settings, the metrics, and other services of the engine. Set before `open`."""
    collector: SpoutCollector
    """Emits tuples. Set before `open`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "rewinds" not in vars(cls):
            cls.rewinds = callable(getattr(cls, "seek", None)) and callable(getattr(cls, "position", None))

    def sends_again(self, message_id: Any) -> bool:
        """Tell whether a row that has failed may be sent again, so that the watermark waits for it (ET-1). Called after `fail`."""
        return type(self).fail is not Spout.fail

    def open(self) -> Awaitable[None] | None:
        """Open the resources of this task. Called first, after all bolts are prepared."""
        return None

    def activate(self) -> Awaitable[None] | None:
        """Handle the start of polling, and each resumption after a pause."""
        return None

    def deactivate(self) -> Awaitable[None] | None:
        """Handle a pause of polling. The engine still calls `ack` and `fail`."""
        return None

    @abstractmethod
    def next_tuple(self) -> Awaitable[None] | None:
        """Emit zero or more tuples. Raise SpoutExhausted at the end of the source.

        After a call that emitted nothing the engine waits 1 to 64 ms, doubling the pause each time. `wake()`, an ack or a fail ends
        the pause at once.
        """

    def ack(self, message_id: Any) -> Awaitable[None] | None:
        """Handle the success of a tree. The tuple and all tuples derived from it are processed."""
        return None

    def fail(self, message_id: Any) -> Awaitable[None] | None:
        """Handle the failure or timeout of a tree. `self.context.failure` is the reason. The default drops the tuple."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Release the resources of `open`. Called last, but not if `open` raised."""
        return None

    # Event time. These are plain methods, which the engine calls after `open`, also while the spout is paused or held back.

    def watermark(self) -> int | None:
        """Return the watermark of this instance in microseconds since 1970, if its source knows it, such as a change stream of a database.

        It says that no later row of this instance on time has a time before it. It counts instead of the times of the rows and the bound.
        It may not fall, and leaves when the rows that have been emitted by then are settled. None, the default: it follows from the times.
        Called several times per second.
        """
        return None

    def partitions(self) -> Collection[Hashable] | None:
        """Return the partitions that this instance reads now, such as those that are assigned to it. None: the source has no partitions.

        The watermark waits for each of them, except for those that are idle (ET-3). A partition belongs to the answer as soon as the
        instance may get rows of it, and leaves when it is given back or exhausted. A row that is retried later may bring it back. An empty
        collection says that the instance has no partitions. While the instance cannot know that, as before its first assignment or during
        a rebalance, the answer contains the one of `UNKNOWN_PARTITIONS`. Called several times per second, so it must be cheap.

        If the spout is `partitioned`, `str(partition)` is the key of the partition in its position.
        """
        return None

    def partition_of(self, message_id: Any) -> Hashable:
        """Return the partition of a row that this instance emits, by the row's message id.

        Called for each row, inside of its emit, unless `partitions` returns None. With message id None, the answer is the partition of the
        row that is being emitted.
        """
        return None

    def caught_up(self, partition: Hashable = None) -> bool | None:
        """Return True if a partition is read to its end, as far as can be known now, and all rows that were read have been emitted.

        partition: one of `partitions`, or None for the whole source. The answer is False if there is more, or if nobody can say: the source
        is disconnected or paused, its last look at the end was too long ago, or a row waits in a buffer or for a retry. Rows in flight do
        not matter. None, the default, is for sources that never know. They are idle by silence. Called several times per second.
        """
        return None


class BurstSpout(Spout):
    """Base class of spouts that emit many tuples in one call, and get many acks in one call (BU-2).

    >>> from engine import BurstSpout, SpoutExhausted, TopologyBuilder
    >>> from engine.testing import run_topology
    >>> class Numbers(BurstSpout):
    ...     output_fields = "number"
    ...     def open(self):
    ...         self.next = 0
    ...     def next_tuples(self, limit):
    ...         if self.next == 10:
    ...             raise SpoutExhausted
    ...         numbers = range(self.next, min(10, self.next + limit))
    ...         self.next = numbers.stop
    ...         self.collector.emit_many([(number,) for number in numbers], message_ids=numbers)
    ...     def ack_many(self, message_ids):
    ...         print(f"{len(message_ids)} are processed")
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("numbers", Numbers)
    >>> _ = run_topology(builder.build())
    10 are processed
    """

    @abstractmethod
    def next_tuples(self, limit: int) -> Awaitable[None] | None:
        """Emit zero to `limit` tuples. Otherwise like `next_tuple`.

        limit: at least 1, at most `Config.burst` and what `max_spout_pending` allows. More tuples are allowed, but exceed these bounds.
        """

    def ack_many(self, message_ids: list[Any]) -> Awaitable[None] | None:
        """Handle the success of several trees, in order. Override this method or `ack`, not both."""
        return None

    def ack(self, message_id: Any) -> Awaitable[None] | None:
        """Handle the success of one tree, for tests and wrappers. The engine calls `ack_many`, unless a subclass overrides only `ack`."""
        return self.ack_many([message_id])

    def next_tuple(self) -> Awaitable[None] | None:
        """Emit at most one tuple, for tests. The engine calls `next_tuples`."""
        return self.next_tuples(1)


class CreatesSpout(Protocol):
    """Object whose `create()` makes a spout, such as the result of `@spout`."""

    def create(self) -> Spout:
        """Return a new spout."""


SpoutFactory: TypeAlias = CreatesSpout | Callable[[], Spout | CreatesSpout]
"""Factory of spouts: a class, a callable without arguments, or the result of `@spout`. The engine calls the factory for each instance."""
