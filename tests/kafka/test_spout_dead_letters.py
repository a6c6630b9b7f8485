"""Records that a spout gives up go to the dead letters, and only then are they done (KS-4)."""

import json
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from engine.kafka.dead_letters.dead_letter import read_dead_letter
from tests.kafka.play import Notes, all_of, committed, playing, produce, settings
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-4")


async def letters(kafka: str, topic: str, count: int) -> list[Any]:
    async with AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [read_dead_letter(await consumer.getone()) for _ in range(count)]


async def test_a_record_that_always_fails_is_committed_after_its_dead_letter(kafka: str, new_topic: NewTopic) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, range(50))
    config, notes = settings(kafka, topic, max_retries=2, dead_letter_topic=dead), Notes()
    notes.fail_times = {7: 1000}
    assert (await all_of(config, notes)).count(7) == 3
    assert (await committed(kafka, config.group or "", topic)).offset == 50
    (letter,) = await letters(kafka, dead, 1)
    assert (letter.topic, letter.partition, letter.offset, letter.value) == (topic, 0, 7, b"7")
    assert letter.attempts == 3


async def test_a_record_is_not_done_while_dead_letters_cannot_be_written(kafka: str, new_topic: NewTopic) -> None:
    """Given dead letters that no broker takes, when a record is given up, then the commit does not pass it."""
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1, settings={"max.message.bytes": "10"})
    await produce(kafka, topic, range(50))
    config, notes = settings(kafka, topic, max_retries=0, dead_letter_topic=dead, retry_max_ms=50.0), Notes()
    notes.fail_times = {7: 1000}
    async with playing(config, notes) as run:
        await notes.until(lambda: notes.got.count(7) >= 3)
        await run.deactivate()
        assert (await committed(kafka, config.group or "", topic)).offset == 7


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once", "no_guarantee"])
async def test_an_unreadable_record_becomes_a_dead_letter(kafka: str, new_topic: NewTopic, guarantee: str) -> None:
    topic, dead = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, ['{"n": 1}', "not json", '{"n": 3}'])
    retries = {"max_retries": 1} if guarantee == "at_least_once" else {}
    config = settings(
        kafka, topic, guarantee=guarantee, dead_letter_topic=dead, translator=lambda record: (json.loads(record.value)["n"],), **retries
    )
    assert await all_of(config) == [1, 3]
    assert (await committed(kafka, config.group or "", topic)).offset == 3
    (letter,) = await letters(kafka, dead, 1)
    assert (letter.offset, letter.value) == (1, b"not json")
    assert "JSONDecodeError" in (letter.failure.error or "")
