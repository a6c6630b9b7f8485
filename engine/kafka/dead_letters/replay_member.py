"""Consumer group of a replay. Its only member reads the dead letters, and its commits store the progress.

So no letter is sent twice. The commits have the format of a spout's commits. All letters below the committed offset are sent, and the
metadata list the sent letters above this offset. A later replay can send letters that a filter left out.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from engine.errors import UsageError
from engine.kafka.client.admin_client import MOST_METADATA_BYTES, AdminClient, make_consumer, stop_consumer, translate_errors
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.dead_letters.dead_letter_list import consumer_options, open_reader
from engine.kafka.source import acked_set

NAME: Final = "replay"
"""Name in the metadata, in the place of the topology name."""
SESSION_MS: Final = 6000
_JOIN_SECS: Final = 60.0
_PAUSE_SECS: Final = 0.02
_HEARTBEAT_MS: Final = 1000


class ReplayProgress:
    """Sent letters of one partition. Records must be noted in ascending order, from `start` on. Contains no I/O.

    runs: letters above `start` that earlier replays sent, as start, stop, start, stop…

    >>> progress = ReplayProgress(10, (12, 13))
    >>> progress.is_sent(12)
    True
    >>> for offset in (10, 11, 12, 13): progress.note_record(offset, is_sent=offset != 11)
    >>> progress.offset, progress.runs
    (11, [12, 14])
    """

    def __init__(self, start: int, runs: tuple[int, ...] = ()) -> None:
        self.offset = self._start = start
        """First offset that is not known to be sent."""
        self._earlier = runs
        self._later: list[int] = []
        self._next = start
        self._has_open = False
        self._joins = False

    @classmethod
    def of_commit(cls, commit: CommittedOffset | None, beginning: int) -> Self:
        """Return the progress in a commit. Ignores metadata of other programs."""
        if commit is None:
            return cls(beginning)
        note = acked_set.decode(commit.metadata)
        is_ours = note is not None and note.topology == NAME and note.base == commit.offset
        runs = note.runs if note is not None and is_ours else ()
        return cls(max(commit.offset, beginning), tuple(max(bound, beginning) for bound in runs))

    def is_sent(self, offset: int) -> bool:
        """Return True if an earlier replay sent the letter at an offset above `start`."""
        return bisect_right(self._earlier, offset) % 2 == 1

    def is_sent_before(self, offset: int) -> bool:
        """Return True if an earlier replay sent this letter or committed a higher offset."""
        return offset < self._start or self.is_sent(offset)

    def note_record(self, offset: int, *, is_sent: bool) -> None:
        """Record whether the next record was sent. There are no records between the previous record and this one."""
        self._next = offset + 1
        if not is_sent:
            self.offset = self.offset if self._has_open else offset
            self._has_open, self._joins = True, False
        elif not self._has_open:
            self.offset = offset + 1
        elif self._joins:
            self._later[-1] = offset + 1
        else:
            self._later += [offset, offset + 1]
            self._joins = True

    @property
    def runs(self) -> list[int]:
        """Sent letters above `offset`, as start, stop, start, stop…"""
        ahead = [max(bound, self._next) for bound in self._earlier]
        pairs = [(ahead[at], ahead[at + 1]) for at in range(0, len(ahead), 2) if ahead[at] < ahead[at + 1]]
        return [*self._later, *(bound for pair in pairs for bound in pair)]

    def next_commit(self) -> CommittedOffset | None:
        """Return the commit of this progress. None if its metadata cannot store all sent letters."""
        metadata, left_out = acked_set.encode(NAME, self.offset, self.runs, MOST_METADATA_BYTES)
        return None if left_out else CommittedOffset(self.offset, metadata)

    def copy(self) -> "ReplayProgress":
        """Return a copy."""
        return deepcopy(self)


class DryMember:
    """Reads the letters for a dry replay, without a group and without commits."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    @asynccontextmanager
    async def reading_from(self, starts: Mapping[PartitionId, int]) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield a consumer that reads from these offsets."""
        async with open_reader(self._admin.config, starts) as consumer:
            yield consumer

    def check_alone(self) -> None:
        """Do nothing, because a dry replay has no group."""

    async def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Do a piece of work."""
        await work

    async def commit_progress(self, partition: PartitionId, commit: CommittedOffset) -> None:
        """Do nothing, because a dry replay commits nothing."""


class ReplayMember(DryMember, ConsumerRebalanceListener):  # type: ignore[misc]
    """Only member of the replay's group, so that two replays at the same time do not send the same letters."""

    def __init__(self, admin: AdminClient, topic: str, group: str) -> None:
        super().__init__(admin)
        self._topic, self._group = topic, group
        self._consumer = make_consumer(
            **consumer_options(admin.config),
            group_id=group,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
        )
        self._working = asyncio.Lock()
        self._is_lost = self._has_joined = False

    async def join(self, partitions: Collection[PartitionId]) -> None:
        """Join the group. Raise UsageError if it does not assign all partitions to this member."""
        await self._consumer.start()
        self._consumer.subscribe([self._topic], listener=self)
        async with asyncio.timeout(_JOIN_SECS):
            while not self._has_joined:
                await self._consumer.getmany(timeout_ms=0)  # raises the error if the group refused the join
                await asyncio.sleep(_PAUSE_SECS)
        if {PartitionId(*one) for one in self._consumer.assignment()} != set(partitions):
            self._is_lost = True
        self.check_alone()

    async def leave(self) -> None:
        """Leave the group."""
        await stop_consumer(self._consumer)

    @asynccontextmanager
    async def reading_from(self, starts: Mapping[PartitionId, int]) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield this member's consumer, which reads from these offsets."""
        for partition, offset in starts.items():
            self._consumer.seek(TopicPartition(*partition), offset)
        yield self._consumer

    def check_alone(self) -> None:
        """Raise UsageError if the group has other members."""
        if self._is_lost:
            hint = "Wait until the other replay ends. The commits of the group contain the letters that were sent so far."
            raise UsageError(f"group {self._group!r} has another member", hint=hint)

    async def run_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a piece of work to its end, even if the group rebalances or the user cancels meanwhile.

        Raise UsageError before the work begins if the group has another member.
        """
        async with self._working:
            if self._is_lost:
                work.close()
            self.check_alone()
            doing = asyncio.ensure_future(work)
            try:
                await asyncio.shield(doing)
            except asyncio.CancelledError:
                await asyncio.wait([doing])
                raise

    async def commit_progress(self, partition: PartitionId, commit: CommittedOffset) -> None:
        """Commit the progress of a partition as this member."""
        with translate_errors(self._admin.config, f"committing as group {self._group!r}"):
            await self._consumer.commit({TopicPartition(*partition): (commit.offset, commit.metadata)})

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Let the current piece of work finish and commit. Refuse further work."""
        self._is_lost = self._has_joined
        async with self._working:
            pass

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Note that the group has accepted this member."""
        self._has_joined = True


@asynccontextmanager
async def join_alone(admin: AdminClient, topic: str, group: str, partitions: Collection[PartitionId]) -> AsyncIterator[DryMember]:
    """Join a group as its only member, and leave it at the end of the block. Raise UsageError if the group has other members."""
    member = ReplayMember(admin, topic, group)
    try:
        with translate_errors(admin.config, f"joining group {group!r}"):
            await member.join(partitions)
        yield member
    finally:
        await member.leave()
