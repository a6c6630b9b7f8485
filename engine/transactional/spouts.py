"""The three kinds of transactional spouts (TX-7). Each makes one coordinator, and one emitter for each task.

| kind | replay of a txid | metadata |
|---|---|---|
| `TransactionalSpout` | the same tuples | one value, from the coordinator |
| `PartitionedTransactionalSpout` | the same tuples | one value for each partition, from its emitter |
| `OpaquePartitionedTransactionalSpout` | maybe other tuples, after those of the previous batch | the same |

Metadata is None, bool, int, float, str, bytes, or lists and dicts of these. The engine stores it before the commit phase of its txid.
User methods get copies, which they may change. All methods may be `def` or `async def`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from engine.api import OutputFields, TaskContext
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchCollector

M = TypeVar("M")
"""The type of a spout's metadata."""
Partition: TypeAlias = int | str
"""The name of a partition."""
Positions: TypeAlias = Mapping[Partition, Any]
"""Metadata of the newest batch with each partition."""


class _Part(ABC):
    """Base of coordinators and emitters."""

    context: TaskContext
    """Set before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Open files and connections. Called first."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Close what `open` opened. Called last."""
        return None


class _Emitter(_Part):
    """Base of emitters."""

    def commit(self, attempt: TransactionAttempt) -> Awaitable[None] | None:
        """Take part in the commit phase of this attempt. Called only if it is overridden."""
        return None

    def cleanup_before(self, txid: int) -> Awaitable[None] | None:
        """Drop data of earlier txids, which are committed. If it raises, the error is reported, and the batch continues."""
        return None


class SpoutCoordinator(_Part, Generic[M]):
    """Defines the batches. One for the whole topology."""

    previous: M | None = None
    """Set before each call: the metadata of the newest txid, None before the first."""

    @abstractmethod
    def is_ready(self) -> bool | Awaitable[bool]:
        """Return whether there is another batch. If not, the engine calls again after `batch_interval_ms`.

        Raise SpoutExhausted if there will never be another batch. The open batches commit, then the run is complete.
        """

    @abstractmethod
    def initialize_transaction(self, txid: int, previous: M | None) -> M | Awaitable[M]:
        """Return the metadata of a new txid. previous: metadata of the previous txid, None for the first. Not called for a replay."""


class SpoutEmitter(_Emitter, Generic[M]):
    """Emits one task's tuples of each batch. The task is `context.task_index` of `context.tasks`."""

    @abstractmethod
    def emit_batch(self, attempt: TransactionAttempt, metadata: M, collector: BatchCollector) -> Awaitable[None] | None:
        """Emit this task's tuples of the batch. The same txid must always give the same tuples."""


class TransactionalSpout(ABC, Generic[M]):
    """Description of a source that always emits the same tuples for the same txid."""

    output_fields: OutputFields = None
    """Fields without the attempt, which the engine puts in front."""

    @abstractmethod
    def coordinator(self) -> SpoutCoordinator[M]:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> SpoutEmitter[M]:
        """Return a new emitter."""


class PartitionedCoordinator(_Part):
    """Lists the partitions of each batch. One for the whole topology."""

    positions: Positions
    """Set before each call: the metadata of the newest batches. Emitters of open batches may not have replied yet."""

    committed: Positions
    """Set before each call of `forgotten`: the metadata of the newest committed batches."""

    @abstractmethod
    def is_ready(self) -> bool | Awaitable[bool]:
        """Return whether there is another batch, like `SpoutCoordinator.is_ready`.

        After a batch without tuples, the engine calls `batch_interval_ms` later.
        """

    @abstractmethod
    def partitions(self) -> Sequence[Partition] | Awaitable[Sequence[Partition]]:
        """Return the partitions of the next batch. Task `i % context.tasks` emits the partition with index i in this list."""

    def forgotten(self) -> Collection[Partition] | Awaitable[Collection[Partition]]:
        """Return partitions that are never used again. The engine drops their positions, except those of open batches.

        Called after each commit. If it raises, the error is reported, and the positions stay until the next call.
        """
        return ()


class PartitionedEmitter(_Emitter, Generic[M]):
    """Emits the partitions that are assigned to its task."""

    @abstractmethod
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: M | None
    ) -> M | Awaitable[M]:
        """Emit the batch that follows `previous` (None: the first), and return its metadata, by which it can be emitted again."""

    @abstractmethod
    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: M
    ) -> Awaitable[None] | None:
        """Emit the tuples of this metadata again. Raise FatalError if the source no longer has them."""

    def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, M]) -> Awaitable[None] | None:
        """Begin to read these partitions, and emit nothing. Optional.

        Called before `emit_partition_batch` emits several partitions, one after another. A source that waits for each of them can wait for
        all at once. planned: their metadata.
        """
        return None

    def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: M | None) -> M | Awaitable[M]:
        """Return the metadata of the batch that follows `previous` (None: the first), and emit nothing. Optional.

        On Spark, an emitter in the engine's process plans each batch, and emitters on executors emit it by `emit_partition_batch`. The
        first attempt is emitted so, too. Without this method, the emitters run in the engine's process.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot plan a batch")


class PartitionedTransactionalSpout(ABC, Generic[M]):
    """A partitioned source that always emits the same tuples for the same txid. A batch has a range of each partition."""

    output_fields: OutputFields = None
    """Fields without the attempt, which the engine puts in front."""

    @abstractmethod
    def coordinator(self) -> PartitionedCoordinator:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> PartitionedEmitter[M]:
        """Return a new emitter."""


class OpaqueEmitter(_Emitter, Generic[M]):
    """Emits batches of the partitions that are assigned to its task. A replay may differ."""

    @abstractmethod
    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: M | None
    ) -> M | Awaitable[M]:
        """Emit the batch that starts at the end of `previous` (None: the first), and return the metadata of its end.

        For a partition that is unavailable, emit nothing and return `previous`.
        """


class OpaquePartitionedTransactionalSpout(ABC, Generic[M]):
    """A partitioned source whose replays may differ. Exactly-once results need opaque values (TX-8)."""

    output_fields: OutputFields = None
    """Fields without the attempt, which the engine puts in front."""

    @abstractmethod
    def coordinator(self) -> PartitionedCoordinator:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> OpaqueEmitter[M]:
        """Return a new emitter."""


AnySpout: TypeAlias = TransactionalSpout[Any] | PartitionedTransactionalSpout[Any] | OpaquePartitionedTransactionalSpout[Any]
