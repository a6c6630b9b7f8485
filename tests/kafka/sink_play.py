"""Topologies that write fed tuples to a real broker, and readers of the written records."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from engine import Config, Run, Topology, TopologyBuilder
from engine.errors import Failure
from engine.kafka import KafkaSink, KafkaSinkConfig
from engine.kafka.dead_letters.dead_letter_writer import DeadLetterWriter
from engine.testing import Feeder, Finished, run_topology_async

PATIENCE_SECS: Final = 60.0
PAUSE_SECS: Final = 0.02


def sink_config(kafka: str, topic: Any, **changes: Any) -> KafkaSinkConfig:
    """A config for tests."""
    return KafkaSinkConfig(**({"brokers": kafka, "topic": topic, "topic_timeout_secs": 5.0, "flush_timeout_secs": 3.0} | changes))


def topology_of(config: KafkaSinkConfig, feeder: Feeder, *, tasks: int = 1) -> Topology:
    """feeder -> sink."""
    builder = TopologyBuilder("writing")
    builder.set_spout("fed", feeder)
    builder.set_bolt("sink", lambda: KafkaSink(config), parallelism=tasks).shuffle_grouping("fed")
    return builder.build()


def fed(values: Iterable[Any], *fields: str, max_retries: int = 0) -> Feeder:
    """Return a closed feeder with these values."""
    feeder = Feeder(*(fields or ("value",)), max_retries=max_retries)
    for value in values:
        feeder.feed(value if isinstance(value, tuple) else (value,))
    feeder.close()
    return feeder


async def write(
    config: KafkaSinkConfig, feeder: Feeder, *, during: Callable[[Run], Awaitable[object]] | None = None, **options: Any
) -> Finished:
    """Run until all fed tuples are settled."""
    engine_config = options.pop("engine_config", Config())
    return await run_topology_async(topology_of(config, feeder, **options), engine_config, during=during, limit_secs=PATIENCE_SECS)


async def written(kafka: str, topic: str) -> list[Any]:
    """All records of a topic, partition by partition."""
    async with AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        async with asyncio.timeout(PATIENCE_SECS):
            while not (partitions := consumer.partitions_for_topic(topic)):
                await consumer._client.set_topics([topic])
            places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            found: dict[TopicPartition, list[Any]] = {place: [] for place in places}
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[place] += records
    return [record for place in places for record in found[place]]


async def values(kafka: str, topic: str) -> list[bytes]:
    """The values of a topic's records."""
    return [record.value for record in await written(kafka, topic)]


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition. Fail after a time limit."""
    async with asyncio.timeout(PATIENCE_SECS):
        while True:
            if condition():
                return
            await asyncio.sleep(PAUSE_SECS)


# Dead letters


@dataclass
class Record:
    """A record as aiokafka gives it."""

    topic: str = "words"
    partition: int = 3
    offset: int = 17
    timestamp: int = 1_700_000_000_000
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes], ...] = (("trace", b"17"),)


FAILURE: Final = Failure("error", "count", 7, "KeyError: 'wörd'")


@asynccontextmanager
async def burying(kafka: str, topic: str, **changes: Any) -> AsyncIterator[tuple[DeadLetterWriter, list[BaseException]]]:
    """Return a started dead-letter writer, and its reports."""
    config = KafkaSinkConfig(**({"brokers": kafka, "topic": "words", "dead_letter_topic": topic} | changes))
    context: Any = SimpleNamespace(
        topology_name="counting", component_id="words", task_index=0, clock=SimpleNamespace(wall=time.time, now=time.monotonic)
    )
    reported: list[BaseException] = []
    letters = DeadLetterWriter(config, context, reported.append)
    await letters.start()
    try:
        yield letters, reported
    finally:
        await letters.stop()
    assert letters.unacknowledged == 0
