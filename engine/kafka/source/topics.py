"""Waits for the topics of a spout, and assigns their partitions to tasks if no group does."""

import asyncio
from typing import Final

from engine.errors import FatalError
from engine.kafka.client.consumer_link import ConsumerLink, ConsumerSettings
from engine.kafka.client.errors import KafkaTrouble, Report
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.topic_lookup import log_found_topics
from engine.kafka.source.spout_config import KafkaSpoutConfig

_PAUSE_SECS: Final = 0.25
_LOOK_SECS: Final = 0.5
"""Interval of checks of the client's metadata, which it refreshes every metadata_max_age_ms."""


async def wait_for_topics(link: ConsumerLink, config: ConsumerSettings, report: Report) -> None:
    """Wait until all topics exist. Raise FatalError for one that is forbidden or does not appear within `topic_timeout_secs`."""
    if config.pattern is not None:
        if link.is_missing_topics:
            text, hint = (
                f"no topic is like {config.pattern!r}",
                "Names match from their beginning. New ones are looked for again and again.",
            )
            report(KafkaTrouble(text, hint=hint))
        return
    missing, is_reported = list(config.topics), False
    deadline = asyncio.get_running_loop().time() + config.topic_timeout_secs
    while missing:
        if not await link.look_for(config.topics):  # no broker answers; watch_brokers() reports this
            deadline = asyncio.get_running_loop().time() + config.topic_timeout_secs
            await asyncio.sleep(_PAUSE_SECS)
            continue
        forbidden = sorted(topic for topic in missing if topic in link.forbidden_topics)
        if forbidden:
            raise FatalError(f"Kafka refused reading topic {forbidden[0]!r}", hint="Give the user READ and DESCRIBE on the topic.")
        before, missing = missing, [topic for topic in missing if not link.partitions_of(topic)]
        if is_reported:
            log_found_topics(set(before) - set(missing))
        if not missing:
            return
        if asyncio.get_running_loop().time() >= deadline:
            text = f"topic {missing[0]!r} is not there, and did not appear within {config.topic_timeout_secs:g} s"
            raise FatalError(text, hint="Create it, correct its name in topics=..., or raise topic_timeout_secs.")
        if not is_reported:
            is_reported = True
            names = ", ".join(map(repr, missing))
            what = f"topic {names} is" if len(missing) == 1 else f"topics {names} are"
            report(KafkaTrouble(f"{what} not there", hint=f"It is looked for during {config.topic_timeout_secs:g} s, and not created."))
        await asyncio.sleep(_PAUSE_SECS)


async def assign_by_index(link: ConsumerLink, config: KafkaSpoutConfig, task_index: int, tasks: int, report: Report) -> None:
    """Assign partitions round robin by index, including partitions that are added later. No partition changes its task.

    Wait for a deleted topic as at the start; raise FatalError if it does not come back.
    """
    share: set[PartitionId] | None = None
    while True:
        every = [(at + one.partition, one) for at, topic in enumerate(config.topics) for one in link.partitions_of(topic)]
        found = {one for number, one in every if number % tasks == task_index}
        if share is None or not found <= share:  # a topic that is missing now may come back
            share = found | (share or set())
            link.take_over(sorted(share))
        await asyncio.sleep(_LOOK_SECS)
        if link.is_missing_topics:
            await wait_for_topics(link, config, report)
