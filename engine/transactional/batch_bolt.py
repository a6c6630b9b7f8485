"""Base classes of bolts that process whole batches (TX-5, TX-6)."""

from abc import abstractmethod
from collections.abc import Awaitable, Iterable
from typing import Any, ClassVar, Final, Protocol, TypeVar

from engine.api import BoltBase, Burst, TaskContext, Tuple, Values
from engine.errors import error_as_text
from engine.kernel import Burst as CompiledBurst
from engine.names import DEFAULT_STREAM
from engine.transactional.attempt import TransactionAttempt

O = TypeVar("O", bound="Open", covariant=True)  # noqa: E741 - a type variable


class FailedBatch(Exception):
    """Raise it in a bolt, an emitter or a committer to fail the batch without an error report.

    The batch and all later ones are replayed (TX-3, TX-6). With `report=True` it is also reported, like any other exception.
    """

    def __init__(self, *args: object, report: bool = False) -> None:
        super().__init__(*args)
        self.report = report


class RowFailed(FailedBatch):
    """What `burst.fail` raises."""


class BurstSettler:
    """Settles tuples of a burst for `burst.ack` and `burst.fail`. A batch succeeds or fails as a whole."""

    def ack(self, tup: Tuple) -> None:
        """Do nothing."""

    def fail(self, tup: Tuple, error: str | BaseException | None = None) -> None:
        """Raise RowFailed with the text of the error."""
        raise RowFailed(*([] if error is None else [error_as_text(error)])) from (error if isinstance(error, BaseException) else None)


BURST_SETTLER: Final = BurstSettler()


class BatchCollector(Protocol):
    """Collector of a batch bolt and of an emitter.

    The collector puts the attempt in front of the values, and anchors nothing (TX-1, TX-4).
    """

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch.

        Raises UsageError after this task has finished or failed the batch, or has begun a newer attempt.
        """

    def emit_many(self, rows: Iterable[Values], stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch for each row, in order."""

    def emit_each(self, values: Iterable[Any], stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch for each value, in order. The stream has one field besides the attempt."""

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch to one task, on a stream declared `direct`."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback. The engine reports at most 5 different errors of a task in 10 s."""

    async def ready(self) -> None:
        """Wait until no target's mailbox is full. An `async` emitter of large batches awaits it between pieces."""


class Open(Protocol):
    """An opened resource of a task."""

    async def close(self) -> None:
        """Close the resource. Called once, when the task ends."""


class Resource(Protocol[O]):
    """Hashable description of a resource that several attempts use, such as a database connection.

    Each task opens it once, at the first use.
    """

    async def open(self, context: TaskContext) -> O:
        """Open the resource for the task of this context."""


class Resources(Protocol):
    """The resources of one task."""

    async def opened(self, resource: Resource[O]) -> O:
        """Return the result of `resource.open`. The first call with an equal resource opens it, the end of the task closes it."""


class BatchBolt(BoltBase):
    """Base class of bolts that process whole batches. The factory makes one instance for each attempt.

    `output_fields` name the fields without the attempt. The engine puts the attempt in front of them under the name `attempt`, so `tup[0]`
    and `tup["attempt"]` are a tuple's TransactionAttempt. The methods may be `def` or `async def`. The calls of one batch never overlap.
    The calls of two batches may overlap at an `await`.
    """

    is_batched: ClassVar[bool] = True
    is_committer: ClassVar[bool] = False
    """True: `finish_batch` belongs to the commit phase, in strict order of txids (TX-2). `set_committer` has the same effect."""

    reads_attempt: ClassVar[bool] = True
    """False: the class reads its inputs by the names of their fields, so at checkpoints it gets them without the attempt (EO-9)."""

    attempt: TransactionAttempt
    """Set before `prepare`."""
    collector: BatchCollector
    """Set before `prepare`."""
    resources: Resources
    """Set before `prepare`."""
    replays_differ: bool = False
    """Set before `prepare`. True: the spout is opaque, so another attempt of this txid may be another batch (TX-7)."""

    @abstractmethod
    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one tuple of the batch."""

    @abstractmethod
    def finish_batch(self) -> Awaitable[None] | None:
        """Process the end of the batch. Called once after its last tuple, also for a batch without tuples (TX-5).

        An exception here or in `execute` fails the batch, and drops only this instance (TX-6).
        """


class BurstBolt(BatchBolt):
    """A batch bolt that is called for many tuples at once. Use it if the work for one tuple costs less than a call.

    Otherwise it is like any batch bolt: the calls of one batch never overlap, and new tuples wait while a call is awaited.
    """

    burst_rows: ClassVar[int] = 1024
    """Maximum number of tuples in a call. Each open batch buffers up to this number of tuples, in addition to all other limits."""

    @abstractmethod
    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        """Process 1 to `burst_rows` tuples, in their order of arrival. The bolt may keep the burst.

        The first value of each tuple is the attempt. All tuples have the same fields, `burst.fields`. A burst also ends before tuples with
        other fields, and before `finish_batch`.
        """

    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Process one tuple as a burst of one, for tests. The engine calls `execute_many`."""
        return self.execute_many(CompiledBurst([tup], BURST_SETTLER))  # type: ignore[arg-type, list-item]


class Committer(BatchBolt):
    """A batch bolt whose `finish_batch` is called in the commit phase, for one batch at a time, in order (TX-2).

    The method may be called again, in another attempt, for a txid whose effects are stored already. Compare `self.attempt` with the stored
    attempt, as TransactionalValue and OpaqueValue do (TX-8).
    """

    is_committer: ClassVar[bool] = True
