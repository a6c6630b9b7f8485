"""Where a replay reads from and notes what it has sent: as the only member of its group, or, for a dry one, nowhere."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from engine.errors import UsageError
from engine.kafka.client.admin_client import AdminClient, make_consumer, stop_consumer, translate_errors
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.dead_letters.dead_letter_list import consumer_options, reading

SESSION_MS: Final = 6000
_JOIN_SECS: Final = 60.0
_PAUSE_SECS: Final = 0.02
_HEARTBEAT_MS: Final = 1000


class Place:
    """Where a replay reads from and notes its progress; this one for a dry replay, which notes none."""

    def __init__(self, link: AdminClient) -> None:
        self._link = link

    @asynccontextmanager
    async def standing_at(self, starts: Mapping[PartitionId, int]) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer that reads from these offsets."""
        async with reading(self._link.config, starts) as consumer:
            yield consumer

    def check(self) -> None:
        """Raise UsageError where the group has other members."""

    async def undisturbed(self, work: Any) -> None:
        """Do a piece of work to its end."""
        await work

    async def commit(self, partition: PartitionId, commit: CommittedOffset) -> None:
        """Note the progress of a partition."""


class ReplayMember(Place, ConsumerRebalanceListener):  # type: ignore[misc]
    """The only member of the replay's group: so two replays at once do not send the same."""

    def __init__(self, link: AdminClient, topic: str, group: str) -> None:
        super().__init__(link)
        self._topic, self._group = topic, group
        self._consumer = make_consumer(
            **consumer_options(link.config),
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        )
        self._working = asyncio.Lock()
        self._is_lost = self._has_joined = False

    async def join(self, partitions: Collection[PartitionId]) -> None:
        """Become the only member; UsageError where there are others."""
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        async with asyncio.timeout(_JOIN_SECS):
            while not self._has_joined:
                await self._consumer.getmany(timeout_ms=0)  # raises what keeps it out
                await asyncio.sleep(_PAUSE_SECS)
        if {PartitionId(*one) for one in self._consumer.assignment()} != set(partitions):
            self._is_lost = True
        self.check()

    async def leave(self) -> None:
        """Leave the group."""
        await stop_consumer(self._consumer)

    @asynccontextmanager
    async def standing_at(self, starts: Mapping[PartitionId, int]) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer that reads from these offsets."""
        for partition, offset in starts.items():
            self._consumer.seek(TopicPartition(*partition), offset)
        yield self._consumer

    def check(self) -> None:
        """Raise UsageError where the group has other members."""
        if self._is_lost:
            hint = "Another replay is under way: wait for its end. What was sent is noted."
            raise UsageError(f"group {self._group!r} has another member, too", hint=hint)

    async def undisturbed(self, work: Any) -> None:
        """Do a piece of work to its end, also where the group rebalances or the user has enough meanwhile."""
        async with self._working:
            if self._is_lost:
                work.close()
            self.check()
            doing = asyncio.ensure_future(work)
            try:
                await asyncio.shield(doing)
            except asyncio.CancelledError:
                await asyncio.wait([doing])
                raise

    async def commit(self, partition: PartitionId, commit: CommittedOffset) -> None:
        """Note the progress of a partition, as the member that we are."""
        with translate_errors(self._link.config, f"committing as group {self._group!r}"):
            await self._consumer.commit({TopicPartition(*partition): (commit.offset, commit.metadata)})

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Let what is being sent come to its end, and be noted; then no more."""
        self._is_lost = self._has_joined
        async with self._working:
            pass

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """We are in."""
        self._has_joined = True


@asynccontextmanager
async def alone(link: AdminClient, topic: str, group: str, partitions: Collection[PartitionId]) -> AsyncIterator[Place]:
    """The place of a replay, nobody else's while it lasts."""
    member = ReplayMember(link, topic, group)
    try:
        with translate_errors(link.config, f"joining group {group!r}"):
            await member.join(partitions)
        yield member
    finally:
        await member.leave()
