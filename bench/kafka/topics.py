# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.kafka.topics ADDRESS RECORDS`: fills the topic that is read, unless it is full.

4 partitions, records with a value of 100 bytes and no key, in batches of the usual 16 KiB.
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench.kafka.job import whole_topic

PARTITIONS = 4
VALUE = bytes(range(100))


async def fill_whole(address: str, records: int) -> None:
    """Fill the topic of so many records; raises `SystemExit` when it holds others."""
    topic = whole_topic(records)
    await create(address, topic)
    held = await held_records(address, topic)
    if not held:
        await fill(address, topic, records)
    elif held != records:
        raise SystemExit(f"topic {topic!r} on {address} holds {held:,} records: delete it, and it is made anew")


async def create(address: str, topic: str) -> None:
    """Make a topic; one that is there stays as it is."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        if topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()


async def ready(address: str, topic: str) -> None:
    """Make a topic of one record in each partition: the leaders of a new one refuse the first for a while, which nobody shall wait for."""
    await create(address, topic)
    await fill(address, topic, PARTITIONS)


async def delete(address: str, topic: str) -> None:
    """Remove a topic with its records."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.delete_topics([topic])
    finally:
        await admin.close()


async def held_records(address: str, topic: str) -> int:
    """Return how many records a topic has been given."""
    async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in range(PARTITIONS)])
    return sum(ends.values())


async def fill(address: str, topic: str, records: int) -> None:
    """Append so many records, spread evenly, in whole batches, which is several times faster than record by record."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        left = [len(range(number, records, PARTITIONS)) for number in range(PARTITIONS)]
        while any(left):
            for number in range(PARTITIONS):
                batch = producer.create_batch()
                while left[number] and batch.append(key=None, value=VALUE, timestamp=None) is not None:
                    left[number] -= 1
                if batch.record_count():
                    await producer.send_batch(batch, topic, partition=number)


def main() -> None:
    """Fill a topic; print one line of JSON."""
    address, records = sys.argv[1], int(sys.argv[2])
    asyncio.run(fill_whole(address, records))
    print(json.dumps({"records": records}))


if __name__ == "__main__":
    main()
