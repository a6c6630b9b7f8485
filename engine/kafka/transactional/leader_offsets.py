"""Gets offsets from the leaders of partitions. A leader that does not answer does not delay the other leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from engine.kafka.client.errors import KafkaWarning, Report, describe_error, fatal_error, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.partition_link import PartitionLink
from engine.kafka.transactional.batch_spout_config import KafkaBatchSpoutConfig

Ask: TypeAlias = Callable[[Collection[PartitionId]], Awaitable[Mapping[PartitionId, int]]]

_PATIENCE_SECS: Final = 2.0
"""Time after which the caller continues without an answer of a leader. A late answer is still used."""


class LeaderOffsets:
    """Known offsets by partition. ask: a method of the link. doing: the purpose, for error texts."""

    def __init__(self, link: PartitionLink, ask: Ask, report: Report, doing: str) -> None:
        self.known: dict[PartitionId, int] = {}
        self._link, self._ask, self._report, self._doing = link, ask, report, doing
        self._asking: dict[int, asyncio.Task[Mapping[PartitionId, int]]] = {}
        self._looking: asyncio.Task[bool] | None = None

    async def ask_leaders(self, partitions: Collection[PartitionId]) -> None:
        """Send a request to each leader that has no open request. Wait up to `_PATIENCE_SECS` for the answers.

        A transient error is reported. Raise FatalError for a permanent error.
        """
        self._collect()
        await self._look_up_leaders({one.topic for one in partitions if self._link.leader_of(one) is None})
        by_leader: dict[int, list[PartitionId]] = {}
        for one in partitions:
            leader = self._link.leader_of(one)
            if leader is not None and leader not in self._asking:
                by_leader.setdefault(leader, []).append(one)
        if not by_leader:
            return
        for leader, its in by_leader.items():
            self._asking[leader] = asyncio.ensure_future(self._ask(its))
        await asyncio.wait([self._asking[leader] for leader in by_leader], timeout=_PATIENCE_SECS)
        self._collect()

    async def _look_up_leaders(self, topics: Collection[str]) -> None:
        """Look up the leaders of these topics. Wait only once for a slow lookup."""
        if topics and self._looking is None:
            self._looking = asyncio.ensure_future(self._link.look_for(topics))
            await asyncio.wait((self._looking,), timeout=_PATIENCE_SECS)
        if self._looking is not None and self._looking.done():
            self._looking = None

    def _collect(self) -> None:
        for leader, task in list(self._asking.items()):
            if not task.done():
                continue
            del self._asking[leader]
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is None:
                self.known.update(task.result())
            elif not is_transient(error):
                raise fatal_error(error, self._doing)
            else:
                self._report(KafkaWarning(f"{self._doing} failed: {describe_error(error)}", hint="It will be retried."))

    async def close(self) -> None:
        """Cancel open requests."""
        tasks: list[asyncio.Task[Any]] = [*self._asking.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._asking.clear()


class StartOffsets:
    """Start offsets of the first transaction. One request per leader asks for all of its partitions."""

    def __init__(self, link: PartitionLink, config: KafkaBatchSpoutConfig, report: Report) -> None:
        self._link, self._config = link, config
        doing = "asking where to begin"
        self._of_settings = LeaderOffsets(link, self._ask, report, doing)
        self._first = LeaderOffsets(link, lambda its: link.bounds(its, "earliest"), report, doing)

    async def start_of(self, partition: PartitionId, *, is_added: bool) -> int | None:
        """Return the start offset of a partition. None if its leader does not answer in time.

        is_added: the partition was created after the first transaction. Reading starts at its first offset, so records from
        before its discovery are not lost.
        """
        bounds = self._first if is_added else self._of_settings
        if partition not in bounds.known:
            known = self._link.partitions_of(partition.topic)
            await bounds.ask_leaders({partition} | {one for one in known if one not in bounds.known})
        return bounds.known.get(partition)

    async def _ask(self, partitions: Collection[PartitionId]) -> Mapping[PartitionId, int]:
        if self._config.start == "earliest":
            return await self._link.bounds(partitions, "earliest")
        if self._config.start_timestamp_ms is None:
            return await self._link.bounds(partitions, "latest")
        last = await self._link.bounds(partitions, "latest")  # this request is first, so that no record between the two answers is skipped
        return {**last, **await self._link.at_time(partitions, self._config.start_timestamp_ms)}

    async def close(self) -> None:
        """Cancel open requests."""
        await self._of_settings.close()
        await self._first.close()
