"""Start offsets of a batch spout while records are appended (TX-7)."""

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import pytest

from engine.kafka.client.partition import PartitionId
from engine.kafka.transactional import KafkaOpaqueSpout
from tests.kafka.play import produce
from tests.kafka.transactional.hand import emitting, settings
from tests.servers.kafka_fixtures import NewTopic

SLOW_SECS = 0.5


@pytest.mark.guarantee("TX-7")
async def test_a_record_appended_during_the_lookup_of_a_timestamp_is_read(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    source = KafkaOpaqueSpout(settings(kafka, topic, start="timestamp", start_timestamp_ms=int(time.time() * 1000)))
    async with emitting(source) as hand:
        link, told = hand.emitter._reader.link, asyncio.Event()
        ask_time, ask_bounds = link.at_time, link.bounds

        async def at_time(partitions: Collection[PartitionId], timestamp_ms: int) -> Any:
            found = await ask_time(partitions, timestamp_ms)
            await produce(kafka, topic, [7])
            told.set()
            return found

        async def bounds(partitions: Collection[PartitionId], end: Any) -> Any:
            """Like after a refusal of the first request, for example by a leader that has just moved."""
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), SLOW_SECS)
            return await ask_bounds(partitions, end)

        link.at_time, link.bounds = at_time, bounds
        assert await hand.new(1, f"{topic}-0") == [7]
