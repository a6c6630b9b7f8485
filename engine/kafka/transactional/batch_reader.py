"""Batches of partitions: new ones, as large as the settings say, and the very same ones again."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.translate import ToStream, translator_error, translator_text
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.leader_offsets import StartOffsets
from engine.kafka.transactional.offset_range import OffsetRange
from engine.kafka.transactional.partition_reader import OffsetLost, PartitionReader
from engine.names import DEFAULT_STREAM
from engine.raised import raised_text
from engine.transactional import BatchCollector, FailedBatch, TransactionAttempt


class BatchTranslator:
    """Emits what the translator makes of records; `dropped` counts those that it could not read."""

    def __init__(self, config: KafkaBatchSpoutConfig, dropped: Any) -> None:
        self._translate = config.translator
        self._drops = config.on_unreadable == "drop"
        self._dropped = dropped

    def emit(self, records: Sequence[Any], collector: BatchCollector) -> None:
        """Emit the tuples of records, in order; FatalError for one that cannot be read and is not to be dropped."""
        try:
            made = [values for values in map(self._translate, records) if values is not None]
        except Exception:  # noqa: BLE001 - found again, and told with its place
            made = list(self._one_by_one(records, collector))
        if ToStream not in set(map(type, made)):
            collector.emit_many(made)
            return
        for stream, group in groupby(made, _stream_of):
            collector.emit_many([one.values if isinstance(one, ToStream) else one for one in group], stream)

    def _one_by_one(self, records: Sequence[Any], collector: BatchCollector) -> Any:
        for record in records:
            try:
                values = self._translate(record)
            except Exception as error:
                if not self._drops:
                    hint = "Have it return None for what is to be skipped, or write on_unreadable='drop'."
                    raise FatalError(translator_text(record, raised_text(error)), hint=hint) from error
                self._dropped.add(1)
                collector.report_error(translator_error(record, error, ". The record is dropped"))
                continue
            if values is not None:
                yield values


def _stream_of(made: Any) -> str:
    return made.stream if isinstance(made, ToStream) else DEFAULT_STREAM


LOGGER: Final = logging.getLogger("engine.kafka")
_TOGETHER: Final = 1_000
"""Records that are taken, translated and emitted together."""
_GAP_SECS: Final = 0.1
"""How long records are waited for before it is looked again whether a gap is what comes."""
_OPAQUE_HINT: Final = "KafkaOpaqueSpout goes on with what is there; more retention.ms of the topic keeps records for longer."


class BatchReader:
    """What an emitter has of Kafka. One batch of one partition at a time."""

    def __init__(self, config: KafkaBatchSpoutConfig, context: TaskContext) -> None:
        self._config, self._context = config, context
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        self._reader = PartitionReader(config, client_id, self.report)
        self._translating = BatchTranslator(config, context.counter("kafka_records_dropped"))
        self._now = asyncio.get_running_loop().time
        self._attempt: TransactionAttempt | None = None
        self._wait_until = 0.0
        self._collector: BatchCollector | None = None

    async def open(self) -> None:
        """Connect, however long that takes."""
        await self._reader.open()
        self.link = self._reader.link
        self._starts = StartOffsets(self.link, self._config, self.report)

    async def close(self) -> None:
        """Disconnect."""
        await self._starts.close()
        await self._reader.close()

    def report(self, error: BaseException) -> None:
        """Show an error that is survived."""
        if self._collector is None:
            LOGGER.warning("%s", error)
        else:
            self._collector.report_error(error)

    # Batches

    async def start_of(self, attempt: TransactionAttempt, partition: PartitionId) -> int | None:
        """Return where the first batch of a partition begins; None while its leader does not answer."""
        return await self._starts.of(partition, is_added=attempt.txid > 1)

    async def read_new(self, attempt: TransactionAttempt, collector: BatchCollector, partition: PartitionId, start: int) -> OffsetRange:
        """Emit what is there from an offset on, as much as a batch may have; raises OffsetLost before anything is emitted."""
        self._begin(attempt, collector)
        reader, config = self._reader, self._config
        reader.begin(partition, start)
        left, left_bytes = config.batch_records, config.batch_bytes
        while left > 0 and left_bytes > 0:
            try:
                records = await reader.take(partition, min(left, _TOGETHER))
            except OffsetLost:
                if left == config.batch_records:
                    raise
                break  # what was emitted is a batch; the next one meets the gap
            if records:
                left -= len(records)
                left_bytes -= sum([one.serialized_key_size + one.serialized_value_size for one in records])
                await self._emit(records, collector)
                continue
            alone_secs = reader.alone_secs()
            wait_secs = self._wait_until - self._now()
            if not alone_secs and (wait_secs <= 0 or reader.has_records_of_others(partition)):
                break
            await reader.wait(min(alone_secs, _GAP_SECS) or wait_secs)
        return OffsetRange(start, reader.position(partition), config.batch_records - left)

    async def read_again(self, attempt: TransactionAttempt, collector: BatchCollector, partition: PartitionId, wanted: OffsetRange) -> None:
        """Emit the records of a range again; FatalError where they are not all there."""
        self._begin(attempt, collector)
        left = wanted.records
        if left:
            self._reader.begin(partition, wanted.start)
        give_up_at = self._now() + self._config.replay_timeout_ms / 1000
        while left:
            try:
                records = await self._reader.take(partition, min(left, _TOGETHER))
            except OffsetLost as lost:
                self._reader.begin(partition, await self._first_of(lost, wanted))
                continue
            if not records:
                if self._reader.position(partition) >= wanted.end or not await self._may_come(partition, wanted, give_up_at):
                    break
                continue
            give_up_at = self._now() + self._config.replay_timeout_ms / 1000
            if records[-1].offset >= wanted.end:
                records = [one for one in records if one.offset < wanted.end]
                left -= len(records)
                await self._emit(records, collector)
                break
            left -= len(records)
            await self._emit(records, collector)
        if left:
            text = f"{partition}: of the {wanted.records:,} records of offsets {wanted.start} to {wanted.end}, {left:,} are gone"
            raise FatalError(f"{text}: transaction {attempt.txid} cannot be replayed as it was", hint=_OPAQUE_HINT)

    def _begin(self, attempt: TransactionAttempt, collector: BatchCollector) -> None:
        """All partitions of one attempt share the time that it may wait for more."""
        if attempt != self._attempt:
            self._attempt, self._wait_until = attempt, self._now() + self._config.batch_wait_ms / 1000
        self._collector = collector

    async def _emit(self, records: Sequence[Any], collector: BatchCollector) -> None:
        self._translating.emit(records, collector)
        await collector.ready()

    async def _may_come(self, partition: PartitionId, wanted: OffsetRange, give_up_at: float) -> bool:
        """Wait for more of a range; False where the partition has ended before it for so long: a broker that comes back may tell less."""
        wait_secs = give_up_at - self._now()
        if wait_secs <= 0:
            end = self.link.empty_up_to(partition)
            if end is not None and end < wanted.end:  # as it was told once; its leader may be silent since
                _, last = await self.bounds_of(partition)
                if last < wanted.end:
                    return False
            silent = self._config.replay_timeout_ms / 1000
            text = f"{partition}: nothing of offsets {wanted.start} to {wanted.end} has come for {silent:g} s; the batch is tried again"
            raise FailedBatch(text, report=True)
        await self._reader.wait(min(wait_secs, _GAP_SECS))
        return True

    # What is lost

    async def bounds_of(self, partition: PartitionId) -> tuple[int, int]:
        """Return the first offset that the broker has, and the one after the last; FailedBatch where it does not answer."""
        try:
            async with asyncio.timeout(self._config.replay_timeout_ms / 1000):
                first = await self.link.bounds([partition], "earliest")
                last = await self.link.bounds([partition], "latest")
        except Exception as error:
            raise FailedBatch(f"{partition}: its leader does not answer", report=True) from error
        return first[partition], last[partition]

    async def _first_of(self, lost: OffsetLost, wanted: OffsetRange) -> int:
        """Return where to go on in a range whose beginning is not there: what is gone may have been nothing."""
        first, last = await self.bounds_of(lost.partition)
        if lost.offset < first < wanted.end <= last:
            return first
        raise self.gone(lost, first, last, f"the replay of offsets {wanted.start} to {wanted.end}")

    @staticmethod
    def gone(lost: OffsetLost, first: int, last: int, doing: str) -> FatalError:
        """Return what the run ends with where records were lost that a transaction needs."""
        why = "retention has taken it" if lost.offset < first else "was the topic made anew?"
        text = f"{lost.partition}: {doing} needs offset {lost.offset}, which is not there: the broker has {first} to {last} ({why})"
        return FatalError(text, hint=_OPAQUE_HINT)
