"""Divides partitions among the tasks of a spout by their numbers, without a group. No partition changes its task during a run."""

import asyncio
from collections.abc import Collection
from typing import Any, Final
from zlib import crc32

from engine.kafka.client.connect import wait_for_topics
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.errors import Report, RetryPolicy
from engine.kafka.client.partition import PartitionId
from engine.kafka.source.spout_config import KafkaSpoutConfig

_TOPICS_PERIOD_SECS: Final = 0.5
"""Interval of checks of the client's metadata, which it refreshes every metadata_max_age_ms."""
_METADATA_MAX_AGE_MS: Final = 300_000
"""The client's default."""


def task_of(partition: PartitionId, config: KafkaSpoutConfig, tasks: int) -> int:
    """Return the index of the task that reads a partition. The topics begin at different tasks, because many have one partition only.

    >>> config = KafkaSpoutConfig(brokers="a:1", topics=("lines", "words"), membership="assign")
    >>> [task_of(PartitionId(topic, 0), config, 2) for topic in config.topics]
    [0, 1]
    """
    topics: Any = config.topics
    begin = topics.index(partition.topic) if partition.topic in topics else crc32(partition.topic.encode())
    return (begin + partition.partition) % tasks


async def assign_by_index(link: ConsumerLink, config: KafkaSpoutConfig, task_index: int, tasks: int, report: Report) -> None:
    """Assign the partitions of a task, including those that are added later.

    Wait for a deleted topic as at the start. Raise FatalError if the topic does not come back.
    """
    share: set[PartitionId] | None = None
    age_secs = config.client.get("metadata_max_age_ms", _METADATA_MAX_AGE_MS) / 1000
    while True:
        if config.pattern is not None:
            every = await _matching(link, report)
        else:
            every = [one for topic in config.topics for one in link.partitions_of(topic)]
        found = {one for one in every if task_of(one, config, tasks) == task_index}
        if share is None or not found <= share:  # a missing topic may come back
            share = found | (share or set())
            link.take_over(sorted(share))
        await asyncio.sleep(_TOPICS_PERIOD_SECS if config.pattern is None else age_secs)
        if config.pattern is None and link.is_missing_topics:
            await wait_for_topics(link, config, report)


async def _matching(link: ConsumerLink, report: Report) -> Collection[PartitionId]:
    """Ask the brokers for the partitions of all topics that match the pattern."""
    retry_policy = RetryPolicy(report)
    while True:
        try:
            return await link.find_partitions()
        except Exception as error:  # noqa: BLE001 - retried or raised
            await retry_policy.wait_or_raise(error, "looking for topics")
