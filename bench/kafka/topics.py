"""Topics on the broker, each with 4 partitions. Readers share full topics, and each writing run fills a new topic."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.kafka.job import Job, Tally, broker_address, full_topic

PARTITIONS = 4
VALUE = bytes(range(100))
"""Value of a plain record. It has no key."""
WORDS_PER_LINE, DISTINCT_WORDS = 10, 10_000


def lines_topic(lines: int, words: int = WORDS_PER_LINE) -> str:
    """Return the name of the topic with this number of lines of so many words."""
    return f"stormcell-bench-lines-{lines}" + (f"-{words}" if words != WORDS_PER_LINE else "")


async def fill_with_records(records: int) -> dict[str, float]:
    """Fill the topic with this number of plain records, unless it is already full."""
    return await _fill_once(full_topic(records), records, _append_plain)


async def fill_with_lines(records: int) -> dict[str, float]:
    """Fill the topic with this number of lines, unless it is already full. A line has 10 words, drawn evenly from 10,000."""
    return await _fill_once(lines_topic(records), records, _append_lines)


async def fill_with_words(records: int) -> dict[str, float]:
    """Fill the topic with this number of lines of one word, unless it is already full."""
    return await _fill_once(lines_topic(records, 1), records, partial(_append_lines, words=1))


async def create_topic(topic: str) -> None:
    """Create a topic with one record in each partition. The leaders of a new topic refuse records for a while."""
    await _create(topic)
    await _append_plain(topic, PARTITIONS)


async def delete_topic(topic: str) -> None:
    """Delete a topic with its records."""
    async with _admin() as admin:
        await admin.delete_topics([topic])


@asynccontextmanager
async def new_topic(job: Job) -> AsyncIterator[None]:
    """Create the topic of a job, and delete it at the end."""
    await create_topic(job.topic)
    try:
        yield
    finally:
        await delete_topic(job.topic)


async def appended_figures(job: Job, tally: Tally) -> dict[str, float]:
    """Return the figures of a run that filled its topic. Refuse a run that lost or repeated a record."""
    held = await _held_records(job.topic) - PARTITIONS
    if held != job.records:
        raise SystemExit(f"{held:,} records are in the topic, {job.records:,} were appended")
    return tally.figures(job)


async def _fill_once(topic: str, records: int, append: Callable[[str, int], Coroutine[Any, Any, None]]) -> dict[str, float]:
    await _create(topic)
    held = await _held_records(topic)
    if not held:
        await append(topic, records)
    elif held != records:
        raise SystemExit(f"topic {topic!r} on {broker_address()} holds {held:,} records. Delete it, and run again.")
    return {"records": records}


async def _append_plain(topic: str, records: int) -> None:
    """Append in whole batches of 16 KiB, the default. This is several times faster than record by record."""
    async with AIOKafkaProducer(bootstrap_servers=broker_address()) as producer:
        left = [len(range(number, records, PARTITIONS)) for number in range(PARTITIONS)]
        while any(left):
            for number in range(PARTITIONS):
                batch = producer.create_batch()
                while left[number] and batch.append(key=None, value=VALUE, timestamp=None) is not None:
                    left[number] -= 1
                if batch.record_count():
                    await producer.send_batch(batch, topic, partition=number)


async def _append_lines(topic: str, records: int, words: int = WORDS_PER_LINE) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker_address(), linger_ms=5) as producer:
        for number, line in enumerate(_lines(records, words)):
            await producer.send(topic, line, partition=number % PARTITIONS)


def _lines(count: int, words_per_line: int) -> Iterator[bytes]:
    draws = random.Random(1)
    words = [f"word{number}" for number in range(DISTINCT_WORDS)]
    return (" ".join(draws.choices(words, k=words_per_line)).encode() for _ in range(count))


async def _create(topic: str) -> None:
    async with _admin() as admin:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])


async def _held_records(topic: str) -> int:
    async with AIOKafkaConsumer(bootstrap_servers=broker_address()) as consumer:
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return sum(ends.values())


@asynccontextmanager
async def _admin() -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker_address())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()
