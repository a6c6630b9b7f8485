"""Reads batches of partitions. New batches are as large as the settings allow, and replays repeat earlier batches exactly."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.log_continuity import Divergence
from engine.kafka.client.partition import LogMark, PartitionId, offsets_text
from engine.kafka.source.translate import ToStream, translator_error, translator_text
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.leader_offsets import StartOffsets
from engine.kafka.transactional.partition_reader import OffsetLost, PartitionReader
from engine.log import EngineLogger
from engine.names import DEFAULT_STREAM
from engine.raised import raised_text
from engine.transactional import BatchCollector, FailedBatch, TransactionAttempt

LOGGER: Final = EngineLogger("engine.kafka")
_CHUNK_RECORDS: Final = 1_000
"""Records that are taken, translated and emitted together."""
_GAP_SECS: Final = 0.1
"""Time to wait for records before the next check for a gap in the offsets."""
_OPAQUE_HINT: Final = "KafkaOpaqueSpout continues with the existing records. A larger retention.ms of the topic keeps records for longer."
_OTHER_TOPIC_HINT: Final = (
    "The stored positions belong to the old records. To read the new ones, rename the topology, and use other outputs, or remove the old "
    "outputs with its state. KafkaOpaqueSpout continues by itself."
)

Metadata: TypeAlias = list[int | str] | None
"""`[start, end, records]`, and the mark of the log at the end, if known. None while the start of the partition is unknown."""


UNKNOWN_RECORDS: Final = -1
"""Number of records of a batch that was planned, and not read yet."""


class OffsetRange(NamedTuple):
    """Offsets of a batch, from `start` to before `end`.

    A range may have fewer records than offsets, because compaction and the markers of transactions leave gaps.
    """

    start: int
    end: int
    records: int
    """Number of read records, including records that the translator skipped. UNKNOWN_RECORDS for a planned batch."""

    def metadata(self, mark: LogMark | None) -> list[int | str]:
        """Return the range as the engine stores it, with the mark of its end."""
        return [*self] if mark is None else [*self, str(mark)]


def range_of(metadata: Sequence[Any] | None) -> OffsetRange | None:
    """Return stored metadata as a range."""
    return None if metadata is None else OffsetRange(*metadata[: len(OffsetRange._fields)])


def mark_of(metadata: Sequence[Any] | None) -> LogMark | None:
    """Return the mark in stored metadata. None if an older version stored them, or the brokers had no topic ids.

    >>> mark_of([0, 10, 10]), mark_of([0, 10, 10, str(LogMark(bytes(16), 3))]) == LogMark(bytes(16), 3)
    (None, True)
    """
    marks = () if metadata is None else metadata[len(OffsetRange._fields) :]
    return LogMark.parse(marks[0]) if marks else None


def partition_of(name: int | str) -> PartitionId:
    """Return the partition of a name that `str(PartitionId)` made.

    >>> partition_of("page-views-3")
    PartitionId(topic='page-views', partition=3)
    """
    topic, _, number = str(name).rpartition("-")
    return PartitionId(topic, int(number))


class PlanBounds(NamedTuple):
    """Offsets of a partition when a batch is planned."""

    first: int
    last: int
    mark: LogMark | None
    """Mark of `last`, and of all offsets before."""


class BatchTranslator:
    """Emits the tuples of records. dropped: counter of records that the translator could not read."""

    def __init__(self, config: KafkaBatchSpoutConfig, dropped: Any) -> None:
        self._translate = config.translator
        self._drops = config.on_unreadable == "drop"
        self._dropped = dropped

    def emit_records(self, records: Sequence[Any], collector: BatchCollector) -> None:
        """Emit the tuples of records, in order. Raise FatalError for an unreadable record, unless the settings drop it."""
        try:
            made = [values for values in map(self._translate, records) if values is not None]
        except Exception:  # noqa: BLE001 - raised again, or reported, with its record
            made = list(self._one_by_one(records, collector))
        if ToStream not in set(map(type, made)):
            collector.emit_many(made)
            return
        for stream, group in groupby(made, _stream_of):
            collector.emit_many([one.values if isinstance(one, ToStream) else one for one in group], stream)

    def _one_by_one(self, records: Sequence[Any], collector: BatchCollector) -> Iterator[Any]:
        for record in records:
            try:
                values = self._translate(record)
            except Exception as error:
                if not self._drops:
                    hint = "Return None from the translator to skip a record, or write on_unreadable='drop'."
                    raise FatalError(translator_text(record, raised_text(error)), hint=hint) from error
                self._dropped.add(1)
                collector.report_error(translator_error(record, error, ". The record is dropped"))
                continue
            if values is not None:
                yield values


def _stream_of(made: Any) -> str:
    return made.stream if isinstance(made, ToStream) else DEFAULT_STREAM


class BatchReader:
    """Kafka consumer of an emitter. Reads one batch of one partition at a time."""

    def __init__(self, config: KafkaBatchSpoutConfig, context: TaskContext) -> None:
        self._config, self._context = config, context
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        self._reader = PartitionReader(config, client_id, self.report)
        self._translator = BatchTranslator(config, context.counter("kafka_records_dropped"))
        self._now = asyncio.get_running_loop().time
        self._attempt: TransactionAttempt | None = None
        self._wait_until = 0.0
        self._collector: BatchCollector | None = None
        self._bounds_attempt: TransactionAttempt | None = None
        self._bounds: dict[PartitionId, PlanBounds] = {}
        """Bounds that `bounds_in_batch` has asked for, in `_bounds_attempt`."""
        self._low_since: dict[PartitionId, float] = {}
        """Times since when the reported ends of partitions are below the start of the next batch."""

    async def open(self) -> None:
        """Connect, with retries until it succeeds."""
        await self._reader.open()
        self.link = self._reader.link
        self._starts = StartOffsets(self.link, self._config, self.report)

    async def close(self) -> None:
        """Disconnect."""
        await self._starts.close()
        await self._reader.close()

    def report(self, error: BaseException) -> None:
        """Report an error that the emitter survives."""
        if self._collector is None:
            LOGGER.warning("%s", error)
        else:
            self._collector.report_error(error)

    # Batches

    async def first_start(self, attempt: TransactionAttempt, partition: PartitionId) -> int | None:
        """Return the start of a partition's first batch. None while its leader does not answer."""
        return await self._starts.start_of(partition, is_added=attempt.txid > 1)

    async def read_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: PartitionId, start: int, mark: LogMark | None
    ) -> OffsetRange:
        """Emit the records after an offset, up to the limits of a batch. mark: the mark of the offset.

        Raise OffsetLost if the offset does not exist, or the log is another one. Nothing is emitted then.
        """
        self._begin_batch(attempt, collector)
        reader, config = self._reader, self._config
        reader.begin(partition, start, mark)
        left, left_bytes = config.batch_records, config.batch_bytes
        while left > 0 and left_bytes > 0:
            try:
                records = await reader.take_records(partition, min(left, _CHUNK_RECORDS))
            except OffsetLost:
                if left == config.batch_records:
                    raise
                break  # the emitted records form a batch, and the next batch handles the gap
            if records:
                left -= len(records)
                left_bytes -= sum([one.serialized_key_size + one.serialized_value_size for one in records])
                await self._emit(records, collector)
                continue
            alone_secs = reader.alone_secs()
            wait_secs = self._wait_until - self._now()
            if not alone_secs and (wait_secs <= 0 or reader.has_records_of_others(partition)):
                break
            await reader.wait_for_records(min(alone_secs, _GAP_SECS) or wait_secs)
        return OffsetRange(start, reader.position(partition), config.batch_records - left)

    def mark_at(self, partition: PartitionId, offset: int) -> LogMark | None:
        """Return the mark of an offset that was read."""
        return self.link.logs.mark_at(partition, offset)

    def expect(self, planned: Mapping[PartitionId, Sequence[Any]]) -> None:
        """Begin to fetch the ranges of these metadata, which `read_again` emits one after another."""
        for partition, metadata in planned.items():
            wanted = range_of(metadata)
            if wanted is not None and wanted.start < wanted.end:
                self._reader.begin(partition, wanted.start, mark_of(metadata))

    async def read_again(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: PartitionId, metadata: Sequence[Any]
    ) -> None:
        """Emit the records of a range again. Raise FatalError if some are missing."""
        wanted, mark = OffsetRange(*metadata[: len(OffsetRange._fields)]), mark_of(metadata)
        self._begin_batch(attempt, collector)
        is_planned = wanted.records == UNKNOWN_RECORDS
        left = wanted.end - wanted.start if is_planned else wanted.records
        if left:
            self._reader.begin(partition, wanted.start, mark)
        give_up_at = self._now() + self._config.replay_timeout_ms / 1000
        while left:
            try:
                records = await self._reader.take_records(partition, min(left, _CHUNK_RECORDS))
            except OffsetLost as lost:
                self._reader.begin(partition, await self._first_existing(lost, wanted), mark)
                continue
            if not records:
                if self._reader.position(partition) >= wanted.end:
                    break
                if not await self._wait_for_rest(partition, wanted, give_up_at):
                    if is_planned:
                        await self._raise_short(partition, wanted)
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
        if is_planned:
            self._reader.end(partition)
        elif left:
            text = f"{partition}: of the {wanted.records:,} records of offsets {wanted.start} to {wanted.end}, {left:,} are gone"
            raise FatalError(f"{text}: transaction {attempt.txid} cannot be replayed unchanged", hint=_OPAQUE_HINT)

    def _begin_batch(self, attempt: TransactionAttempt, collector: BatchCollector) -> None:
        """Start the waiting time of an attempt. All its partitions share this time."""
        if attempt != self._attempt:
            self._attempt, self._wait_until = attempt, self._now() + self._config.batch_wait_ms / 1000
        self._collector = collector

    async def _emit(self, records: Sequence[Any], collector: BatchCollector) -> None:
        self._translator.emit_records(records, collector)
        await collector.ready()

    async def _wait_for_rest(self, partition: PartitionId, wanted: OffsetRange, give_up_at: float) -> bool:
        """Wait for more records of a range. Return False if the partition ends before the end of the range.

        Only the end at `give_up_at` counts, because a broker that has just restarted may report a lower end. Raise FailedBatch if no record
        arrives by that time, although the partition has not ended.
        """
        wait_secs = give_up_at - self._now()
        if wait_secs <= 0:
            end = self.link.empty_up_to(partition)
            if end is not None and end < wanted.end:  # this answer may be old, so ask the leader
                _, last = await self.bounds_of(partition)
                if last < wanted.end:
                    return False
            silent = self._config.replay_timeout_ms / 1000
            text = f"{partition}: no record of offsets {wanted.start} to {wanted.end} has come for {silent:g} s; the batch is replayed"
            raise FailedBatch(text, report=True)
        await self._reader.wait_for_records(min(wait_secs, _GAP_SECS))
        return True

    # Lost offsets

    async def bounds_of(self, partition: PartitionId) -> tuple[int, int]:
        """Return the first offset of the broker, and the offset after its last. Raise FailedBatch if it does not answer."""
        return (await self._ask_bounds({partition}, f"{partition}: its leader does not answer"))[partition]

    async def bounds_in_batch(self, attempt: TransactionAttempt, partition: PartitionId) -> PlanBounds:
        """Return the same, as of the beginning of an attempt. Three requests to each leader serve all partitions of a topic."""
        if attempt != self._bounds_attempt:
            self._bounds_attempt, self._bounds = attempt, {}
        if partition not in self._bounds:
            together = {partition, *self.link.partitions_of(partition.topic)}
            failure = f"{partition}: a leader of its topic does not answer"
            bounds = await self._ask_bounds(together, failure)
            try:
                async with asyncio.timeout(self._config.replay_timeout_ms / 1000):
                    marks = await self.link.logs.newest_marks({one: last for one, (_, last) in bounds.items()})
            except Exception as error:
                raise FailedBatch(failure, report=True) from error
            self._bounds |= {one: PlanBounds(*its, marks.get(one)) for one, its in bounds.items()}
        return self._bounds[partition]

    def has_lost_its_end(self, partition: PartitionId, start: int, last: int) -> bool:
        """Tell whether a partition has ended before the next batch for `replay_timeout_ms`, as a topic that was created again.

        One answer is not enough, because a broker that has just restarted may report a lower end. last: the reported end.
        """
        if last >= start:
            self._low_since.pop(partition, None)
            return False
        return self._now() - self._low_since.setdefault(partition, self._now()) >= self._config.replay_timeout_ms / 1000

    async def _ask_bounds(self, partitions: Collection[PartitionId], failure: str) -> dict[PartitionId, tuple[int, int]]:
        try:
            async with asyncio.timeout(self._config.replay_timeout_ms / 1000):
                first = await self.link.bounds(partitions, "earliest")
                last = await self.link.bounds(partitions, "latest")
        except Exception as error:
            raise FailedBatch(failure, report=True) from error
        return {partition: (first[partition], last[partition]) for partition in partitions}

    async def divergence_of(self, lost: OffsetLost) -> Divergence | None:
        """Return the log that the broker has, if it is another one. Raise FailedBatch if the leader does not answer."""
        if lost.mark is None:
            return None
        try:
            async with asyncio.timeout(self._config.replay_timeout_ms / 1000):
                found = await self.link.logs.divergences({lost.partition: (lost.offset, lost.mark)})
        except Exception as error:
            raise FailedBatch(f"{lost.partition}: its leader does not answer", report=True) from error
        return found.get(lost.partition)

    async def _first_existing(self, lost: OffsetLost, wanted: OffsetRange) -> int:
        """Return the first existing offset of a range whose beginning is deleted. The deleted offsets may have had no records.

        Only the number of records tells this, so it must be known.
        """
        first, last = await self.bounds_of(lost.partition)
        divergence = await self.divergence_of(lost)
        if divergence is None and lost.offset < first < wanted.end <= last and wanted.records != UNKNOWN_RECORDS:
            return first
        raise self.lost_error(lost, first, last, f"the replay of offsets {wanted.start} to {wanted.end}", divergence)

    async def _raise_short(self, partition: PartitionId, wanted: OffsetRange) -> NoReturn:
        """End the run, because a partition ends before the end of a planned range. The range existed when it was planned."""
        first, last = await self.bounds_of(partition)
        raise self.lost_error(OffsetLost(partition, last), first, last, f"the replay of offsets {wanted.start} to {wanted.end}")

    @staticmethod
    def lost_error(lost: OffsetLost, first: int, last: int, doing: str, divergence: Divergence | None = None) -> FatalError:
        """Return the error that ends the run, because records of a transaction do not exist."""
        if divergence is not None:
            return FatalError(f"{divergence.text(lost.partition, lost.offset)}: {doing} cannot continue", hint=_OTHER_TOPIC_HINT)
        why = "retention has deleted it" if lost.offset < first else "was the topic created again?"
        has = offsets_text(first, last)
        text = f"{lost.partition}: {doing} needs offset {lost.offset}, which does not exist: the broker has {has} ({why})"
        return FatalError(text, hint=_OPAQUE_HINT)
