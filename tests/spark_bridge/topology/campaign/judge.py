"""Compares the committed counts of a round with a plain count of its lines."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable

from engine.transactional import committed_lines
from engine.transactional.values import values_at
from tests.spark_bridge.topology.campaign.places import Places

EMPTY_READS = 4
READ_MS = 500


async def faults_of(places: Places, lines: Iterable[str]) -> list[str]:
    """Return the differences from a plain count of the lines."""
    expected = Counter(word for line in lines for word in line.split())
    stored = await _stored(places)
    return [
        f"{word!r} is stored as {stored.get(word)}, but {expected.get(word)} is right"
        for word in sorted(expected.keys() | stored.keys())
        if expected.get(word) != stored.get(word)
    ]


async def _stored(places: Places) -> dict[str, int]:
    match places.store:
        case "files":
            return await asyncio.to_thread(_of_files, places)
        case "kafka":
            return await _of_kafka(places)
        case _:
            async with values_at(places.url, f"words_{places.name}").reader() as reader:
                return {key: value async for key, value in reader.items()}


def _of_files(places: Places) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for line in committed_lines(places.path("counts")):
        row = json.loads(line)
        counts[row["word"]] += row["count"]
    return dict(counts)


async def _of_kafka(places: Places) -> dict[str, int]:
    from aiokafka import AIOKafkaConsumer  # which may not be installed

    counts: Counter[str] = Counter()
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
    async with AIOKafkaConsumer(places.name, bootstrap_servers=places.url, **options) as consumer:
        empty = 0
        while empty < EMPTY_READS:
            records = [each for part in (await consumer.getmany(timeout_ms=READ_MS)).values() for each in part]
            empty = 0 if records else empty + 1
            for record in records:
                counts[record.key.decode()] += int(record.value)
    return dict(counts)
