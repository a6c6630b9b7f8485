"""What a user writes of a transactional topology: bolts that see a whole batch (TX-5, TX-6)."""

from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from engine.names import DEFAULT_STREAM
from engine.topology import BoltBase, Fields, TaskContext, Tuple, Values
from engine.transactional.attempt import TransactionAttempt

O = TypeVar("O", bound="Open", covariant=True)  # noqa: E741 - a type variable


class FailedBatch(Exception):
    """Raised in a bolt, an emitter or a committer to fail its batch quietly: it and every later one are replayed (TX-3, TX-6).

    With `report=True` it is also reported, as any other exception is.
    """

    def __init__(self, *args: object, report: bool = False) -> None:
        super().__init__(*args)
        self.report = report


class BatchCollector(Protocol):
    """What a batch bolt and an emitter emit with. The attempt is put in front of the values; nothing is anchored (TX-1, TX-4)."""

    def emit(self, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch. Raises UsageError once the batch is finished, failed or superseded here."""

    def emit_many(self, rows: Sequence[Values], stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch for each row, in order."""

    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple of this batch to this task alone, on a stream declared `direct`."""

    def report_error(self, error: BaseException) -> None:
        """Report an error with component, task and traceback, and go on; at most 5 in 10 s are reported for each task."""

    async def ready(self) -> None:
        """Wait until no target is full: for an `async` emitter of large batches, between two parts of one."""


class Open(Protocol):
    """What a resource is while a task has it."""

    async def close(self) -> None:
        """Give it back; called once, when the task ends."""


class Resource(Protocol[O]):
    """Something that outlives an attempt, such as connections to a database: described by a hashable value, opened once for each task."""

    async def open(self, context: TaskContext) -> O:
        """Open it for the task of this context."""


class Resources(Protocol):
    """The resources of one task."""

    async def opened(self, resource: Resource[O]) -> O:
        """Return what `resource.open` gave: opened at the first call with an equal resource, closed when the task ends."""


class BatchBolt(BoltBase):
    """Base of bolts that work on whole batches: the factory makes one instance for each attempt, and it is dropped with it.

    `output_fields` name the fields without the attempt, which is put in front of them under the name `attempt`: so `tup[0]` and
    `tup["attempt"]` are a tuple's TransactionAttempt. The methods may be `def` or `async def`; the calls of one batch never overlap, those
    of two batches may where one of them waits.
    """

    is_batched: ClassVar[bool] = True
    is_committer: ClassVar[bool] = False
    """True: `finish_batch` belongs to the commit phase, in strict order of txids (TX-2). `set_committer` says the same."""

    attempt: TransactionAttempt
    """Set before `prepare`."""
    collector: BatchCollector
    """Set before `prepare`."""
    resources: Resources
    """Set before `prepare`."""
    replays_differ: bool = False
    """Set before `prepare`: the spout is opaque, so that another attempt of this txid may be another batch (TX-7)."""

    @abstractmethod
    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Take one tuple of the batch."""

    @abstractmethod
    def finish_batch(self) -> Awaitable[None] | None:
        """Do what the whole batch is for: called once, when every tuple of it has come, though there may be none (TX-5).

        Raising, here or in `execute`, fails the batch, and drops this instance only (TX-6).
        """


class BurstBolt(BatchBolt):
    """A batch bolt that is called for many tuples at once: where it does little for each, the calls are most of what it costs.

    Everything else is as with any batch bolt: the calls of one batch never overlap, and while one is awaited, what comes waits.
    """

    burst_rows: ClassVar[int] = 1024
    """How many tuples make a burst. So many wait for each batch that is open, outside all other bounds."""

    @abstractmethod
    def execute_many(self, rows: list[tuple[Any, ...]], fields: Fields) -> Awaitable[None] | None:
        """Take the values of tuples, in the order in which they came: at least one, at most `burst_rows`; the list is the bolt's.

        The first value of each is the attempt. All have these fields: a burst ends, too, where tuples of other ones come, and before
        `finish_batch`. Which component and task has emitted a row is not known.
        """

    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Take one tuple, as a burst of one: for a test that calls it. The engine calls `execute_many`."""
        return self.execute_many([tup.values], tup.fields)


class Committer(BatchBolt):
    """A batch bolt whose `finish_batch` belongs to the commit phase: one batch at a time, in order, each until it is done (TX-2).

    It may be called again for a txid whose effects are stored already, in another attempt: compare `self.attempt` with what is stored, as
    TransactionalValue and OpaqueValue do (TX-8).
    """

    is_committer: ClassVar[bool] = True
