"""Positions of an exact spout task. The checkpoints of the run have them, and the group only shows them (KS-16 to KS-18)."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypedDict, cast

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.errors import Report
from engine.kafka.client.partition import LogMark, PartitionId
from engine.kafka.source import acked_set
from engine.kafka.source.assignment import task_of
from engine.kafka.source.group_commits import GroupCommits
from engine.kafka.source.offset_manager import OffsetManager
from engine.kafka.source.partitions import Partitions
from engine.kafka.source.spout_config import KafkaSpoutConfig
from engine.kafka.source.start_positions import StartPosition
from engine.safe_text import safe_repr
from engine.waits import waiting_for

_SURE_SECS: Final = 5.0
"""Time for which a log must end before a position until the position counts as lost. A broker that has just started may tell less."""
_ASK_AGAIN_SECS: Final = 0.2


class StoredPosition(TypedDict, total=False):
    """Position of one partition, as a checkpoint stores it. A bare offset, which a person has set, is one, too."""

    offset: int
    """Offset behind the last emitted record."""
    log: str | None
    """Mark of the log at the offset. None: brokers without topic ids."""
    first_partitions: int
    """Number of partitions of the topic at the first start. Those with higher numbers were added later."""
    done: list[int]
    """Runs of finished offsets above `offset`, if there are any."""


class LedgerPositions:
    """Positions of one instance of an exact spout task, from its `seek` on."""

    def __init__(
        self, config: KafkaSpoutConfig, context: TaskContext, partitions: Partitions, report: Report, request_checkpoint: Callable[[], None]
    ) -> None:
        self._config, self._context, self._partitions, self._report = config, context, partitions, report
        self._request_checkpoint = request_checkpoint
        self._committed: dict[PartitionId, StoredPosition] = {}
        """Positions of the last commit. At the beginning those of all tasks."""
        self._first_partitions: dict[str, int] = {}
        self._closed: dict[PartitionId, StoredPosition] = {}
        """Positions of partitions without a window: where it was closed, or where it shall begin."""
        self._has_news = asyncio.Event()
        """Set at each commit."""
        self._group: GroupCommits | None = None
        """None without a group, and before the connection."""
        self._beyond_since: dict[PartitionId, float] = {}
        """Times since when the log of a partition ends before its position."""

    # Of the checkpoint

    def begin(self, position: Mapping[str, Any] | None) -> None:
        """Take the positions of the last commit. Raise FatalError for positions of another kind."""
        try:
            self._committed = {partition_of(name): _stored(stored) for name, stored in (position or {}).items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            text = f"{safe_repr(position)} is no position of a KafkaSpout"
            raise FatalError(text, hint="Write them as TOPIC-PARTITION=OFFSET, such as lines-0=17, or give the spout another id.") from None
        for partition, stored in self._committed.items():
            topic = partition.topic
            counts = (self._first_partitions.get(topic, 0), partition.partition + 1 if "first_partitions" not in stored else 0)
            self._first_partitions[topic] = max(*counts, stored.get("first_partitions", 0))

    def position(self) -> dict[str, Any]:
        """Return the position behind the last emitted record of each partition of this task."""
        open_ones = {str(manager.partition): self._position_of(manager) for manager in self._partitions}
        return {str(partition): stored for partition, stored in self._closed.items()} | open_ones

    def _position_of(self, manager: OffsetManager) -> StoredPosition:
        mark, done = manager.mark, manager.acked_runs()
        count = self._first_partitions.get(manager.partition.topic, 0)
        found = StoredPosition(offset=manager.committable, log=None if mark is None else str(mark), first_partitions=count)
        return found | StoredPosition(done=done) if done else found

    def note_committed(self, position: Mapping[str, Any]) -> None:
        """Note a commit of these positions, and commit those of this task to the group."""
        news = {partition_of(name): _stored(stored) for name, stored in position.items()}
        self._committed |= news
        for partition, stored in news.items():
            if partition in self._partitions.owned:
                self._partitions.owned[partition].committed = stored["offset"]
        self._has_news.set()
        if self._group is not None:
            self._schedule(self._group)

    # Starts

    def note_topics(self, partitions: Collection[PartitionId], *, at_first: bool) -> None:
        """Note the partitions that exist at an assignment, so that later ones are known. at_first: at the first one of the instance."""
        is_new = not self._first_partitions
        for topic in {one.topic for one in partitions} - self._first_partitions.keys():
            begins_by_settings = at_first and (is_new or topic in self._config.topics)
            self._first_partitions[topic] = sum(one.topic == topic for one in partitions) if begins_by_settings else 0

    def added(self, partitions: Collection[PartitionId]) -> set[PartitionId]:
        """Return those of these partitions that did not exist at the first start."""
        return {one for one in partitions if one.partition >= self._first_partitions.get(one.topic, 0)}

    def stored(self, partitions: Collection[PartitionId]) -> dict[PartitionId, StartPosition]:
        """Return the positions of the last commit of these partitions."""
        return {one: _start(self._committed[one]) for one in partitions if one in self._committed}

    def close_partition(self, manager: OffsetManager) -> None:
        """Keep the position of a partition whose window is about to be closed. Its emitted records stay emitted."""
        self._closed[manager.partition] = self._position_of(manager)

    async def is_sure(self, found: Mapping[PartitionId, StartPosition]) -> bool:
        """Return False, after a pause, if a position is beyond the end of its log, but not for long enough to count as lost."""
        beyond = {one for one, start in found.items() if start.missing is not None and not start.divergence and start.missing > start.last}
        now = self._context.clock.now()
        self._beyond_since = {one: self._beyond_since.get(one, now) for one in beyond}
        if all(now - since >= _SURE_SECS for since in self._beyond_since.values()):
            return True
        await asyncio.sleep(_ASK_AGAIN_SECS)
        return False

    # As `CommitLoop`

    def commit_if_full(self) -> None:
        """Do nothing, because a partition is full only of records that wait for a retry."""

    async def commit_starts(self, link: ConsumerLink, managers: Collection[OffsetManager]) -> None:
        """Wait until a checkpoint has the start positions of these partitions, before any of their records is emitted."""
        wanted = {manager.partition: self._position_of(manager) for manager in managers}
        if not wanted:
            return
        self._closed |= wanted
        self._request_checkpoint()
        with waiting_for(f"the checkpoint with the first positions of {', '.join(map(str, sorted(wanted)))}"):
            while any(self._committed.get(one) != stored for one, stored in wanted.items()):
                self._has_news.clear()
                await self._has_news.wait()

    async def commit_periodically(self, link: ConsumerLink) -> None:
        """Commit the positions of the last checkpoint to the group, whenever there are new ones."""
        if self._config.group is None:
            return
        metadata = acked_set.copied_position(self._context.topology_name, self._context.component_id)
        self._group = GroupCommits(link, self._config.group, metadata, self._report)
        self._schedule(self._group)
        await self._group.commit_when_due()

    async def commit(self, link: ConsumerLink, most_secs: float | None = None, *, is_last: bool = False) -> None:
        """Commit to the group what is due, within a time limit."""
        if self._group is not None:
            await self._group.close()

    def _schedule(self, group: GroupCommits) -> None:
        tasks, index = self._context.tasks, self._context.task_index
        own = {one: at["offset"] for one, at in self._committed.items() if task_of(one, self._config, tasks) == index}
        group.schedule(own)


def partition_of(name: str) -> PartitionId:
    """Return the partition of a name that `str(PartitionId)` made. Raise ValueError for another name.

    >>> partition_of("page-views-3")
    PartitionId(topic='page-views', partition=3)
    """
    topic, dash, number = name.rpartition("-")
    if not dash or not topic:
        raise ValueError(name)
    return PartitionId(topic, int(number))


def topics_of(positions: Mapping[Any, Any]) -> list[str]:
    """Return the topics of stored positions. Raise ValueError unless they have the form of those of a `KafkaSpout`.

    >>> topics_of({"clicks-0": {"offset": 7}, "clicks-1": 4})
    ['clicks']
    """
    try:
        for stored in positions.values():
            _stored(stored)
        return sorted({partition_of(name).topic for name in positions})
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(positions) from error


def _stored(stored: Any) -> StoredPosition:
    """Return a stored position, or a bare offset, in its full form."""
    found = {"offset": stored} if isinstance(stored, int) else dict(stored)
    if not isinstance(found["offset"], int) or found["offset"] < 0:
        raise ValueError(stored)
    return cast(StoredPosition, found)


def _start(stored: StoredPosition) -> StartPosition:
    log = stored.get("log")
    mark = None if log is None else LogMark.parse(log)
    return StartPosition(stored["offset"], stored["offset"], skips=tuple(stored.get("done", ())), mark=mark)
