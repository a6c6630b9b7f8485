"""The Kafka broker of the tests: it answers, keeps acknowledged records, can be frozen, and checks passwords and rights."""

import asyncio
import ssl

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from tests.servers.kafka_admin import Operation, Resource, allow, create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewBroker, NewTopic
from tests.servers.kafka_security import KafkaSecurity

pytestmark = pytest.mark.deep

ANN, PASSWORD = "ann", "s3cret:%/@"

MECHANISMS = [("SASL_PLAINTEXT", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_PLAINTEXT", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN")]


async def produce(bootstrap: str, topic: str, *values: bytes, **options: object) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **options)
    try:
        await producer.start()
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)
    finally:
        await producer.stop()  # `async with` leaves a producer open if its start fails


async def consumed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [(await consumer.getone()).value for _ in range(count)]


async def test_a_produced_record_is_consumed(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, b"one", b"two")
    assert await consumed(kafka, topic, 2) == [b"one", b"two"]


async def test_each_topic_is_new(new_topic: NewTopic) -> None:
    assert await new_topic() != await new_topic()


async def test_records_outlive_kill_9(own_broker: KafkaBroker) -> None:
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    await produce(own_broker.bootstrap, topic, b"before")
    own_broker.kill()
    own_broker.start()
    await produce(own_broker.bootstrap, topic, b"after")
    assert await consumed(own_broker.bootstrap, topic, 2) == [b"before", b"after"]


async def test_a_frozen_broker_answers_when_it_is_thawed(own_broker: KafkaBroker) -> None:
    topic = await create_topic(own_broker.bootstrap, "words", partitions=1)
    own_broker.freeze()
    sent = asyncio.create_task(produce(own_broker.bootstrap, topic, b"late"))
    done, _ = await asyncio.wait([sent], timeout=0.2)
    assert not done
    own_broker.thaw()
    await sent
    assert await consumed(own_broker.bootstrap, topic, 1) == [b"late"]


async def test_passwords_tls_and_rights_are_checked(new_broker: NewBroker) -> None:
    """Share one broker between these tests, because its start takes most of the time."""
    broker = new_broker(security=KafkaSecurity(users={ANN: PASSWORD}, tls=True, acls=True))
    topic = await create_topic(broker.bootstrap, "words", partitions=1)
    trusted = {"ssl_context": ssl.create_default_context(cafile=broker.folder / "ca.pem")}
    await produce(broker.address("SSL"), topic, b"over TLS", security_protocol="SSL", **trusted)
    for listener, mechanism in MECHANISMS:
        user = {"security_protocol": listener, "sasl_mechanism": mechanism, "sasl_plain_username": ANN, **trusted}
        with pytest.raises(KafkaConnectionError):
            await produce(broker.address(listener), topic, b"x", sasl_plain_password="wrong", **user)
        with pytest.raises(TopicAuthorizationFailedError):
            await produce(broker.address(listener), topic, b"x", sasl_plain_password=PASSWORD, **user)
    await allow(broker.bootstrap, ANN, Resource.TOPIC, topic, Operation.WRITE)
    await produce(broker.address(listener), topic, b"allowed", sasl_plain_password=PASSWORD, **user)
    assert await consumed(broker.bootstrap, topic, 2) == [b"over TLS", b"allowed"]
