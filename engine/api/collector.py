"""What a component's code emits and settles with. The working collectors are compiled; these are their contracts.

None of these methods blocks: what does not fit a mailbox waits in the emitting executor, which calls no user code until
it has drained. They belong to the loop's thread; from any other they raise (ACK-10).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from engine.api.fields import Fields, Values
from engine.names import DEFAULT_STREAM


class Tuple(Protocol):
    """One message as a bolt sees it: read-only values with names, and where they come from.

    `tup[0]` and `tup["word"]` are the same value where the stream's first field is `word`. A field that is not there
    raises UsageError with the nearest name.
    """

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, one for each field."""

    @property
    def fields(self) -> Fields:
        """The names of the values."""

    @property
    def stream(self) -> str:
        """The stream that it came on."""

    @property
    def source_component(self) -> str:
        """The id of the component that emitted it."""

    @property
    def source_task(self) -> int:
        """The id of the task that emitted it."""

    @property
    def is_tick(self) -> bool:
        """True for a tick: no data, only the time that `tick_tuple_freq_secs` asked for."""

    def __getitem__(self, key: int | str, /) -> Any: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


Anchors: TypeAlias = Tuple | Sequence[Tuple] | None
"""The inputs that a new tuple depends on. The same one twice still balances; one without roots, or a tick, is no anchor."""


class SpoutCollector(Protocol):
    """What a spout emits with; `self.collector` from before `open` on."""

    def emit(self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to whoever subscribes to the stream.

        With a `message_id`, any object but None, it is tracked: this task, no other, gets `ack(message_id)` or
        `fail(message_id)` exactly once (ACK-1, ACK-3, ACK-4). Raises UsageError for an unknown or a direct stream and
        for a wrong number of values.
        """

    def emit_many(self, rows: Sequence[Values], message_ids: Sequence[object] | None = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple for each row, in order; `message_ids`, if given, has one entry for each row (None: not tracked).

        Beyond 1,024 rows the rest is emitted in slices, while others have their turn; what is emitted afterwards comes behind it (BP-4).
        Both lists are copied, a row that is a list is not.
        """

    def emit_direct(self, task: int, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to this task alone, on a stream declared `direct`; raises UsageError unless the task subscribes to it directly."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on; at most 5 in 10 s are reported for each task."""

    async def ready(self) -> None:
        """Wait until this task may emit: no target is full and the task is not held. For background work."""


class BoltCollector(Protocol):
    """What a bolt emits and settles with; `self.collector` from before `prepare` on."""

    def emit(self, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to whoever subscribes to the stream; with anchors it belongs to all their trees (ACK-2).

        Raises UsageError for an unknown or a direct stream, a wrong number of values, and an anchor that is settled.
        """

    def emit_direct(self, task: int, values: Values, anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to this task alone, on a stream declared `direct`; raises UsageError unless the task subscribes to it directly."""

    def ack(self, tup: Tuple, /) -> None:
        """Settle an input as done. A second settle is ignored, counted, and warned of once (ACK-5)."""

    def fail(self, tup: Tuple, /, error: str | None = None) -> None:
        """Settle an input as failed: each of its trees fails now, whatever the other tuples of the tree do (ACK-4).

        `error`: a text that says why; the `Failure` carries it to the spout, and into dead letters (ACK-16).
        """

    def reset_timeout(self, tup: Tuple, /) -> None:
        """Start the clock of an input's trees again: it is still worked on (ACK-8)."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on; at most 5 in 10 s are reported for each task."""

    async def ready(self) -> None:
        """Wait until this task may emit: no target is full and the task is not held. For background work."""


OutputCollector = BoltCollector
"""Storm's name for `BoltCollector`."""


class BasicCollector(Protocol):
    """What a `BasicBolt` emits with where it does not yield; anchors to the input of the call that is running (ACK-10, ACK-11)."""

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple, anchored to the current input; raises UsageError outside `execute`."""

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple to this task alone, anchored to the current input, on a stream declared `direct`."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on; at most 5 in 10 s are reported for each task."""
