"""The coordinator of both Kafka spouts lists the partitions of the topics, detects new records, and commits positions to a group."""

import asyncio
from collections.abc import Sequence
from typing import Final

from engine.api import SpoutExhausted
from engine.kafka.client.connect import connect, wait_for_topics, watch_brokers
from engine.kafka.client.errors import KafkaWarning, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.client.topic_lookup import log_found_topics
from engine.kafka.source import acked_set
from engine.kafka.source.group_commits import GroupCommits
from engine.kafka.transactional.batch_reader import mark_of, partition_of, range_of
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.leader_offsets import LeaderOffsets
from engine.log import EngineLogger
from engine.transactional import Partition, PartitionedCoordinator

LOGGER: Final = EngineLogger("engine.kafka")
SILENCE_SECS: Final = 6.0


class KafkaSpoutCoordinator(PartitionedCoordinator):
    """Asks the brokers for the ends of partitions only after all known records were read."""

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self._config = config
        self._partitions: list[PartitionId] = []
        """Known partitions in the order of their discovery. This order keeps each partition at its task during the run."""
        self._at_first: Sequence[PartitionId] = ()
        self._stop_at: dict[PartitionId, int] = {}
        """First known ends of the first partitions, for `stop_at_end`."""
        self._commits: GroupCommits | None = None
        """None without a group."""
        self._is_open = False

    async def open(self) -> None:
        """Connect, and wait for the topics to exist."""
        config, context = self._config, self.context
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.coordinator"
        self._link = await connect(lambda: PartitionLink(config, client_id), config, self._report)
        try:
            await wait_for_topics(self._link, config, self._report)
            self._ends = LeaderOffsets(
                self._link, lambda its: self._link.bounds(its, "latest"), self._report, "asking for the ends of partitions"
            )
            await self._find_partitions()
            self._at_first = tuple(self._partitions)
            if not self._at_first:
                hint = "Names must match from their beginning. The lookup is repeated every refresh_ms."
                self._report(KafkaWarning(f"no topic matches the pattern {config.pattern!r}", hint=hint))
        except BaseException:
            await self._link.stop()
            raise
        self._is_open = True
        context.create_task(self._keep_looking())
        context.create_task(watch_brokers(config, self._link, SILENCE_SECS, self._report))
        if config.group is not None:
            self._commits = GroupCommits(self._link, config.group, acked_set.copied_position(context.topology_name), self._report)
            context.create_task(self._commits.commit_when_due())

    async def close(self) -> None:
        """Commit the last positions to the group, and disconnect."""
        if not self._is_open:
            return
        try:
            if self._commits is not None:
                await self._commits.close()
        finally:
            await self._ends.close()
            await self._link.stop()

    async def is_ready(self) -> bool:
        """Return True if there are records after the newest batches. Raise SpoutExhausted at the end."""
        if self._has_more():
            return True
        await self._ends.ask_leaders(self._partitions)
        self._note_stops()
        if self._has_more():
            return True
        if self._has_reached_stops():
            raise SpoutExhausted
        return False

    def partitions(self) -> Sequence[Partition]:
        """Return the names of the known partitions."""
        return [str(one) for one in self._partitions]

    def forgotten(self) -> Sequence[Partition]:
        """Schedule a commit of the committed positions to the group. The positions of all partitions are kept."""
        if self._commits is not None:
            ends = {partition_of(one): found.end for one, at in self.committed.items() if (found := range_of(at)) is not None}
            self._commits.schedule(ends)
        return ()

    def _has_more(self) -> bool:
        known = self._ends.known
        return any(known.get(one, -1) > self._position(one) or self._is_new_topic(one) for one in self._partitions)

    def _is_new_topic(self, partition: PartitionId) -> bool:
        """Return True if the topic was created again after the newest batch, so that an emitter must handle this."""
        mark = mark_of(self.positions.get(str(partition)))
        return mark is not None and self._link.logs.is_new_topic(partition, mark)

    def _position(self, partition: PartitionId) -> int:
        """Return the end of the newest batch. Before the first batch, return 0 for start="earliest", else -1, which is below any end."""
        newest = range_of(self.positions.get(str(partition)))
        if newest is not None:
            return newest.end
        return 0 if self._config.start == "earliest" else -1

    def _note_stops(self) -> None:
        for one in self._at_first:
            if one in self._ends.known:
                self._stop_at.setdefault(one, self._ends.known[one])

    def _has_reached_stops(self) -> bool:
        stops = self._stop_at
        return self._config.stop_at_end and all(one in stops and self._position(one) >= stops[one] for one in self._at_first)

    async def _find_partitions(self) -> None:
        known, topics = set(self._partitions), {one.topic for one in self._partitions}
        found = [one for one in await self._link.find_partitions() if one not in known]
        if self._is_open:
            log_found_topics({one.topic for one in found} - topics)
        self._partitions += found

    async def _keep_looking(self) -> None:
        """Look for new partitions forever."""
        while True:
            await asyncio.sleep(self._config.refresh_ms / 1000)
            try:
                await self._find_partitions()
            except Exception as error:
                if not is_transient(error):
                    raise fatal_error(error, "looking for topics") from error
                self._report(KafkaWarning(f"looking for topics failed: {describe_error(error)}", hint="It will be retried."))

    @staticmethod
    def _report(error: BaseException) -> None:
        LOGGER.warning("%s", error)
