"""The three kinds of sources of batches (TX-7): what a user writes, each as a coordinator, once, and an emitter for each task.

| kind | a replay of a txid | its metadata |
|---|---|---|
| `TransactionalSpout` | gives the same tuples | one value, of the coordinator |
| `PartitionedTransactionalSpout` | gives the same tuples | one value for each partition, of its emitter |
| `OpaquePartitionedTransactionalSpout` | may give others, and starts where the batch before it ended | the same |

Metadata is None, bool, int, float, str, bytes, a list or a dict of these; it is kept by the engine, durably before anything of its txid
is committed. What is handed back of it is a copy, which may be changed. All methods may be `def` or `async def`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from engine.topology import OutputFields, TaskContext
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.batch_bolt import BatchCollector

M = TypeVar("M")
"""A spout's metadata."""
Partition: TypeAlias = int | str
"""The name of a partition."""
Positions: TypeAlias = Mapping[Partition, Any]
"""By partition, the metadata of the newest batch that emitted of it."""


class _Part(ABC):
    """What coordinators and emitters have in common."""

    context: TaskContext
    """Set before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Get ready; called first."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Give back what `open` took; called last."""
        return None


class _Emitter(_Part):
    """What emitters have in common."""

    def commit(self, attempt: TransactionAttempt) -> Awaitable[None] | None:
        """Take part in the commit phase of this attempt; called only where it is overridden."""
        return None

    def cleanup_before(self, txid: int) -> Awaitable[None] | None:
        """Forget what was kept for earlier txids: they are committed. If it raises, the error is reported, and the batch goes on."""
        return None


class SpoutCoordinator(_Part, Generic[M]):
    """Decides what a batch is. One for the whole topology."""

    previous: M | None = None
    """Before each call: the metadata of the newest txid, None before the first."""

    @abstractmethod
    def is_ready(self) -> bool | Awaitable[bool]:
        """Tell whether there is another batch; asked again after `batch_interval_ms` where there is none.

        Raise SpoutExhausted where there will be none: what is open commits, then the run is complete.
        """

    @abstractmethod
    def initialize_transaction(self, txid: int, previous: M | None) -> M | Awaitable[M]:
        """Return the metadata of a new txid, given that of the one before it (None for the first); not called for a replay."""


class SpoutEmitter(_Emitter, Generic[M]):
    """Emits a task's share of each batch: `context.task_index` of `context.tasks`."""

    @abstractmethod
    def emit_batch(self, attempt: TransactionAttempt, metadata: M, collector: BatchCollector) -> Awaitable[None] | None:
        """Emit this task's tuples of the batch: for the same txid the same, for ever."""


class TransactionalSpout(ABC, Generic[M]):
    """A source that emits the same tuples for the same txid, whatever happens: the description of it, which any number of tasks share."""

    output_fields: OutputFields = None
    """Without the attempt, which is put in front."""

    @abstractmethod
    def coordinator(self) -> SpoutCoordinator[M]:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> SpoutEmitter[M]:
        """Return a new emitter."""


class PartitionedCoordinator(_Part):
    """Knows the partitions. One for the whole topology."""

    positions: Positions
    """Before each call: what is known of where the newest batches ended. Those under way may not have told yet."""

    @abstractmethod
    def is_ready(self) -> bool | Awaitable[bool]:
        """Tell whether there is another batch, as `SpoutCoordinator.is_ready`; after an empty one it is asked `batch_interval_ms` later."""

    @abstractmethod
    def partitions(self) -> Sequence[Partition] | Awaitable[Sequence[Partition]]:
        """Return the partitions of the next batch. Partition number i, as they stand here, is emitted by the task i modulo tasks."""

    def forgotten(self) -> Collection[Partition] | Awaitable[Collection[Partition]]:
        """Return partitions that never come again: where they ended is kept no longer, unless an open batch has them.

        Asked behind each commit. If it raises, the error is reported, and the positions stay until it is asked again.
        """
        return ()


class PartitionedEmitter(_Emitter, Generic[M]):
    """Emits batches of the partitions that fall to its task."""

    @abstractmethod
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: M | None
    ) -> M | Awaitable[M]:
        """Emit a new batch behind that of `previous` (None: from the beginning); return its metadata, by which it can be emitted again."""

    @abstractmethod
    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: M
    ) -> Awaitable[None] | None:
        """Emit the very tuples of this metadata again. Raise FatalError where the source has them no more."""


class PartitionedTransactionalSpout(ABC, Generic[M]):
    """A source of partitions that emits the same tuples for the same txid: one batch takes a piece of each partition."""

    output_fields: OutputFields = None
    """Without the attempt, which is put in front."""

    @abstractmethod
    def coordinator(self) -> PartitionedCoordinator:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> PartitionedEmitter[M]:
        """Return a new emitter."""


class OpaqueEmitter(_Emitter, Generic[M]):
    """Emits batches of the partitions that fall to its task; a replay may differ."""

    @abstractmethod
    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: M | None
    ) -> M | Awaitable[M]:
        """Emit a batch that starts where that of `previous` ended (None: from the beginning); return where this one ended.

        A partition that is away emits nothing and returns `previous`.
        """


class OpaquePartitionedTransactionalSpout(ABC, Generic[M]):
    """A source of partitions whose replays may differ, such as one that can lose a broker; exactly once with opaque values (TX-8)."""

    output_fields: OutputFields = None
    """Without the attempt, which is put in front."""

    @abstractmethod
    def coordinator(self) -> PartitionedCoordinator:
        """Return a new coordinator."""

    @abstractmethod
    def emitter(self) -> OpaqueEmitter[M]:
        """Return a new emitter."""


AnySpout: TypeAlias = TransactionalSpout[Any] | PartitionedTransactionalSpout[Any] | OpaquePartitionedTransactionalSpout[Any]
