"""Consumer of one emitter task. The consumer reads one partition at a time, and fetches the other partitions ahead."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import errors

from engine.errors import FatalError
from engine.kafka.client.connect import connect
from engine.kafka.client.errors import KafkaWarning, Report, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import BrokenRecord, LogMark, PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.source.undecodable import undecodable_error
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig

_ALONE_SECS: Final = 3.0
"""Time to wait for a fetch of one partition only, plus `fetch_max_wait_ms` of this fetch and of the previous fetch."""
_MOST_TRIES: Final = 5
"""Number of repeated fetches after a wrong checksum, because the record may have been damaged in transit."""


class OffsetLost(Exception):
    """The broker does not have the next offset to read, or has another log. mark: the mark of the offset."""

    def __init__(self, partition: PartitionId, offset: int, mark: LogMark | None = None) -> None:
        super().__init__(f"{partition}: offset {offset} does not exist")
        self.partition = partition
        self.offset = offset
        self.mark = mark


class PartitionReader:
    """Reads partitions through a `PartitionLink`. Consecutive batches come from its buffer, without a seek."""

    def __init__(self, config: KafkaBatchSpoutConfig, client_id: str, report: Report) -> None:
        self._config, self._client_id, self._report = config, client_id, report
        self._assigned: set[PartitionId] = set()
        self._begun: set[PartitionId] = set()
        self._tries: dict[PartitionId, int] = {}
        self._alone: PartitionId | None = None
        """Partition that is fetched alone."""
        self._alone_until = 0.0
        self._now = asyncio.get_running_loop().time

    async def open(self) -> None:
        """Connect, with retries until it succeeds."""
        make = lambda: PartitionLink(self._config, self._client_id)  # noqa: E731 - a short one
        self.link = await connect(make, self._config, self._report)
        try:
            self._assign(await self.link.find_partitions())
        except errors.KafkaError as error:  # `begin` looks for each topic again
            self._report(KafkaWarning(f"looking for topics failed: {describe_error(error)}"))
        except BaseException:
            await self.link.stop()
            raise

    async def close(self) -> None:
        """Disconnect."""
        await self.link.stop()

    def begin(self, partition: PartitionId, offset: int, mark: LogMark | None) -> None:
        """Read a partition from this offset. mark: the mark of the offset, None if nothing is known."""
        if self._alone not in (None, partition):
            self.link.note_position(self._alone)  # its leader did not answer, so do not wait for this leader again before it answers
            self._fetch_all()
        if partition not in self._assigned:
            self._assign([partition])
        if partition not in self._begun or self.link.position(partition) != offset:
            self._begun.add(partition)
            self.link.logs.begin(partition, offset, mark)
            self.link.begin(partition, offset)

    def end(self, partition: PartitionId) -> None:
        """Fetch no more records of a partition. A fetch at its end would delay the records of others by `fetch_max_wait_ms`."""
        if partition in self._begun:
            self._fetch_all()
            self._begun.discard(partition)
            self.link.pause([partition])

    def _assign(self, more: Sequence[PartitionId]) -> None:
        """Assign all partitions of the topics, because then the assignment rarely changes. Pause partitions that were not begun."""
        for topic in {one.topic for one in more}:
            self._assigned.update(self.link.partitions_of(topic))
        self._assigned.update(more)
        if self._assigned:
            self.link.assign(sorted(self._assigned), self._begun)

    def position(self, partition: PartitionId) -> int:
        """Return the offset of the next record."""
        position = self.link.position(partition)
        assert position is not None  # `begin` was called before
        return position

    async def take_records(self, partition: PartitionId, most_records: int) -> Sequence[Any]:
        """Return fetched records, without waiting. Raise OffsetLost, or FatalError for a permanent error.

        A transient error is reported, and returns no records.
        """
        position = self.position(partition)
        try:
            records = await self.link.take_records(partition, most_records)
        except errors.OffsetOutOfRangeError as error:
            raise OffsetLost(partition, position, self.link.logs.mark_at(partition, position)) from error
        except Exception as error:  # noqa: BLE001 - reported or raised
            place = self.link.undecodable()
            self.link.begin(partition, position)  # the failed poll dropped records
            self._retry_or_raise(error, partition, place)
            return ()
        if records:
            self._tries.pop(partition, None)
            self._fetch_all()
        else:
            self._pass_gap(partition)
        return records

    def _pass_gap(self, partition: PartitionId) -> None:
        """Move to the partition's end if no record is left before the end. Compaction may have deleted the last records.

        An answer to a fetch of several partitions may have had no room for this partition. In this case fetch only this partition.
        """
        end, position = self.link.empty_up_to(partition), self.position(partition)
        if end is None:
            return
        sure_end = self.link.surely_empty_up_to(partition)
        if end <= position:
            self._fetch_all()
        elif sure_end is not None and sure_end > position:
            self.link.begin(partition, sure_end)
            self._fetch_all()
        elif self._alone is None:
            wait_secs = _ALONE_SECS + 2 * self._config.fetch_max_wait_ms / 1000
            self._alone, self._alone_until = partition, self._now() + wait_secs
            self.link.fetch_alone(partition, self._begun)

    def alone_secs(self) -> float:
        """Return the remaining time for a fetch of one partition only. Return 0 if there is no such fetch."""
        return 0.0 if self._alone is None else max(0.0, self._alone_until - self._now())

    def _fetch_all(self) -> None:
        if self._alone is not None:
            self._alone = None
            self.link.fetch_all(self._begun)

    def _retry_or_raise(self, error: Exception, partition: PartitionId, place: BrokenRecord | None) -> None:
        if isinstance(error, FatalError):
            raise error
        if place is not None:
            tries = self._tries[partition] = self._tries.get(partition, 0) + 1
            if not isinstance(error, errors.CorruptRecordException) or tries > _MOST_TRIES:
                raise undecodable_error(place, error, None) from error
        elif not is_transient(error):
            raise fatal_error(error, f"reading {partition}") from error
        self._report(KafkaWarning(f"reading {partition} failed: {describe_error(error)}", hint="It will be retried."))

    async def wait_for_records(self, timeout_secs: float) -> None:
        """Wait for records of any partition."""
        await self.link.wait_for_records(timeout_secs)

    def has_records_of_others(self, partition: PartitionId) -> bool:
        """Return True if another partition has fetched records."""
        return self.link.has_records_of_others(partition)
