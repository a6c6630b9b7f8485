"""The consumer of one emitter task: reads pieces of partitions, one partition at a time, and reads ahead of the next ones."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import errors

from engine.errors import FatalError
from engine.kafka.client.connect import connect
from engine.kafka.client.errors import KafkaTrouble, Report, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.source.undecodable import undecodable_error
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig

_ALONE_SECS: Final = 3.0
"""How long a fetch of one partition alone is waited for, beside `fetch_max_wait_ms` for the fetch before it and for itself."""
_MOST_TRIES: Final = 5
"""Of a record whose checksum is wrong: it may have been damaged on its way."""


class OffsetLost(Exception):
    """The broker does not have the offset that was to be read next."""

    def __init__(self, partition: PartitionId, offset: int) -> None:
        super().__init__(f"{partition}: offset {offset} is not there")
        self.partition = partition
        self.offset = offset


class PartitionReader:
    """A partition is begun where it was not read before, or stands elsewhere; else its records come from the buffer."""

    def __init__(self, config: KafkaBatchSpoutConfig, client_id: str, report: Report) -> None:
        self._config, self._client_id, self._report = config, client_id, report
        self._assigned: set[PartitionId] = set()
        self._begun: set[PartitionId] = set()
        self._tries: dict[PartitionId, int] = {}
        self._alone: PartitionId | None = None
        """The partition that is fetched while no other is."""
        self._alone_until = 0.0
        self._now = asyncio.get_running_loop().time

    async def open(self) -> None:
        """Connect, however long that takes."""
        make = lambda: PartitionLink(self._config, self._client_id)  # noqa: E731 - a short one
        self.link = await connect(make, self._config, self._report)
        try:
            self._assign(await self.link.find_partitions())
        except errors.KafkaError as error:  # each is found when it is begun
            self._report(KafkaTrouble(f"looking for topics failed: {describe_error(error)}"))
        except BaseException:
            await self.link.stop()
            raise

    async def close(self) -> None:
        """Disconnect."""
        await self.link.stop()

    def begin(self, partition: PartitionId, offset: int) -> None:
        """Have the next records be those from this offset on."""
        if self._alone not in (None, partition):
            self.link.note_position(self._alone)  # its leader is silent: only another answer is a reason to wait for it again
            self._fetch_all()
        if partition not in self._assigned:
            self._assign([partition])
        if partition not in self._begun or self.link.position(partition) != offset:
            self._begun.add(partition)
            self.link.begin(partition, offset)

    def _assign(self, more: Sequence[PartitionId]) -> None:
        """Have all partitions of the topics, so that few assignments change; what is not read is paused."""
        for topic in {one.topic for one in more}:
            self._assigned.update(self.link.partitions_of(topic))
        self._assigned.update(more)
        if self._assigned:
            self.link.assign(sorted(self._assigned), self._begun)

    def position(self, partition: PartitionId) -> int:
        """Return where the next records will stand."""
        position = self.link.position(partition)
        assert position is not None  # it is begun
        return position

    async def take(self, partition: PartitionId, most_records: int) -> Sequence[Any]:
        """Return what has come, without waiting; raises OffsetLost, or FatalError for what no other try would read.

        What passes by itself is reported, and nothing has come.
        """
        position = self.position(partition)
        try:
            records = await self.link.take(partition, most_records)
        except errors.OffsetOutOfRangeError as error:
            raise OffsetLost(partition, position) from error
        except Exception as error:  # noqa: BLE001 - reported or raised
            place = self.link.undecodable()
            self.link.begin(partition, position)  # what was taken of the poll is gone
            self._bear(error, partition, place)
            return ()
        if records:
            self._tries.pop(partition, None)
            self._fetch_all()
        else:
            self._pass_gap(partition)
        return records

    def _pass_gap(self, partition: PartitionId) -> None:
        """Where nothing stands before the end, the position is the end: compaction may have taken the last records.

        An answer without records of this partition may also have been full: then it is fetched alone.
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
        """Return for how long the answer to a fetch of one partition alone is still to be waited for; 0 without one."""
        return 0.0 if self._alone is None else max(0.0, self._alone_until - self._now())

    def _fetch_all(self) -> None:
        if self._alone is not None:
            self._alone = None
            self.link.fetch_all(self._begun)

    def _bear(self, error: Exception, partition: PartitionId, place: tuple[PartitionId, int] | None) -> None:
        if isinstance(error, FatalError):
            raise error
        if place is not None:
            tries = self._tries[partition] = self._tries.get(partition, 0) + 1
            if not isinstance(error, errors.CorruptRecordException) or tries > _MOST_TRIES:
                raise undecodable_error(place, error, None) from error
        elif not is_transient(error):
            raise fatal_error(error, f"reading {partition}") from error
        self._report(KafkaTrouble(f"reading {partition} failed: {describe_error(error)}", hint="It is tried again."))

    async def wait(self, timeout_secs: float) -> None:
        """Wait until records come, of any partition."""
        await self.link.wait(timeout_secs)

    def has_records_of_others(self, partition: PartitionId) -> bool:
        """Tell whether records of another partition have come already."""
        return self.link.has_records_of_others(partition)
