"""`PartitionLink`: a `ConsumerLink` of partitions that are read one by one, and what of aiokafka's consumer is not public for that."""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import TopicPartition, errors
from aiokafka.consumer.fetcher import FetchResult

from engine.kafka.client.consumer_link import ConsumerLink, ConsumerSettings
from engine.kafka.client.partition import PartitionId


class PartitionLink(ConsumerLink):
    """Has partitions by assignment. All of them are paused until they are begun."""

    def __init__(self, config: ConsumerSettings, client_id: str) -> None:
        super().__init__(config, client_id, None, _nothing, lambda partitions, membership: None)
        self._settings = config
        self._lone: dict[PartitionId, tuple[int, int]] = {}
        """Newest empty answer to a fetch of a partition alone: its position, and the end of the partition in the same answer."""

    async def start(self) -> None:
        await super().start()
        self._fetch = self._consumer._fetcher._proc_fetch_request
        self._consumer._fetcher._proc_fetch_request = self._fetch_and_note

    # Topics

    async def find_partitions(self) -> Sequence[PartitionId]:
        """Ask the brokers; return the partitions of the topics of the settings, as far as they are known."""
        topics: Collection[str] = self._settings.topics
        if self._settings.pattern is not None:
            like = re.compile(self._settings.pattern)
            topics = [topic for topic in await self._all_topics() if like.match(topic)]
        await self.look_for(topics)
        return [one for topic in sorted(topics) for one in self.partitions_of(topic)]

    async def _all_topics(self) -> Collection[str]:
        try:
            found: Collection[str] = await self._consumer.topics()
        except errors.KafkaError as error:
            if type(error) is not errors.KafkaError:
                raise
            raise errors.BrokerNotAvailableError(str(error)) from error  # aiokafka has no name for it: no broker answered
        return found

    def leader_of(self, partition: PartitionId) -> int | None:
        """Return the broker that leads a partition; None where none is known to."""
        found: int | None = self._consumer._client.cluster.leader_for_partition(TopicPartition(*partition))
        return None if found == -1 else found

    # Partitions

    def assign(self, partitions: Collection[PartitionId], begun: Collection[PartitionId]) -> None:
        """Have these, each where it was; those that are not begun are paused."""
        positions = {one: self.position(one) for one in begun}
        self.take_over(partitions)
        for one in partitions:
            self.seek(one, positions.get(one) or 0)  # a partition without a position is asked for, and told as an error
        self.pause([one for one in partitions if one not in begun])

    def begin(self, partition: PartitionId, offset: int) -> None:
        """Read a partition from here on, in the background as well."""
        self.seek(partition, offset)
        self.resume([partition])
        self.note_position(partition)

    # Records

    async def take(self, partition: PartitionId, most_records: int) -> Sequence[Any]:
        """Return what has come of a partition, without waiting. Where it raises, the position may have moved."""
        self._look_at_tasks()
        before = self.position(partition)
        at = TopicPartition(*partition)
        found: Mapping[TopicPartition, Sequence[Any]] = await self._consumer.getmany(at, max_records=most_records)
        if self.position(partition) != before:
            self.note_position(partition)
        return found.get(at, ())

    async def wait(self, timeout_secs: float) -> None:
        """Wait until records come, of any partition; for a while at most. What is there already is not waited for."""
        waiter = self._consumer._fetcher._create_fetch_waiter()
        await asyncio.wait((waiter,), timeout=timeout_secs)
        waiter.cancel()

    def has_records_of_others(self, partition: PartitionId) -> bool:
        """Tell whether records have come, and were not taken, of another partition."""
        return any(at != partition and type(one) is FetchResult for at, one in self._consumer._fetcher._records.items())

    async def _fetch_and_note(self, assignment: Any, node_id: int, request: Any) -> Any:
        """Send a fetch, as aiokafka does; note an empty answer to one that asked for a single partition."""
        asked = [(PartitionId(topic, number), offset) for topic, partitions in request.topics for number, offset, _ in partitions]
        if len(asked) > 1:
            return await self._fetch(assignment, node_id, request)
        [(partition, offset)] = asked
        at, fetcher = TopicPartition(*partition), self._consumer._fetcher
        state = assignment.state_value(at)
        answered_at, replica = state.timestamp, fetcher._preferred_read_replica.get(at)
        found = await self._fetch(assignment, node_id, request)
        # A leader that names a replica to read from (client_rack) sends no records, whatever it has.
        is_referred = fetcher._preferred_read_replica.get(at) not in (None, replica)
        end = self._end_in(state)
        if state.timestamp not in (None, answered_at) and not is_referred and end is not None and at not in fetcher._records:
            self._lone[partition] = (offset, end)
        return found

    # Where a partition ends

    def note_position(self, partition: PartitionId) -> None:
        """From now on, `empty_up_to` knows only of answers to fetches from the position."""
        self._state(partition).timestamp = None
        self._lone.pop(partition, None)

    def fetch_alone(self, partition: PartitionId, begun: Collection[PartitionId]) -> None:
        """Have the next fetches ask for nothing else, until `fetch_all`."""
        self.pause([one for one in begun if one != partition])
        self._lone.pop(partition, None)

    def fetch_all(self, begun: Collection[PartitionId]) -> None:
        """Have the fetches ask for all of these again. What was fetched of them is kept."""
        self._consumer.resume(*(TopicPartition(*one) for one in begun if self.is_assigned(one)))

    def surely_empty_up_to(self, partition: PartitionId) -> int | None:
        """Return the end that a broker gave with an empty answer from the position to a fetch of this partition alone; else None.

        The end of a later answer does not count: an answer to a fetch of several has a limit, and may have had no room for the partition.
        """
        position, end = self._lone.get(partition, (None, None))
        return end if position == self.position(partition) else None

    def empty_up_to(self, partition: PartitionId) -> int | None:
        """Return where a partition ends, where a broker has answered a fetch from the position with no records; else None."""
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
    """There are no rebalances."""
