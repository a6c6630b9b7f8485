"""`KafkaTransactionalSpout` and `KafkaOpaqueSpout` read the batches of transactions from Kafka topics (TX-7, TX-10)."""

from collections.abc import Mapping
from typing import NamedTuple

from engine.api import TaskContext
from engine.errors import UsageError
from engine.kafka.client.errors import lost_offsets_warning
from engine.kafka.client.log_continuity import Divergence
from engine.kafka.client.partition import LogMark, PartitionId, offsets_text
from engine.kafka.transactional.batch_reader import UNKNOWN_RECORDS, BatchReader, Metadata, OffsetRange, mark_of, partition_of, range_of
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


class BatchStart(NamedTuple):
    """Where a batch begins."""

    offset: int
    mark: LogMark | None


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

    async def _start_after(self, attempt: TransactionAttempt, place: PartitionId, previous: Metadata) -> BatchStart | None:
        """Return the start of the batch after the previous one. None while the leader does not answer before the first batch."""
        before = range_of(previous)
        if before is not None:
            return BatchStart(before.end, mark_of(previous))
        first = await self._reader.first_start(attempt, place)
        return None if first is None else BatchStart(first, None)

    async def _read_new(self, attempt: TransactionAttempt, collector: BatchCollector, place: PartitionId, start: BatchStart) -> Metadata:
        taken = await self._reader.read_new(attempt, collector, place, *start)
        return taken.metadata(self._reader.mark_at(place, taken.end))

    def _continue_at(self, lost: OffsetLost, divergence: Divergence, first: int) -> BatchStart:
        """Count and report that the log is another one. Return where reading continues in it. first: the broker's first offset."""
        cut = first if divergence.offset is None else max(first, divergence.offset)
        self.context.counter("kafka_out_of_range").add(1)
        self._reader.report(divergence.warning(lost.partition, lost.offset, cut))
        return BatchStart(cut, divergence.mark if cut == divergence.offset else None)


class KafkaTransactionalEmitter(_EmitterBase, PartitionedEmitter[Metadata]):
    """Reads exactly the same records for the same txid."""

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit the records after the previous batch."""
        place = partition_of(partition)
        start = await self._start_after(attempt, place, previous)
        if start is None:
            return None
        try:
            return await self._read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            after = await self._start_after_cut(attempt, lost)
        return await self._read_new(attempt, collector, place, after)

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: Metadata
    ) -> None:
        """Emit the records of this range again."""
        if metadata is not None:
            await self._reader.read_again(attempt, collector, partition_of(partition), metadata)

    def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, Metadata]) -> None:
        """Begin to fetch the records of all these ranges."""
        self._reader.expect({partition_of(partition): metadata for partition, metadata in planned.items() if metadata is not None})

    async def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: Metadata) -> Metadata:
        """Return the offsets of the next batch. `batch_bytes` does not limit it, because no record is read yet."""
        place = partition_of(partition)
        start = await self._start_after(attempt, place, previous)
        if start is None:
            return None
        first, last, mark = await self._reader.bounds_in_batch(attempt, place)
        if start.mark is not None and mark != start.mark:  # another topic, or another leader since then
            lost = OffsetLost(place, *start)
            if await self._reader.divergence_of(lost) is not None:
                start = await self._start_after_cut(attempt, lost)
        if start.offset < first or self._reader.has_lost_its_end(place, start.offset, last):
            raise self._reader.lost_error(OffsetLost(place, start.offset), first, last, f"transaction {attempt.txid}")
        end = max(start.offset, min(start.offset + self._config.batch_records, last))
        return OffsetRange(start.offset, end, UNKNOWN_RECORDS).metadata(mark if end <= last else None)

    async def _start_after_cut(self, attempt: TransactionAttempt, lost: OffsetLost) -> BatchStart:
        """Return where the log was cut, because no batch can have records from there on. Raise FatalError for any other loss."""
        divergence = await self._reader.divergence_of(lost)
        first, last = await self._reader.bounds_of(lost.partition)
        if divergence is None or divergence.offset is None:
            raise self._reader.lost_error(lost, first, last, f"transaction {attempt.txid}", divergence)
        return self._continue_at(lost, divergence, first)


class KafkaOpaqueEmitter(_EmitterBase, OpaqueEmitter[Metadata]):
    """Reads the existing records after the previous batch. Lost offsets are counted and reported."""

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: Metadata
    ) -> Metadata:
        """Emit the records after the previous batch."""
        place = partition_of(partition)
        start = await self._start_after(attempt, place, previous)
        if start is None:
            return None
        try:
            made = await self._read_new(attempt, collector, place, start)
        except OffsetLost as lost:
            after = await self._start_after_loss(lost)
        else:
            is_empty = range_of(made) == OffsetRange(start.offset, start.offset, 0)
            return previous if is_empty and previous is not None else made
        return await self._read_new(attempt, collector, place, after)

    async def _start_after_loss(self, lost: OffsetLost) -> BatchStart:
        """Return where the log was cut, or the first offset of the broker. Count and report the lost offsets."""
        divergence = await self._reader.divergence_of(lost)
        first, last = await self._reader.bounds_of(lost.partition)
        if divergence is not None:
            return self._continue_at(lost, divergence, first)
        never = max(0, first - lost.offset)
        self.context.counter("kafka_offsets_lost").add(never)
        self.context.counter("kafka_out_of_range").add(1)
        text = f"{lost.partition}: offset {lost.offset} does not exist; the broker has {offsets_text(first, last)}"
        self._reader.report(lost_offsets_warning(text, lost.offset, first))
        return BatchStart(first, None)


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
