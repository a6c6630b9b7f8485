"""A consumer that stops while no broker answers, or when its client has failed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from engine.kafka.client.admin_client import stop_consumer
from engine.kafka.client.consumer_link import ConsumerLink
from engine.kafka.client.partition import Membership, PartitionId
from tests.kafka.play import PATIENCE_SECS, settings
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

POLL_SECS = 0.1


async def not_revoked() -> None:
    raise AssertionError


def not_asked(assigned: Collection[PartitionId], membership: Membership | None) -> None:
    """Ignore the bytes."""


async def until_a_fetch_pauses(consumer: AIOKafkaConsumer, poll: Callable[[], Awaitable[object]], caplog: pytest.LogCaptureFixture) -> None:
    """Poll until a fetch has failed. Its pause outlasts the rest of the test."""
    consumer._fetcher._retry_backoff = PATIENCE_SECS
    async with asyncio.timeout(PATIENCE_SECS):
        while "Failed fetch messages" not in caplog.text:
            await poll()


async def test_a_consumer_stops_while_its_fetch_pauses_after_an_error(own_broker: KafkaBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Given a dead broker, when the consumer stops, then it raises no CancelledError, and leaves no task."""
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    before = asyncio.all_tasks()
    link = ConsumerLink(settings(own_broker.bootstrap, topic, membership="assign", group=None), "us", None, not_revoked, not_asked)
    await link.start()
    await link.look_for([topic])
    link.take_over([PartitionId(topic, 0)])
    link.seek(PartitionId(topic, 0), 0)
    await link.poll(POLL_SECS, 10)
    own_broker.kill()
    await until_a_fetch_pauses(link._consumer, lambda: link.poll(POLL_SECS, 10), caplog)

    assert await link.stop()
    assert asyncio.all_tasks() == before


async def test_a_consumer_of_the_tools_stops_while_its_fetch_pauses(own_broker: KafkaBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Given the same, when a consumer of the tools stops, then no task of it is left."""
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    before = asyncio.all_tasks()
    consumer = AIOKafkaConsumer(bootstrap_servers=own_broker.bootstrap, enable_auto_commit=False)
    await consumer.start()
    await consumer._client.set_topics([topic])
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    await consumer.getmany(timeout_ms=POLL_SECS * 1000)
    own_broker.kill()
    await until_a_fetch_pauses(consumer, lambda: consumer.getmany(timeout_ms=POLL_SECS * 1000), caplog)

    await stop_consumer(consumer)
    assert asyncio.all_tasks() == before


async def test_a_failed_client_leaves_no_tasks_when_it_stops(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a failed fetcher of aiokafka, when the consumer stops, then it raises this error, and leaves no task."""
    topic = await new_topic(partitions=1)
    before = asyncio.all_tasks()
    link = ConsumerLink(settings(kafka, topic, membership="assign", group=None), "us", None, not_revoked, not_asked)
    await link.start()
    await link.look_for([topic])
    monkeypatch.delattr(link._consumer._fetcher, "_records")
    link.take_over([PartitionId(topic, 0)])
    fetching = link._consumer._fetcher._fetch_task
    await asyncio.wait([fetching])
    assert fetching.exception() is not None

    with pytest.raises(type(fetching.exception())):
        await link.stop()
    await asyncio.sleep(0)  # its reads are cancelled
    assert asyncio.all_tasks() == before
    assert not any(one.connected() for one in link._consumer._client._conns.values())
