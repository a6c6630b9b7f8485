"""`PartitionLink` is a `ConsumerLink` that reads one partition at a time, for the batches of transactions."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import FetchResult

from engine.kafka.client.consumer_link import ConsumerLink, ConsumerSettings
from engine.kafka.client.partition import PartitionId


class PartitionLink(ConsumerLink):
    """Reads manually assigned partitions. Each partition is paused until `begin`."""

    def __init__(self, config: ConsumerSettings, client_id: str) -> None:
        super().__init__(config, client_id, None, _nothing, lambda partitions, membership: None)
        self._settings = config
        self._lone: dict[PartitionId, tuple[int, int]] = {}
        """Position and end of each partition. Both come from the newest empty answer to a fetch of this partition only."""

    async def start(self) -> None:
        await super().start()
        self._fetch = self._consumer._fetcher._proc_fetch_request
        self._consumer._fetcher._proc_fetch_request = self._fetch_and_note

    # Topics

    def leader_of(self, partition: PartitionId) -> int | None:
        """Return the leader of a partition, None if unknown."""
        found: int | None = self._consumer._client.cluster.leader_for_partition(TopicPartition(*partition))
        return None if found == -1 else found

    # Partitions

    def assign(self, partitions: Collection[PartitionId], begun: Collection[PartitionId]) -> None:
        """Assign these partitions at their current positions. Pause the partitions that are not in `begun`."""
        positions = {one: self.position(one) for one in begun}
        self.take_over(partitions)
        for one in partitions:
            self.seek(one, positions.get(one) or 0)  # without a position, aiokafka would look up a position and raise
        self.pause([one for one in partitions if one not in begun])

    def begin(self, partition: PartitionId, offset: int) -> None:
        """Read a partition from this offset, and fetch ahead in the background."""
        self.seek(partition, offset)
        self.resume([partition])
        self.note_position(partition)

    # Records

    async def take_records(self, partition: PartitionId, most_records: int) -> Sequence[Any]:
        """Return fetched records of a partition, without waiting. If this method raises, the position may have moved."""
        self._look_at_tasks()
        before = self.position(partition)
        at = TopicPartition(*partition)
        found: Mapping[TopicPartition, Sequence[Any]] = await self._consumer.getmany(at, max_records=most_records)
        if self.position(partition) != before:
            self.note_position(partition)
        return found.get(at, ())

    async def wait_for_records(self, timeout_secs: float) -> None:
        """Wait for new records of any partition, up to `timeout_secs`. Records that were fetched before do not end the wait."""
        waiter = self._consumer._fetcher._create_fetch_waiter()
        await asyncio.wait((waiter,), timeout=timeout_secs)
        waiter.cancel()

    def has_records_of_others(self, partition: PartitionId) -> bool:
        """Return True if another partition has fetched records that were not taken."""
        return any(at != partition and type(one) is FetchResult for at, one in self._consumer._fetcher._records.items())

    async def _fetch_and_note(self, assignment: Any, node_id: int, request: Any) -> Any:
        """Send a fetch like aiokafka. Record an empty answer to a fetch of a single partition."""
        asked = [(PartitionId(topic, number), offset) for topic, partitions in request.topics for number, offset, _ in partitions]
        if len(asked) > 1:
            return await self._fetch(assignment, node_id, request)
        [(partition, offset)] = asked
        at, fetcher = TopicPartition(*partition), self._consumer._fetcher
        state = assignment.state_value(at)
        answered_at, replica = state.timestamp, fetcher._preferred_read_replica.get(at)
        found = await self._fetch(assignment, node_id, request)
        # With client_rack, a leader may name a replica to read from. Then its answer never contains records.
        is_referred = fetcher._preferred_read_replica.get(at) not in (None, replica)
        end = self._end_in(state)
        if state.timestamp not in (None, answered_at) and not is_referred and end is not None and at not in fetcher._records:
            self._lone[partition] = (offset, end)
        return found

    # Ends of partitions

    def note_position(self, partition: PartitionId) -> None:
        """Forget earlier answers, so that `empty_up_to` uses only fetches from the current position."""
        self._state(partition).timestamp = None
        self._lone.pop(partition, None)

    def fetch_alone(self, partition: PartitionId, begun: Collection[PartitionId]) -> None:
        """Fetch only this partition until `fetch_all`."""
        self.pause([one for one in begun if one != partition])
        self._lone.pop(partition, None)

    def fetch_all(self, begun: Collection[PartitionId]) -> None:
        """Fetch all partitions in `begun` again. Records that were fetched before are kept."""
        self._consumer.resume(*(TopicPartition(*one) for one in begun if self.is_assigned(one)))

    def surely_empty_up_to(self, partition: PartitionId) -> int | None:
        """Return the partition's end if a fetch of this partition only was empty, else None.

        Answers to fetches of several partitions do not count. The size of an answer is limited, so it may leave out records of this
        partition.
        """
        position, end = self._lone.get(partition, (None, None))
        return end if position == self.position(partition) else None

    def empty_up_to(self, partition: PartitionId) -> int | None:
        """Return the partition's end if a fetch from the current position returned no records, else None."""
        state = self._state(partition)
        if state.timestamp is None or TopicPartition(*partition) in self._consumer._fetcher._records:
            return None
        return self._end_in(state)

    def _end_in(self, state: Any) -> int | None:
        end: int | None = state.lso if self._settings.isolation_level == "read_committed" else state.highwater
        return end

    def _state(self, partition: PartitionId) -> Any:
        return self._consumer._subscription.subscription.assignment.state_value(TopicPartition(*partition))


async def _nothing() -> None:
    """Do nothing, because a manual assignment has no rebalances."""
