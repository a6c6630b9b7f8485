"""Defines the Protocols of `Tuple` and of the collectors, by which components emit and settle tuples.

Compiled classes implement these Protocols. No method blocks, except `ready`. If a mailbox is full, the executor of the emitter keeps the
tuple. The executor then calls no user code until the mailbox has drained (BP-2). Use a collector only on the thread of the event loop. On
any other thread its methods raise UsageError (ACK-10).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from engine.api.fields import Fields, Values
from engine.names import DEFAULT_STREAM


class Tuple(Protocol):
    """Message that a bolt receives. A tuple has named read-only values, and the names of its source component, source task and stream.

    `tup[0]` and `tup["word"]` are the same value if the first field of the stream is `word`. An unknown name raises UsageError, and the
    text suggests the nearest name. An index out of range raises IndexError.
    """

    @property
    def values(self) -> tuple[Any, ...]:
        """Values, one for each field."""

    @property
    def fields(self) -> Fields:
        """Names of the values."""

    @property
    def stream(self) -> str:
        """Name of the stream on which the tuple was emitted."""

    @property
    def source_component(self) -> str:
        """Id of the component that emitted the tuple."""

    @property
    def source_task(self) -> int:
        """Id of the task that emitted the tuple."""

    @property
    def is_tick(self) -> bool:
        """True for a tick. The engine sends a tick every `tick_tuple_freq_secs`. A tick has no values."""

    def __getitem__(self, key: int | str, /) -> Any: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Anchors: TypeAlias = Tuple | Sequence[Tuple] | None
"""Inputs that a new tuple depends on. The same input may occur twice. Ticks and untracked inputs have no effect."""


class SpoutCollector(Protocol):
    """Collector of a spout. The engine sets `self.collector` before `open`."""

    @property
    def rows_emitted(self) -> int:
        """Rows that the last `emit_many` has emitted at once. If it raised, this is the index of the row that could not be emitted."""

    def emit(self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to all subscribers of the stream.

        If `message_id` is not None, the engine tracks the tuple. The engine then calls `ack(message_id)` or `fail(message_id)` of this task
        exactly once (ACK-1, ACK-3, ACK-4). Raises UsageError for an unknown stream, a direct stream, and a wrong number of values.
        """

    def emit_many(self, rows: Iterable[Values], message_ids: Iterable[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple for each row, in order. `message_ids` has one entry for each row. A row with None is not tracked.

        The engine emits the first 1,024 rows at once, and the rest in slices, one for each turn of the event loop. Later emits wait behind
        these rows (BP-4). The engine copies both sequences, but not the rows. If a row is a list, do not change it afterwards. Raises
        UsageError for the same reasons as `emit`.
        """

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, on a stream declared `Fields(..., direct=True)`.

        `task` is a task id of `self.context.targets(stream)`. Raises UsageError for any other task, and for the same reasons as `emit`.
        """

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback. The engine reports at most 5 different errors of a task in 10 s."""

    async def ready(self) -> None:
        """Wait until no target mailbox is full and the engine does not pause this task.

        Coroutines of `context.create_task` await this method before each emit.
        """


class BoltCollector(Protocol):
    """Collector of a `Bolt`. The engine sets `self.collector` before `prepare`."""

    def emit(self, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to all subscribers of the stream. The tuple joins the trees of all its anchors (ACK-2).

        Raises UsageError for an unknown stream, a direct stream, a wrong number of values, and an anchor that was already acked or failed.
        """

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, on a stream declared `Fields(..., direct=True)`.

        `task` is a task id of `self.context.targets(stream)`. Raises UsageError for any other task, and for the same reasons as `emit`.
        """

    def ack(self, tup: Tuple, /) -> None:
        """Mark an input as processed. The engine ignores a second ack or fail of the same input, counts it, and warns once (ACK-5)."""

    def fail(self, tup: Tuple, /, error: str | BaseException | None = None) -> None:
        """Mark an input as failed. All trees of the input fail at once (ACK-4).

        `error` is the reason, a text or an exception. The spout reads its text in `self.context.failure`, and a dead letter contains it
        (ACK-16).
        """

    def reset_timeout(self, tup: Tuple, /) -> None:
        """Restart the message timeout of the trees of an unsettled input (ACK-8)."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback. The engine reports at most 5 different errors of a task in 10 s."""

    async def ready(self) -> None:
        """Wait until no target mailbox is full and the engine does not pause this task.

        Coroutines of `context.create_task` await this method before each emit.
        """


OutputCollector = BoltCollector
"""Storm's name for `BoltCollector`."""


class BasicCollector(Protocol):
    """Collector of a `BasicBolt`. Anchors each emit to the input of the current `execute` call (ACK-10, ACK-11).

    A bolt that only yields to its default stream does not need the collector.
    """

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple, anchored to the current input.

        Raises UsageError outside `execute`, and for the same reasons as `BoltCollector.emit`.
        """

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, anchored to the current input, on a stream declared `direct`."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback. The engine reports at most 5 different errors of a task in 10 s."""
