# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,unused-ignore"
"""`python -m bench.transactions.lines ADDRESS RECORDS`: fills the topic of lines whose words are counted, unless it is full.

4 partitions; a line is 10 words, drawn evenly from 10,000.
"""

import asyncio
import json
import random
import sys

from aiokafka import AIOKafkaProducer

from bench.kafka.topics import PARTITIONS, create, held_records
from bench.transactions.catalog import WORDS_PER_LINE, lines_topic

DISTINCT_WORDS = 10_000


async def fill(address: str, records: int) -> None:
    """Fill it; raises `SystemExit` when it holds others."""
    topic = lines_topic(records)
    await create(address, topic)
    held = await held_records(address, topic)
    if not held:
        await _append(address, topic, records)
    elif held != records:
        raise SystemExit(f"topic {topic!r} on {address} holds {held:,} records: delete it, and it is made anew")


async def _append(address: str, topic: str, records: int) -> None:
    draws = random.Random(1)
    words = [f"word{number}" for number in range(DISTINCT_WORDS)]
    async with AIOKafkaProducer(bootstrap_servers=address, linger_ms=5) as producer:
        for number in range(records):
            line = " ".join(draws.choices(words, k=WORDS_PER_LINE)).encode()
            await producer.send(topic, line, partition=number % PARTITIONS)


def main() -> None:
    """Fill a topic; print one line of JSON."""
    address, records = sys.argv[1], int(sys.argv[2])
    asyncio.run(fill(address, records))
    print(json.dumps({"records": records}))


if __name__ == "__main__":
    main()
