"""Commits the offsets of a spout's partitions, and handles commits that fail (KS-1, KS-2)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from aiokafka import errors

from engine.api import TaskContext
from engine.kafka.client.consumer_link import Batches, ConsumerLink
from engine.kafka.client.errors import KafkaWarning, Report, RetryPolicy, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.offset_manager import Commit, OffsetManager
from engine.kafka.source.partitions import Partitions, commits_of
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.waits import waiting_for

MOST_METADATA_BYTES_PER_REQUEST: Final = 256 * 1024
"""Limit of the metadata in one request. A broker stores one request as one batch, by default of at most 1 MB (message.max.bytes)."""
_LEAST_METADATA_BYTES: Final = 128
_REPEAT_PERIODS: Final = 20
"""Commit periods after which unchanged commits are repeated (by default 10 minutes). Brokers keep them for `offsets.retention.minutes`."""
_LEAST_REPEAT_SECS: Final = 10.0

Commits: TypeAlias = Callable[[ConsumerLink], Awaitable[None]]
"""Makes commits through a link. Raises their errors."""


class CommitLoop:
    """Commits periodically and on demand, one commit at a time. No commit runs while the client rejoins its group."""

    def __init__(self, config: KafkaSpoutConfig, context: TaskContext, partitions: Partitions, report: Report) -> None:
        self._config, self._topology, self._partitions, self._report = config, context.topology_name, partitions, report
        self._left_out = context.counter("kafka_acked_set_left_out")
        self._metadata_bytes = config.max_metadata_bytes
        self._lock = asyncio.Lock()
        self._due = asyncio.Event()
        self._now = context.clock.now
        self._repeat_secs = max(_REPEAT_PERIODS * config.offset_commit_period_ms / 1000, _LEAST_REPEAT_SECS)
        self._repeat_at = self._now() + self._repeat_secs

    async def commit_periodically(self, link: ConsumerLink) -> None:
        """Commit forever, every `offset_commit_period_ms`, and after `commit_if_full`."""
        while True:
            try:
                async with asyncio.timeout(self._config.offset_commit_period_ms / 1000):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            if not self._partitions.suspended:
                if self._config.guarantee != "at_most_once":
                    await self.commit(link)
                await self._repeat_if_due(link)

    def commit_if_full(self) -> None:
        """Commit soon if a commit lets a full partition continue."""
        if any(manager.wants_commit for manager in self._partitions):
            self._due.set()

    async def commit(self, link: ConsumerLink, most_secs: float | None = None, *, is_last: bool = False) -> None:
        """Commit all finished offsets. Report a transient error, and leave the offsets to the next commit.

        Raise FatalError for any other error.
        """
        await self._commit_alone(self._commit, link, most_secs, is_last=is_last)
        link.resume([manager.partition for manager in self._partitions.to_resume()])

    async def _repeat_if_due(self, link: ConsumerLink) -> None:
        """Repeat the last commit of each partition, unless the group has members, so that the brokers do not forget it.

        A broker counts `offsets.retention.minutes` from the last commit of a partition. It keeps the commits of topics that members have
        subscribed to.
        """
        if self._config.membership == "assign" and self._config.group is not None and self._now() >= self._repeat_at:
            self._repeat_at = self._now() + self._repeat_secs
            await self._commit_alone(self._repeat, link)

    async def _repeat(self, link: ConsumerLink) -> None:
        last = {manager.partition: manager.last_commit() for manager in self._existing(link)}
        commits = {partition: commit for partition, commit in last.items() if commit is not None}
        for some in _requests(commits) if commits else ():
            await link.commit(some, self._partitions.membership)

    async def _commit_alone(self, commit: Commits, link: ConsumerLink, most_secs: float | None = None, *, is_last: bool = False) -> None:
        """Run `commit` while no other commit runs. Report a transient error. Raise FatalError for any other error."""
        try:
            with waiting_for(f"a commit of group {self._config.group!r} in Kafka"):
                async with asyncio.timeout(most_secs), self._lock:
                    await commit(link)
        except Exception as error:
            if not is_transient(error):
                raise fatal_error(error, f"a commit of group {self._config.group!r}") from error
            hint = (
                "Records after the last committed offset are processed again at the next start."
                if is_last
                else "The next commit includes these offsets."
            )
            self._report(KafkaWarning(f"a commit failed: {describe_error(error)}", hint=hint))

    async def commit_starts(self, link: ConsumerLink, managers: Collection[OffsetManager]) -> None:
        """Commit the start positions of these partitions, before any of their records is emitted. Raises the errors of a commit."""
        async with self._lock:
            for commit in (await self._commit_of(managers, link)).values():
                commit.manager.note_committed(commit)

    async def _commit(self, link: ConsumerLink) -> None:
        self._partitions.note_committed(await self._commit_of(self._existing(link), link))

    def _existing(self, link: ConsumerLink) -> list[OffsetManager]:
        """Return the partitions that the brokers have. They refuse a commit of any other, and the rest of it would be repeated forever."""
        return [manager for manager in self._partitions if link.exists(manager.partition)]

    async def _commit_of(self, managers: Iterable[OffsetManager], link: ConsumerLink) -> dict[PartitionId, Commit]:
        """Commit the finished offsets of these partitions, and return the commits."""
        carries_set = self._config.carries_acked_set
        while True:
            commits = commits_of(managers, self._topology, self._metadata_bytes, carries_set=carries_set)
            if not commits:
                return {}
            membership = self._partitions.membership
            try:
                for some in _requests(commits):
                    await link.commit(some, membership)
            except errors.OffsetMetadataTooLargeError:
                if self._metadata_bytes == 0:
                    raise
                self._metadata_bytes = self._metadata_bytes // 2 if self._metadata_bytes > _LEAST_METADATA_BYTES else 0
                continue
            self._left_out.add(sum(one.left_out for one in commits.values()))
            return commits

    async def commit_before_emit(self, link: ConsumerLink, batches: Batches) -> Batches:
        """With at most once, commit these batches before their records are emitted. Return the batches to emit.

        Return nothing if the group rebalanced meanwhile. The next owner of the partition reads these records again.
        """
        owned, membership, retry_policy = self._partitions.owned, self._partitions.membership, RetryPolicy(self._report)
        batches = {PartitionId(*at): records for at, records in batches.items() if at in owned}
        if not batches:
            return batches  # no partition has been opened yet
        commits = {at: owned[at].commit_ahead(self._topology, records[-1].offset + 1, len(records)) for at, records in batches.items()}
        while not self._partitions.suspended and membership == self._partitions.membership:
            try:
                async with self._lock:
                    await link.commit(commits, membership)
                    self._partitions.note_committed(commits)
                    return batches
            except (errors.CommitFailedError, errors.IllegalStateError):
                break
            except Exception as error:  # noqa: BLE001 - retried or raised
                await retry_policy.wait_or_raise(error, "a commit")
        link.reread({at: owned[at].position for at in batches if at in owned})
        return {}


def _requests(commits: Mapping[PartitionId, Commit]) -> Iterator[dict[PartitionId, Commit]]:
    """Yield the commits in requests that fit into one batch of a broker."""
    some, size = dict[PartitionId, Commit](), 0
    for partition, commit in commits.items():
        if some and size + len(commit.metadata) > MOST_METADATA_BYTES_PER_REQUEST:
            yield some
            some, size = {}, 0
        some[partition] = commit
        size += len(commit.metadata)
    yield some
