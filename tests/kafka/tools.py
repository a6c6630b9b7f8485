"""Commands `kafka …` on a real broker, and dead letters for them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from engine.cli.main import run_command_line
from engine.errors import Failure
from engine.kafka.dead_letters.dead_letter import DeadLetter

Captured = pytest.CaptureFixture[str]


async def printed(capsys: Captured, *arguments: str, status: int = 0) -> tuple[str, str]:
    """Run a command of `kafka` in a thread, and return its standard output and error."""
    capsys.readouterr()
    found = await asyncio.to_thread(run_command_line, ["kafka", *arguments])
    out, err = capsys.readouterr()
    assert found == status, out + err
    return out, err


async def shown(capsys: Captured, *arguments: str, status: int = 0) -> Any:
    """Return the JSON object that a command printed."""
    return json.loads((await printed(capsys, *arguments, "--json", status=status))[0])


async def lines(capsys: Captured, *arguments: str) -> list[Any]:
    """Return the JSON objects that a command printed, one in each line."""
    return [json.loads(line) for line in (await printed(capsys, *arguments, "--json"))[0].splitlines()]


def dead_letter_of(topic: str, number: int, **changes: Any) -> DeadLetter:
    """A dead letter of a record of a topic: its offset, key and value are a number."""
    base: dict[str, Any] = {
        "topic": topic,
        "partition": 0,
        "offset": number,
        "timestamp_ms": 1_700_000_000_000,
        "key": f"k{number}".encode(),
        "value": f"v{number}".encode(),
        "headers": (("trace", b"t"), ("trace", bytes([255])), ("null", None)),
        "topology": "words",
        "failure": Failure("error", "parse", 3, f"KeyError: {number}"),
        "attempts": 2,
        "failed_at_ms": 1_700_000_100_000 + number,
    }
    return DeadLetter(**(base | changes))


async def write_letters(kafka: str, topic: str, letters: Sequence[DeadLetter]) -> None:
    """Append letters to partition 0 of a dead-letter topic."""
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for letter in letters:
            await producer.send_and_wait(topic, letter.value, letter.key, partition=0, headers=letter.wire_headers())


async def write_many(kafka: str, topic: str, letters: Sequence[DeadLetter]) -> None:
    """Append letters to partitions by their keys, many at once."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=5) as producer:
        await asyncio.gather(*[await producer.send(topic, one.value, one.key, headers=one.wire_headers()) for one in letters])


async def records_of(kafka: str, topic: str) -> list[Any]:
    """All records of a topic, by partition and offset."""
    async with AIOKafkaConsumer(bootstrap_servers=kafka) as consumer:
        await consumer._client.set_topics([topic])
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        found: list[Any] = []
        while len(found) < sum(ends.values()):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += records
        return sorted(found, key=lambda record: (record.partition, record.offset))
