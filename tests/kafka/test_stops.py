"""A consumer that stops while no broker answers."""

import asyncio
from collections.abc import Collection

from engine.kafka.consumer_link import ConsumerLink
from engine.kafka.offset_manager import PartitionId
from engine.kafka.partitions import Membership
from tests.kafka.play import settings
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker

FETCH_FAILS_SECS = 0.3


async def not_revoked() -> None:
    raise AssertionError


def not_asked(assigned: Collection[PartitionId], membership: Membership | None) -> None:
    """Nobody reads."""


async def test_a_fetch_that_pauses_after_an_error_does_not_keep_a_consumer_from_stopping(own_broker: KafkaBroker) -> None:
    """Given a broker that is dead, when the consumer stops, then no cancellation comes out of that, and no task of it is left."""
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    before = asyncio.all_tasks()
    link = ConsumerLink(settings(own_broker.bootstrap, topic, membership="assign", group=None), "us", None, not_revoked, not_asked)
    await link.start()
    await link.look_for([topic])
    link.take_over([PartitionId(topic, 0)])
    link.seek(PartitionId(topic, 0), 0)
    await link.poll(FETCH_FAILS_SECS, 10)
    own_broker.kill()
    await link.poll(FETCH_FAILS_SECS, 10)

    assert await link.stop()
    assert asyncio.all_tasks() == before
