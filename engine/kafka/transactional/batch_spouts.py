"""`KafkaTransactionalSpout` and `KafkaOpaqueSpout` read the batches of transactions from Kafka topics (TX-7, TX-10)."""

from collections.abc import Mapping

from engine.api import TaskContext
from engine.errors import UsageError
from engine.kafka.client.errors import lost_offsets_warning
from engine.kafka.client.partition import offsets_text
from engine.kafka.transactional.batch_reader import UNKNOWN_RECORDS, BatchReader, Metadata, OffsetRange, partition_of, range_of
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
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


class _EmitterBase:
    """Common base class of both emitters, with the reader."""

    context: TaskContext

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self._config = config
        self._batches: BatchReader | None = None
        """None before `open`."""

    async def open(self) -> None:
        """Connect, with retries until it succeeds."""
        batches = BatchReader(self._config, self.context)
        await batches.open()
        self._batches = batches

    async def close(self) -> None:
        """Disconnect."""
        if self._batches is not None:
            await self._batches.close()

    @property
    def _reader(self) -> BatchReader:
        assert self._batches is not None
        return self._batches


class KafkaTransactionalEmitter(_EmitterBase, PartitionedEmitter[Metadata]):
    """Reads exactly the same records for the same txid."""

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit the records after the previous batch."""
        place, before = partition_of(partition), range_of(previous)
        start = await self._reader.first_start(attempt, place) if before is None else before.end
        if start is None:
            return None
        try:
            taken = await self._reader.read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            first, last = await self._reader.bounds_of(place)
            raise self._reader.lost_error(lost, first, last, f"transaction {attempt.txid}") from lost
        return taken.metadata()

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: Metadata
    ) -> None:
        """Emit the records of this range again."""
        wanted = range_of(metadata)
        if wanted is not None:
            await self._reader.read_again(attempt, collector, partition_of(partition), wanted)

    def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, Metadata]) -> None:
        """Begin to fetch the records of all these ranges."""
        self._reader.expect({partition_of(partition): wanted for partition, metadata in planned.items() if (wanted := range_of(metadata))})

    async def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: Metadata) -> Metadata:
        """Return the offsets of the next batch. `batch_bytes` does not limit it, because no record is read yet."""
        place, before = partition_of(partition), range_of(previous)
        start = await self._reader.first_start(attempt, place) if before is None else before.end
        if start is None:
            return None
        first, last = await self._reader.bounds_in_batch(attempt, place)
        if start < first or self._reader.has_lost_its_end(place, start, last):
            raise self._reader.lost_error(OffsetLost(place, start), first, last, f"transaction {attempt.txid}")
        end = max(start, min(start + self._config.batch_records, last))
        return OffsetRange(start, end, UNKNOWN_RECORDS).metadata()


class KafkaOpaqueEmitter(_EmitterBase, OpaqueEmitter[Metadata]):
    """Reads the existing records after the previous batch. Lost offsets are counted and reported."""

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit the records after the previous batch."""
        place, before = partition_of(partition), range_of(previous)
        start = await self._reader.first_start(attempt, place) if before is None else before.end
        if start is None:
            return None
        try:
            taken = await self._reader.read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            taken = await self._reader.read_new(attempt, collector, place, await self._skip_lost(lost))
        return previous if taken == OffsetRange(start, start, 0) and previous is not None else taken.metadata()

    async def _skip_lost(self, lost: OffsetLost) -> int:
        """Return the first offset of the broker. Count and report the lost offsets."""
        first, last = await self._reader.bounds_of(lost.partition)
        never = max(0, first - lost.offset)
        self.context.counter("kafka_offsets_lost").add(never)
        self.context.counter("kafka_out_of_range").add(1)
        text = f"{lost.partition}: offset {lost.offset} does not exist; the broker has {offsets_text(first, last)}"
        self._reader.report(lost_offsets_warning(text, lost.offset, first))
        return first


class KafkaTransactionalSpout(PartitionedTransactionalSpout[Metadata]):
    """Reads topics. A replayed transaction has exactly the same records.

    `TransactionalTopologyBuilder("count", "lines", KafkaTransactionalSpout(config), 2)`. If retention deletes records of an open
    transaction, the run ends with an error that names the offsets.
    """

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self.config = _checked(config, "KafkaTransactionalSpout")
        self.output_fields = config.fields

    def coordinator(self) -> KafkaSpoutCoordinator:
        """Return a new coordinator."""
        return KafkaSpoutCoordinator(self.config)

    def emitter(self) -> KafkaTransactionalEmitter:
        """Return a new emitter."""
        return KafkaTransactionalEmitter(self.config)


class KafkaOpaqueSpout(OpaquePartitionedTransactionalSpout[Metadata]):
    """Reads topics. Continues without unavailable partitions, and after lost records. Use it with opaque values (TX-8)."""

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self.config = _checked(config, "KafkaOpaqueSpout")
        self.output_fields = config.fields

    def coordinator(self) -> KafkaSpoutCoordinator:
        """Return a new coordinator."""
        return KafkaSpoutCoordinator(self.config)

    def emitter(self) -> KafkaOpaqueEmitter:
        """Return a new emitter."""
        return KafkaOpaqueEmitter(self.config)


def _checked(config: object, name: str) -> KafkaBatchSpoutConfig:
    if not isinstance(config, KafkaBatchSpoutConfig):
        raise UsageError(f"{name} was given {config!r}", hint=f"Write {name}(KafkaBatchSpoutConfig(brokers=..., topics=...)).")
    return config
