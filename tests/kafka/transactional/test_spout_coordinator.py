"""The coordinator of Kafka's batch spouts begins transactions only if there are records to read."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from engine import SpoutExhausted
from engine.errors import FatalError
from engine.kafka.transactional import KafkaTransactionalSpout
from tests.kafka.play import produce
from tests.kafka.transactional.hand import coordinating, emitting, settings
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("TX-7")


def spout(kafka: str, topics: Any, **changes: Any) -> KafkaTransactionalSpout:
    return KafkaTransactionalSpout(settings(kafka, topics, **changes))


async def test_an_idle_topic_makes_no_transactions(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    async with coordinating(spout(kafka, topic)) as coordinator:
        assert not await coordinator.is_ready()
        await produce(kafka, topic, range(3), partition=1)
        assert await coordinator.is_ready()
        coordinator.positions = {f"{topic}-0": [0, 0, 0], f"{topic}-1": [0, 2, 2]}
        assert await coordinator.is_ready()
        coordinator.positions = {f"{topic}-0": [0, 0, 0], f"{topic}-1": [2, 3, 1]}
        assert not await coordinator.is_ready()


async def test_brokers_are_asked_only_after_all_known_records(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    async with coordinating(spout(kafka, topic)) as coordinator:
        asked, bounds = [], coordinator._link.bounds

        async def noted(partitions: Collection[Any], end: Any) -> Any:
            asked.append(end)
            return await bounds(partitions, end)

        monkeypatch.setattr(coordinator._link, "bounds", noted)
        for end in range(10):
            coordinator.positions = {f"{topic}-0": [0, end, end]}
            assert await coordinator.is_ready()
        assert asked == ["latest"]
        coordinator.positions = {f"{topic}-0": [0, 10, 10]}
        assert not await coordinator.is_ready()
        assert asked == ["latest", "latest"]


async def test_the_latest_start_is_fixed_by_the_first_transaction(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    async with coordinating(spout(kafka, topic, start="latest")) as coordinator:
        assert await coordinator.is_ready()
        coordinator.positions = {f"{topic}-0": [0, 0, 0]}
        assert not await coordinator.is_ready()


async def test_a_run_that_stops_at_the_end_is_exhausted_there(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(4))
    source = spout(kafka, topic, stop_at_end=True)
    async with coordinating(source) as coordinator, emitting(source) as hand:
        assert await coordinator.is_ready()
        await hand.new(1, f"{topic}-0")
        await hand.once(1, f"{topic}-1")
        coordinator.positions = {partition: metadata for (_, partition), metadata in hand.metadata.items()}
        with pytest.raises(SpoutExhausted):
            await coordinator.is_ready()


async def test_later_topics_of_a_pattern_are_found(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    source = spout(kafka, None, pattern=f"{topic}.*", refresh_ms=50.0)
    async with coordinating(source) as coordinator, emitting(source) as hand:
        assert list(coordinator.partitions()) == [f"{topic}-0"]
        from tests.servers.kafka_admin import create_topic

        other = await create_topic(kafka, f"{topic}-b", partitions=2)
        await produce(kafka, other, range(3), partition=1)
        async with asyncio.timeout(PATIENCE_SECS):
            while len(coordinator.partitions()) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert list(coordinator.partitions()) == [f"{topic}-0", f"{other}-0", f"{other}-1"]
        assert await coordinator.is_ready()
        assert await hand.until(5, f"{other}-1", 3) == [0, 1, 2]


async def test_a_topic_that_does_not_appear_ends_the_run(kafka: str) -> None:
    with pytest.raises(FatalError, match="topic 'not-there' does not exist"):
        async with coordinating(spout(kafka, "not-there", topic_timeout_secs=0.0)):
            pass
