"""Knows the partitions of the topics, and whether there is something to read: the coordinator of both Kafka spouts."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from engine.api import SpoutExhausted
from engine.kafka.client.connect import connect, watch_brokers
from engine.kafka.client.errors import KafkaTrouble, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.client.topic_lookup import log_found_topics
from engine.kafka.source.topics import wait_for_topics
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig
from engine.kafka.transactional.leader_offsets import LeaderOffsets
from engine.kafka.transactional.offset_range import range_of
from engine.transactional import Partition, PartitionedCoordinator

LOGGER: Final = logging.getLogger("engine.kafka")
SILENCE_SECS: Final = 6.0


class KafkaSpoutCoordinator(PartitionedCoordinator):
    """Asks the brokers for ends only where all that it knows of is read already."""

    def __init__(self, config: KafkaBatchSpoutConfig) -> None:
        self._config = config
        self._partitions: list[PartitionId] = []
        """In the order in which they were seen, so that none changes its task while the run lasts."""
        self._at_first: Sequence[PartitionId] = ()
        self._stop_at: dict[PartitionId, int] = {}
        """For a run that stops at the end: the ends of those that were there at first, as they were told first."""
        self._is_open = False

    async def open(self) -> None:
        """Connect, and wait for the topics."""
        config, context = self._config, self.context
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.coordinator"
        self._link = await connect(lambda: PartitionLink(config, client_id), config, self._report)
        try:
            await wait_for_topics(self._link, config, self._report)
            self._ends = LeaderOffsets(
                self._link, lambda its: self._link.bounds(its, "latest"), self._report, "asking for the ends of partitions"
            )
            await self._look()
            self._at_first = tuple(self._partitions)
            if not self._at_first:
                hint = "Names match from their beginning. New ones are looked for again and again."
                self._report(KafkaTrouble(f"no topic is like {config.pattern!r}", hint=hint))
        except BaseException:
            await self._link.stop()
            raise
        self._is_open = True
        context.create_task(self._keep_looking())
        context.create_task(watch_brokers(config, self._link.answered_at, SILENCE_SECS, self._report))

    async def close(self) -> None:
        """Disconnect."""
        if self._is_open:
            await self._ends.close()
            await self._link.stop()

    async def is_ready(self) -> bool:
        """Tell whether something is to be read beyond what was emitted."""
        if self._has_more():
            return True
        await self._ends.learn(self._partitions)
        self._note_stops()
        if self._has_more():
            return True
        if self._is_through():
            raise SpoutExhausted
        return False

    def partitions(self) -> Sequence[Partition]:
        """Return the names of all that are known."""
        return [str(one) for one in self._partitions]

    def _has_more(self) -> bool:
        known = self._ends.known
        return any(known.get(one, -1) > self._position(one) for one in self._partitions)

    def _position(self, partition: PartitionId) -> int:
        """Where the newest batch ended. Before the first one: less than any end, where only a batch finds out where to begin."""
        newest = range_of(self.positions.get(str(partition)))
        if newest is not None:
            return newest.end
        return 0 if self._config.start == "earliest" else -1

    def _note_stops(self) -> None:
        for one in self._at_first:
            if one in self._ends.known:
                self._stop_at.setdefault(one, self._ends.known[one])

    def _is_through(self) -> bool:
        stops = self._stop_at
        return self._config.stop_at_end and all(one in stops and self._position(one) >= stops[one] for one in self._at_first)

    async def _look(self) -> None:
        known, topics = set(self._partitions), {one.topic for one in self._partitions}
        found = [one for one in await self._link.find_partitions() if one not in known]
        if self._is_open:
            log_found_topics({one.topic for one in found} - topics)
        self._partitions += found

    async def _keep_looking(self) -> None:
        """Find new partitions, for ever."""
        while True:
            await asyncio.sleep(self._config.refresh_ms / 1000)
            try:
                await self._look()
            except Exception as error:
                if not is_transient(error):
                    raise fatal_error(error, "looking for topics") from error
                self._report(KafkaTrouble(f"looking for topics failed: {describe_error(error)}", hint="It is tried again."))

    @staticmethod
    def _report(error: BaseException) -> None:
        LOGGER.warning("%s", error)
