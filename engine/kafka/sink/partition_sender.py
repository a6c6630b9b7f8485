"""Sends records to one partition. One batch is in flight while the next batch fills."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from aiokafka import errors
from aiokafka.producer.message_accumulator import BatchBuilder

from engine.kafka.client.errors import concerns_producer, describe_error, fatal_error, send_error_kind
from engine.kafka.client.producer_link import ProducerLink
from engine.kafka.sink.records import OutgoingRecord, SinkTopic

MOST_TRIES: Final = 3
"""Attempts for one batch if only the producer is broken. After the last attempt the tuples of the batch fail."""
BATCH_OVERHEAD_BYTES: Final = 61
NO_LIMIT: Final = 2**62


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """Settings that all senders of a sink share."""

    now: Callable[[], float]
    """The run's clock."""
    linger_secs: float
    delivery_secs: float
    most_record_bytes: int


class RecordOutcomes(Protocol):
    """Handles the outcomes of records. The sink, the committer and the dead-letter writer implement it."""

    def note_written(self, records: list[OutgoingRecord]) -> None:
        """Handle records that the broker has acknowledged."""

    def note_failed(self, records: list[OutgoingRecord], error: Exception) -> None:
        """Handle records that were not written, or whose outcome is unknown."""

    async def note_refused(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> None:
        """Handle a record that no broker will accept."""

    def release_room(self, records: int, byte_count: int) -> None:
        """Remove these records and bytes from the count in flight."""


class RecordBatch:
    """Records that are sent together."""

    __slots__ = ("builder", "byte_count", "made_at", "records")

    def __init__(self, builder: BatchBuilder, made_at: float) -> None:
        self.builder = builder
        self.records: list[OutgoingRecord] = []
        self.byte_count = 0
        self.made_at = made_at

    def add_record(self, record: OutgoingRecord) -> int:
        """Add a record and return its size in bytes. Return 0 if it does not fit. The first record always fits."""
        placed = self.builder.append(timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=record.headers)
        if placed is None:
            return 0
        byte_count: int = placed.size
        self.records.append(record)
        self.byte_count += byte_count
        return byte_count


class PartitionSender:
    """Sender of one partition.

    The sender has one batch in flight at a time. So records keep their order, and a refused batch leaves no gap in the sequence numbers.
    """

    def __init__(self, topic: SinkTopic, partition: int, owner: RecordOutcomes, link: ProducerLink, settings: SenderSettings) -> None:
        self.topic: Final = topic.name
        self.partition: Final = partition
        self._topic = topic
        self.aio_task: asyncio.Task[None] | None = None
        """Runs `send_all` while batches wait."""
        self._owner = owner
        self._link = link
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._filling: RecordBatch | None = None
        self._full: deque[RecordBatch] = deque()
        self._sending: RecordBatch | None = None
        self._settled = 0
        """Number of records that have an outcome. These are the first records of the batch."""
        self._filled: asyncio.Future[None] | None = None
        self._most_batch_bytes = NO_LIMIT
        """Limit of a batch.

        The limit shrinks when the broker refuses a batch as too large, because the topic's `max.message.bytes` is unknown here.
        """

    def add_record(self, record: OutgoingRecord) -> int:
        """Add a record to the current batch, and return its bytes."""
        batch = self._filling or self._begin()
        byte_count = batch.add_record(record)
        if not byte_count:
            self._close()
            batch = self._begin()
            byte_count = batch.add_record(record)
        if batch.byte_count >= self._most_batch_bytes:
            self._close()
        return byte_count

    def records(self) -> Iterator[OutgoingRecord]:
        """Yield the records without an outcome, oldest first."""
        if self._sending is not None:
            yield from self._sending.records[self._settled :]
        for batch in (*self._full, self._filling):
            if batch is not None:
                yield from batch.records

    def waits_since(self) -> float | None:
        """Return the start time of the batch in flight, by the run's clock. None if no batch is in flight."""
        return None if self._sending is None else self._sending.made_at

    def remove_records(self) -> list[OutgoingRecord]:
        """Remove and return the records without an outcome."""
        left = list(self.records())
        self._sending = self._filling = None
        self._full.clear()
        return left

    def _begin(self) -> RecordBatch:
        self._filling = RecordBatch(self._link.new_batch(), self._settings.now())
        return self._filling

    def _close(self) -> None:
        """Close the current batch, because it is full."""
        if self._filling is not None:
            self._full.append(self._filling)
            self._filling = None
            self._topic.note_batch_closed(self.partition)
        if self._filled is not None and not self._filled.done():
            self._filled.set_result(None)

    # Sending

    async def send_all(self) -> None:
        """Send until no batch is left. Raise FatalError if no record can be written."""
        while (batch := await self._next()) is not None:
            self._sending, self._settled = batch, 0
            await self._deliver(batch)
            self._sending = None
            self._owner.release_room(len(batch.records), batch.byte_count)
        self.aio_task = None  # set before any await, so that the next record starts a new task

    async def _next(self) -> RecordBatch | None:
        if not self._full and self._filling is not None and self._settings.linger_secs:
            await self._linger(self._filling)
        if self._full:
            return self._full.popleft()
        batch, self._filling = self._filling, None
        self._topic.note_batch_closed(self.partition)
        return batch

    async def _linger(self, batch: RecordBatch) -> None:
        left = batch.made_at + self._settings.linger_secs - self._settings.now()
        if left > 0:
            self._filled = self._loop.create_future()
            await asyncio.wait((self._filled,), timeout=left)
            self._filled = None

    async def _deliver(self, batch: RecordBatch) -> None:
        """Send a batch. If the broker refuses it, send it in parts."""
        error = await self._try(batch)
        if error is None:
            self._settled += len(batch.records)
            self._owner.note_written(batch.records)
        elif self._is_refused(error, batch):
            await self._sort_out(batch, error)
        elif send_error_kind(error) == "fatal":
            raise fatal_error(error, f"writing topic {self.topic!r}") from error
        else:
            self._settled += len(batch.records)
            self._owner.note_failed(batch.records, error)

    async def _try(self, batch: RecordBatch) -> Exception | None:
        """Send a batch with retries. Return the last error, or None after success."""
        if len(batch.records) == 1 and batch.byte_count + BATCH_OVERHEAD_BYTES > self._settings.most_record_bytes:
            most = self._settings.most_record_bytes
            too_large: Exception = errors.MessageSizeTooLargeError(
                f"the record takes {batch.byte_count} bytes, more than max_record_bytes={most}"
            )
            return too_large
        error: Exception | None = None
        for attempt in range(MOST_TRIES):
            builder = batch.builder if attempt == 0 else self._batch_of(batch.records).builder
            try:
                await self._link.send_batch(builder, self.topic, self.partition, self._settings.delivery_secs)
                return None
            except errors.KafkaError as raised:
                error = raised
            if not concerns_producer(error):
                break
        return error

    @staticmethod
    def _is_refused(error: Exception, batch: RecordBatch) -> bool:
        """Return True if the records were refused.

        A compacted topic answers a record without a key with an error code that aiokafka does not know.
        """
        if send_error_kind(error) == "refused":
            return True
        return type(error) is errors.UnknownError and any(record.key is None for record in batch.records)

    async def _sort_out(self, batch: RecordBatch, error: Exception) -> None:
        """Find the refused records by halving the batch, and write all other records."""
        records = batch.records
        if len(records) == 1:
            if type(error) is errors.UnknownError:
                text = "the broker refused a record without a key, probably because the topic is compacted. The broker's log has the reason"
                error = errors.UnknownError(f"{text} ({describe_error(error)})")
            await self._owner.note_refused(records[0], self.topic, self.partition, error)
            self._settled += 1
            return
        if isinstance(error, (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)):
            self._most_batch_bytes = max(min(self._most_batch_bytes, batch.byte_count) // 2, 1)
        middle = len(records) // 2
        await self._deliver(self._batch_of(records[:middle]))
        await self._deliver(self._batch_of(records[middle:]))

    def _batch_of(self, records: list[OutgoingRecord]) -> RecordBatch:
        batch = RecordBatch(self._link.new_batch(), self._settings.now())
        for record in records:
            batch.add_record(record)
        return batch
