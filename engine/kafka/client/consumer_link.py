"""`ConsumerLink` is the consumer of a spout task. The link uses aiokafka's consumer, including private parts of aiokafka."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.structs import OffsetAndMetadata

from engine.backoff import Backoff
from engine.kafka.client.advertised_brokers import AdvertisedClient
from engine.kafka.client.compiled_fetch import broken_offset, offset_after_broken, read_in_compiled_code
from engine.kafka.client.connection import BrokerAccess
from engine.kafka.client.log_continuity import CheckedClient, LogContinuity
from engine.kafka.client.log_ends import LogEnds
from engine.kafka.client.partition import BrokenRecord, Committable, CommittedOffset, Membership, PartitionId
from engine.kafka.client.stable_offsets import StableOffsetFetch, read_stable_offsets, send_to_coordinator
from engine.kafka.client.topic_lookup import matching_topics, prepare_client

COMMIT_TIMEOUT_SECS: Final = 10.0
"""Timeout of one commit. After a timeout the next commit includes the offsets."""

_STOP_TIMEOUT_SECS: Final = 3.0
_ABANDON_SECS: Final = 1.0
_COMMIT_BACKOFF: Final = Backoff(0.1, 1.0)  # aiokafka logs each attempt of a commit, so short pauses would fill the log
_ASSIGNORS: Final[Mapping[str, type[Any]]] = {
    "sticky": StickyPartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "range": RangePartitionAssignor,
}

Batches = Mapping[PartitionId, Sequence[Any]]
OnRevoked = Callable[[], Coroutine[Any, Any, None]]
OnAssigned = Callable[[Collection[PartitionId], Membership | None], None]


class ConsumerSettings(BrokerAccess, Protocol):
    """Settings of a spout that its consumer needs."""

    @property
    def topics(self) -> str | Sequence[str]: ...
    @property
    def pattern(self) -> str | None: ...
    @property
    def topic_timeout_secs(self) -> float: ...
    @property
    def group(self) -> str | None: ...
    @property
    def membership(self) -> Literal["group", "assign"]: ...
    @property
    def assignor(self) -> str: ...
    @property
    def isolation_level(self) -> str: ...
    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def rebalance_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def fetch_min_bytes(self) -> int: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def fetch_max_wait_ms(self) -> int: ...
    @property
    def max_partition_fetch_bytes(self) -> int: ...


class ConsumerLink:
    """One consumer, with group membership or with manually assigned partitions. Raises aiokafka's errors (see `errors`).

    `on_revoked` is awaited before the client rejoins its group. `on_assigned` is called at once with the partitions and the membership.
    """

    def __init__(
        self, config: ConsumerSettings, client_id: str, instance_id: str | None, on_revoked: OnRevoked, on_assigned: OnAssigned
    ) -> None:
        self._config = config
        self._assignor: Any = type("OwnAssignor", (_ASSIGNORS[config.assignor],), {})  # aiokafka stores the sticky assignment in the class
        self._on_revoked, self._on_assigned = on_revoked, on_assigned
        self._answered_at = 0.0
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=",".join(config.brokers),
            client_id=client_id,
            group_id=config.group,
            group_instance_id=instance_id,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=config.isolation_level,
            partition_assignment_strategy=(self._assignor,),
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            request_timeout_ms=config.request_timeout_ms,
            fetch_min_bytes=config.fetch_min_bytes,
            fetch_max_bytes=config.fetch_max_bytes,
            fetch_max_wait_ms=config.fetch_max_wait_ms,
            max_partition_fetch_bytes=config.max_partition_fetch_bytes,
            **config.security.client_options(),
            **config.client,
        )
        prepare_client(self._consumer._client)
        self.logs = LogContinuity(self._consumer._client, self.position)
        self.ends = LogEnds(self.position, config.fetch_max_wait_ms / 1000, read_committed=config.isolation_level == "read_committed")

    # Start and stop

    async def start(self) -> None:
        """Connect. Nothing is read before `subscribe` or `take_over`."""
        await self._consumer.start()
        self._consumer._fetcher._client = CheckedClient(self._consumer._fetcher._client, self.logs, self.ends)
        read_in_compiled_code(self._consumer, self.logs.topic_id_of)
        if self._config.group is not None:
            coordinator = self._consumer._coordinator
            coordinator._send_req = partial(send_to_coordinator, coordinator, coordinator._send_req)

    async def stop(self) -> bool:
        """Leave the group and disconnect. Return False if a broker did not answer in time."""
        stopping = asyncio.ensure_future(self._consumer.stop())
        await asyncio.wait([stopping], timeout=_STOP_TIMEOUT_SECS)
        if not stopping.done():
            stopping.cancel()
            await asyncio.wait([stopping])
            await self._abandon()
            return False
        if stopping.cancelled():  # a fetch that pauses after an error cancels stop(), but the consumer has left the group
            await self._abandon()
            return True
        if stopping.exception() is not None:  # a task had failed before, so the connections are still open
            await self._abandon()
            raise stopping.exception()
        return True

    async def _abandon(self) -> None:
        """Cancel the tasks and close the connections that an interrupted stop left open."""
        consumer = self._consumer
        names = ("_coordination_task", "_heartbeat_task", "_commit_refresh_task", "_reset_committed_task", "_fetch_task")
        tasks = [getattr(part, name, None) for part in (consumer._coordinator, consumer._fetcher) for name in names]
        tasks += [consumer._client._sync_task, *getattr(consumer._fetcher, "_pending_tasks", ())]
        ending = [task for task in tasks if task is not None]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=_ABANDON_SECS)
        for connection in consumer._client._conns.values():
            if connection._writer is not None:
                connection._writer.transport.abort()  # close() would still write data that nobody reads
            connection.close()

    def answered_at(self) -> float:
        """Return the time of the last answer of a broker, by the client's own clock."""
        self._answered_at = max([self._answered_at, *(one._last_action for one in self._consumer._client._conns.values())])
        return self._answered_at

    @property
    def client(self) -> AdvertisedClient:
        """The client of the consumer, which knows the addresses of the brokers."""
        found: AdvertisedClient = self._consumer._client
        return found

    def subscribe(self) -> None:
        """Join the group for the topics or the pattern."""
        listener = _Listener(self)
        if self._config.pattern is not None:
            self._consumer.subscribe(pattern=self._config.pattern, listener=listener)
        else:
            self._consumer.subscribe(topics=list(self._config.topics), listener=listener)

    def take_over(self, partitions: Collection[PartitionId]) -> None:
        """Read these partitions instead of an assignment by the group."""
        self._consumer.assign([TopicPartition(*partition) for partition in partitions])
        self._on_assigned(partitions, None)

    # Topics

    async def look_for(self, topics: Collection[str]) -> bool:
        """Ask the brokers for these topics. Return False if no broker answered."""
        client = self._consumer._client
        if topics:
            client.set_topics(client._topics | set(topics))  # the group leader also needs the topics of other members
        found: bool = await client.force_metadata_update()  # set_topics does not ask again for known topics
        return found

    def partitions_of(self, topic: str) -> Sequence[PartitionId]:
        """Return the known partitions of a topic. Return an empty list if the topic does not exist."""
        return [PartitionId(topic, number) for number in sorted(self._consumer.partitions_for_topic(topic) or ())]

    async def find_partitions(self) -> Sequence[PartitionId]:
        """Ask the brokers, and return the known partitions of the topics of the settings."""
        topics: Collection[str] = self._config.topics
        if self._config.pattern is not None:
            topics = await matching_topics(self._consumer, self._config.pattern)
        await self.look_for(topics)
        return [one for topic in sorted(topics) for one in self.partitions_of(topic)]

    def exists(self, partition: PartitionId) -> bool:
        """Return True if the brokers have the partition, as far as known. A topic that is created again may have fewer partitions."""
        return partition in self.partitions_of(partition.topic)

    def all_partitions(self) -> frozenset[PartitionId]:
        """Return the known partitions of all topics that are read, including topics of other members."""
        topics = self._config.topics or self._consumer.subscription()
        return frozenset(one for topic in topics for one in self.partitions_of(topic))

    @property
    def is_missing_topics(self) -> bool:
        """True if a topic of the settings is missing, or no topic matches the pattern."""
        subscription = self._consumer._subscription.subscription
        if self._config.pattern is not None:
            return subscription is not None and not subscription.topics
        return not all(self.partitions_of(topic) for topic in self._config.topics)

    @property
    def forbidden_topics(self) -> Collection[str]:
        """Topics that this user is not allowed to read."""
        found: Collection[str] = self._consumer._client.cluster.unauthorized_topics
        return found

    # Membership

    @property
    def membership(self) -> Membership | None:
        """Current generation and member id. None without a group."""
        if self._config.membership == "assign":
            return None
        coordinator = self._consumer._coordinator
        return Membership(coordinator.generation, coordinator.member_id)

    async def is_member(self) -> bool:
        """Send a heartbeat, and return True if the group still knows this member. If not, the client rejoins."""
        try:
            answer: bool = await self._consumer._coordinator._do_heartbeat()
        except KafkaError:
            return False  # the client's own heartbeat gets and reports the same error
        return answer

    async def revoked(self) -> None:
        """Handle a rebalance. The client rejoins the group after this."""
        await self._on_revoked()

    def assigned(self, partitions: Collection[PartitionId]) -> None:
        """Handle the partitions that the group assigned to this member."""
        membership = self.membership
        if self._config.assignor == "sticky" and membership is not None:
            self._assignor.on_generation_assignment(membership.generation)
        self._on_assigned(partitions, membership)

    # Records

    async def poll(self, timeout_secs: float, most_records: int) -> Batches:
        """Return fetched records. Wait up to `timeout_secs` if there are none. An error may have moved the position (see `reread`)."""
        self._look_at_tasks()
        found = await self._consumer.getmany(timeout_ms=timeout_secs * 1000, max_records=most_records)
        return found  # type: ignore[no-any-return]

    def _look_at_tasks(self) -> None:
        """Raise the error of a background task of the client that died. Without its tasks the client fetches no records."""
        for task in (self._consumer._fetcher._fetch_task, self._consumer._client._sync_task):
            if task is not None and task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception()

    def reread(self, positions: Mapping[PartitionId, int]) -> None:
        """Seek to these positions in each partition that has another position."""
        for partition, position in positions.items():
            if self.position(partition) not in (None, position):
                self.seek(partition, position)

    def undecodable(self) -> BrokenRecord | None:
        """Return the place of the record that the last poll could not decode."""
        for at, fetched in self._consumer._fetcher._records.items():
            offset = broken_offset(fetched)
            if offset is not None:
                return BrokenRecord(PartitionId(*at), offset, offset_after_broken(fetched))
        return None

    def position(self, partition: PartitionId) -> int | None:
        """Return the offset of the next poll. None if the partition is not assigned, or has no position yet."""
        if partition not in self._consumer.assignment():
            return None
        state = self._consumer._subscription.subscription.assignment.state_value(TopicPartition(*partition))
        return state.position if state.has_valid_position else None

    def seek(self, partition: PartitionId, offset: int) -> None:
        """Seek to this offset. Drops fetched records of the partition that were not polled."""
        self.ends.forget([partition])
        self._consumer.seek(TopicPartition(*partition), offset)

    def pause(self, partitions: Collection[PartitionId]) -> None:
        """Exclude these partitions from `poll`. Ignores partitions that are not assigned at the moment."""
        self._consumer.pause(*(TopicPartition(*partition) for partition in partitions if self.is_assigned(partition)))

    def resume(self, partitions: Collection[PartitionId]) -> None:
        """Include these partitions in `poll` again. Ignores partitions that are not assigned at the moment."""
        for partition in filter(self.is_assigned, partitions):
            self._consumer.resume(TopicPartition(*partition))
            if (position := self.position(partition)) is not None:
                self.seek(partition, position)  # wake aiokafka's fetcher, which otherwise polls every 200 ms

    def is_assigned(self, partition: PartitionId) -> bool:
        """Return True if the partition is assigned to the client at the moment."""
        return partition in self._consumer.assignment()

    def end_of(self, partition: PartitionId) -> int | None:
        """Return the end offset of a partition from the newest fetch. None if unknown."""
        if partition not in self._consumer.assignment():
            return None
        found: int | None = self._consumer.highwater(TopicPartition(*partition))
        return found

    # Offsets

    async def commit(self, commits: Mapping[PartitionId, Committable], membership: Membership | None) -> None:
        """Commit as this member. Raise CommitFailedError if the membership has changed. Do nothing without a group.

        Retries transient errors for `COMMIT_TIMEOUT_SECS`, then raises the last one, or TimeoutError if no broker answered.
        `consumer.commit` checks the generation before it waits for the coordinator, and sends its request even if it is cancelled.
        """
        if self._config.group is None:
            return
        coordinator = self._consumer._coordinator
        offsets = {TopicPartition(*at): OffsetAndMetadata(one.offset, one.metadata) for at, one in commits.items()}
        refused: KafkaError | None = None
        pauses = _COMMIT_BACKOFF.pauses()
        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_SECS):
                while True:
                    await coordinator.ensure_coordinator_known()
                    async with coordinator._commit_lock:
                        if membership != self.membership:
                            raise CommitFailedError("the group has rebalanced since")
                        refused = await _refusal(coordinator._do_commit_offsets(None, offsets))
                    if refused is None:
                        return
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            raise refused or TimeoutError(f"no broker answered within {COMMIT_TIMEOUT_SECS:g} s") from None

    async def committed(self, partitions: Collection[PartitionId]) -> Mapping[PartitionId, CommittedOffset]:
        """Return the group's committed offsets. Raise UnstableOffsetError if an open transaction may still change an offset."""
        if self._config.group is None or not partitions:
            return {}
        return await read_stable_offsets(self._ask_coordinator, self._config.group, partitions, self._config.request_timeout_ms / 1000)

    async def _ask_coordinator(self, request: StableOffsetFetch) -> Any:
        coordinator = self._consumer._coordinator
        await coordinator.ensure_coordinator_known()
        answer = await coordinator._send_req(request)
        if answer.error_code == NotCoordinatorForGroupError.errno:  # so the next attempt looks for the new coordinator
            coordinator.coordinator_dead()
        return answer

    async def bounds(self, partitions: Collection[PartitionId], end: Literal["earliest", "latest"]) -> Mapping[PartitionId, int]:
        """Return the first offset of each partition, or the offset after its last record."""
        ask = self._consumer.beginning_offsets if end == "earliest" else self._consumer.end_offsets
        found = await ask([TopicPartition(*partition) for partition in partitions])
        return {PartitionId(*at): offset for at, offset in found.items()}

    async def at_time(self, partitions: Collection[PartitionId], timestamp_ms: int) -> Mapping[PartitionId, int]:
        """Return the first offset at or after a time. Partitions without one are left out."""
        found = await self._consumer.offsets_for_times({TopicPartition(*partition): timestamp_ms for partition in partitions})
        return {PartitionId(*at): one.offset for at, one in found.items() if one is not None}


async def _refusal(committing: Awaitable[None]) -> KafkaError | None:
    """Return the retriable error of a commit, or None if the commit succeeded. Raise any other error."""
    try:
        await committing
    except (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError) as error:
        raise CommitFailedError("the group has rebalanced since") from error
    except KafkaError as error:
        if not error.retriable:
            raise
        return error
    return None


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, link: ConsumerLink) -> None:
        self._link = link

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        await self._link.revoked()

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        self._link.assigned([PartitionId(*one) for one in assigned])
