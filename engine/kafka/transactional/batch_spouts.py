"""`KafkaTransactionalSpout` and `KafkaOpaqueSpout`: topics of Kafka as the source of transactions (TX-7, TX-10)."""

from engine.api import TaskContext
from engine.errors import UsageError
from engine.kafka.client.errors import KafkaTrouble
from engine.kafka.client.partition import PartitionId
from engine.kafka.transactional.batch_reader import BatchReader
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.group_commits import GroupCommits
from engine.kafka.transactional.offset_range import Metadata, OffsetRange, place_of, range_of
from engine.kafka.transactional.partition_reader import OffsetLost
from engine.kafka.transactional.spout_coordinator import KafkaSpoutCoordinator
from engine.transactional import (
    BatchCollector,
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    Partition,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionAttempt,
)


class _Reading:
    """What the emitters of both spouts do alike."""

    context: TaskContext

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self._config = config
        self._commits: GroupCommits | None = None
        self._batches: BatchReader | None = None
        """None until it is open."""

    async def open(self) -> None:
        """Connect, however long that takes."""
        config, context = self._config, self.context
        batches = BatchReader(config, context)
        await batches.open()
        self._batches = batches
        if config.group is not None:
            self._commits = GroupCommits(batches.link, config.group, context.topology_name, batches.report)
            context.create_task(self._commits.keep())

    async def close(self) -> None:
        """Disconnect."""
        if self._batches is None:
            return
        try:
            if self._commits is not None:
                await self._commits.close()
        finally:
            await self._batches.close()

    def cleanup_before(self, txid: int) -> None:
        """Forget what was kept of earlier txids."""
        if self._commits is not None:
            self._commits.forget_before(txid)

    @property
    def _reader(self) -> BatchReader:
        assert self._batches is not None
        return self._batches

    def _note(self, attempt: TransactionAttempt, partition: PartitionId, end: int) -> None:
        if self._commits is not None:
            self._commits.note(attempt.txid, partition, end)


class KafkaTransactionalEmitter(_Reading, PartitionedEmitter[Metadata]):
    """Reads exactly the same records for the same txid."""

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit what is there behind `previous`."""
        place, before = place_of(partition), range_of(previous)
        start = await self._reader.start_of(attempt, place) if before is None else before.end
        if start is None:
            return None
        try:
            taken = await self._reader.read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            first, last = await self._reader.bounds_of(place)
            raise self._reader.gone(lost, first, last, f"transaction {attempt.txid}") from lost
        self._note(attempt, place, taken.end)
        return taken.metadata()

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: Metadata
    ) -> None:
        """Emit the records of this range again."""
        wanted = range_of(metadata)
        if wanted is not None:
            await self._reader.read_again(attempt, collector, place_of(partition), wanted)
            self._note(attempt, place_of(partition), wanted.end)


class KafkaOpaqueEmitter(_Reading, OpaqueEmitter[Metadata]):
    """Reads what is there from where the batch before ended; what is lost is counted and told."""

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit what is there behind `previous`."""
        place, before = place_of(partition), range_of(previous)
        start = await self._reader.start_of(attempt, place) if before is None else before.end
        if start is None:
            return None
        try:
            taken = await self._reader.read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            taken = await self._reader.read_new(attempt, collector, place, await self._next_there(lost))
        self._note(attempt, place, taken.end)
        return previous if taken == OffsetRange(start, start, 0) and previous is not None else taken.metadata()

    async def _next_there(self, lost: OffsetLost) -> int:
        """Return the first offset that the broker has, and tell what was lost."""
        first, last = await self._reader.bounds_of(lost.partition)
        never = max(0, first - lost.offset)
        self.context.counter("kafka_offsets_lost").add(never)
        self.context.counter("kafka_out_of_range").add(1)
        text = f"{lost.partition}: offset {lost.offset} is not there; the broker has {first} to {last}"
        hint = "Raise the topic's retention." if never else "Was the topic made anew?"
        self._reader.report(KafkaTrouble(f"{text}. Reading goes on at {first}; {never} offsets were never read", hint=hint))
        return first


class _Following(_Reading):
    """With a group, whose offsets follow. Without one an emitter has no part in the commit phase, and the engine sends it nothing of it."""

    def commit(self, attempt: TransactionAttempt) -> None:
        """Have the group's offsets follow."""
        assert self._commits is not None
        self._commits.commit(attempt.txid)


class FollowedTransactionalEmitter(_Following, KafkaTransactionalEmitter):
    """The emitter of a KafkaTransactionalSpout with a group."""


class FollowedOpaqueEmitter(_Following, KafkaOpaqueEmitter):
    """The emitter of a KafkaOpaqueSpout with a group."""


class KafkaTransactionalSpout(PartitionedTransactionalSpout[Metadata]):
    """Reads topics; a transaction that is replayed has the very same records.

    `TransactionalTopologyBuilder("count", "lines", KafkaTransactionalSpout(config), 2)`. Where retention has taken what a transaction
    needs, the run ends with an error that says so.
    """

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self.config = _checked(config, "KafkaTransactionalSpout")
        self.output_fields = config.fields

    def coordinator(self) -> KafkaSpoutCoordinator:
        """Return a new coordinator."""
        return KafkaSpoutCoordinator(self.config)

    def emitter(self) -> KafkaTransactionalEmitter:
        """Return a new emitter."""
        return KafkaTransactionalEmitter(self.config) if self.config.group is None else FollowedTransactionalEmitter(self.config)


class KafkaOpaqueSpout(OpaquePartitionedTransactionalSpout[Metadata]):
    """Reads topics; goes on without a partition that is away, and behind records that were lost. For opaque values (TX-8)."""

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self.config = _checked(config, "KafkaOpaqueSpout")
        self.output_fields = config.fields

    def coordinator(self) -> KafkaSpoutCoordinator:
        """Return a new coordinator."""
        return KafkaSpoutCoordinator(self.config)

    def emitter(self) -> KafkaOpaqueEmitter:
        """Return a new emitter."""
        return KafkaOpaqueEmitter(self.config) if self.config.group is None else FollowedOpaqueEmitter(self.config)


def _checked(config: object, name: str) -> KafkaBatchSpoutConfig:
    if not isinstance(config, KafkaBatchSpoutConfig):
        raise UsageError(f"{name} was given {config!r}", hint=f"Write {name}(KafkaBatchSpoutConfig(brokers=..., topics=...)).")
    return config
