"""Collectors that components emit and settle with, and the `Tuple` that a bolt receives.

These Protocols are the contract; the collectors and tuples of a run are compiled. No method blocks, except `ready`. A
tuple for a full mailbox waits in the emitting executor. Until the mailbox has drained, that executor calls no user code (BP-2).
Use a collector only on the thread of the event loop. On any other thread its methods raise UsageError (ACK-10).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from engine.api.fields import Fields, Values
from engine.names import DEFAULT_STREAM


class Tuple(Protocol):
    """One message as a bolt receives it: read-only values with names, and the origin.

    `tup[0]` and `tup["word"]` are the same value if the first field of the stream is `word`. An unknown name raises UsageError with the
    nearest name, and an index out of range raises IndexError.
    """

    @property
    def values(self) -> tuple[Any, ...]:
        """Values, one for each field."""

    @property
    def fields(self) -> Fields:
        """Names of the values."""

    @property
    def stream(self) -> str:
        """Name of the stream that the tuple came on."""

    @property
    def source_component(self) -> str:
        """Id of the component that emitted the tuple."""

    @property
    def source_task(self) -> int:
        """Id of the task that emitted the tuple."""

    @property
    def is_tick(self) -> bool:
        """True for a tick. A tick has no values; the engine sends it every `tick_tuple_freq_secs`."""

    def __getitem__(self, key: int | str, /) -> Any: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Anchors: TypeAlias = Tuple | Sequence[Tuple] | None
"""Inputs that a new tuple depends on. The same input may occur twice. Ticks and untracked inputs have no effect."""


class SpoutCollector(Protocol):
    """Collector of a spout: `self.collector`, from before `open` on."""

    def emit(self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to all subscribers of the stream.

        With a `message_id`, any object but None, the tuple is tracked: this task gets `ack(message_id)` or `fail(message_id)` exactly
        once (ACK-1, ACK-3, ACK-4). Raises UsageError for an unknown stream, a direct stream, and a wrong number of values.
        """

    def emit_many(self, rows: Sequence[Values], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple for each row, in order. `message_ids` has one entry for each row; None stands for untracked.

        The rows beyond the first 1,024 are emitted in slices, one at each turn of the loop. Later emits come after them (BP-4).
        Both sequences are copied, but a row that is a list is not: do not change it afterwards. Raises UsageError as `emit` does.
        """

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, on a stream declared `Fields(..., direct=True)`.

        `task` is a task id of `self.context.targets(stream)`. Raises UsageError for any other task, and as `emit` does.
        """

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on. At most 5 different errors per 10 s are reported for a task."""

    async def ready(self) -> None:
        """Wait until this task may emit: no target is full and the task is not held. For background work of `create_task`."""


class BoltCollector(Protocol):
    """Collector of a `Bolt`: `self.collector`, from before `prepare` on."""

    def emit(self, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to all subscribers of the stream. With anchors the tuple joins the trees of all of them (ACK-2).

        Raises UsageError for an unknown stream, a direct stream, a wrong number of values, and an anchor that is settled already.
        """

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, on a stream declared `Fields(..., direct=True)`.

        `task` is a task id of `self.context.targets(stream)`. Raises UsageError for any other task, and as `emit` does.
        """

    def ack(self, tup: Tuple, /) -> None:
        """Settle an input as processed. A second settle of the same input is ignored, counted, and warned of once (ACK-5)."""

    def fail(self, tup: Tuple, /, error: str | None = None) -> None:
        """Settle an input as failed. Each of its trees fails at once, whatever happens to their other tuples (ACK-4).

        `error` is the reason as text. The spout finds it in `self.context.failure`, and a dead letter carries it (ACK-16).
        """

    def reset_timeout(self, tup: Tuple, /) -> None:
        """Restart the message timeout of the trees of an input that is still in work (ACK-8)."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on. At most 5 different errors per 10 s are reported for a task."""

    async def ready(self) -> None:
        """Wait until this task may emit: no target is full and the task is not held. For background work of `create_task`."""


OutputCollector = BoltCollector
"""Storm's name for `BoltCollector`."""


class BasicCollector(Protocol):
    """Collector of a `BasicBolt`: anchors each emit to the input of the current `execute` call (ACK-10, ACK-11).

    A bolt that only yields to its default stream does not need it.
    """

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple, anchored to the current input. Raises UsageError outside `execute`, and as `BoltCollector.emit` does."""

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to one task, anchored to the current input, on a stream declared `direct`."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on. At most 5 different errors per 10 s are reported for a task."""
