"""Topologies on a real broker, with a bolt that records its tuples and settles them as a test wants."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

import engine
from engine import Bolt, Config, Run, Topology, TopologyBuilder, Tuple
from engine.kafka import KafkaSpout, KafkaSpoutConfig
from tests.servers.kafka_admin import admin, fresh_name

PATIENCE_SECS: Final = 60.0
PAUSE_SECS: Final = 0.02


async def produce(kafka: str, topic: str, values: Iterable[Any], *, partition: int | None = 0, **options: Any) -> None:
    """Append records whose values are these, as text; a tuple is (key, value), None is no value."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=2, **options) as producer:
        rows = [value if isinstance(value, tuple) else (None, value) for value in values]
        sent = [await producer.send(topic, key=key, value=_bytes(value), partition=partition) for key, value in rows]
        await asyncio.gather(*sent)


def _bytes(value: object) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else str(value).encode()


async def committed(kafka: str, group: str, topic: str, partition: int = 0) -> OffsetAndMetadata:
    """Return the group's commit of a partition. Offset -1 means that there is none."""
    async with admin(kafka) as client:
        found = await client.list_consumer_group_offsets(group, partitions=[TopicPartition(topic, partition)])
        return found.get(TopicPartition(topic, partition)) or OffsetAndMetadata(-1, "")


async def until_committed(kafka: str, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Wait until the group has committed so far."""
    async with asyncio.timeout(PATIENCE_SECS):
        while (await committed(kafka, group, topic, partition)).offset < offset:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECS)


async def commit(kafka: str, group: str, topic: str, offset: int, metadata: str = "", partition: int = 0) -> None:
    """Commit as another program."""
    async with AIOKafkaConsumer(bootstrap_servers=kafka, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        await consumer.commit({TopicPartition(topic, partition): (offset, metadata)})


class Notes:
    """Records that the bolts of one run got, and their instructions."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.tuples: list[Tuple] = []
        self.held: dict[Any, tuple[Any, Tuple]] = {}
        self.hold: Callable[[Any], bool] = lambda value: False
        """Values that are neither acked nor failed."""
        self.fail_times: dict[Any, int] = {}
        """Number of failures of a value before its ack."""
        self.changed = asyncio.Event()

    def release(self, *values: Any) -> None:
        """Ack these held values, or all."""
        for value in values or tuple(self.held):
            collector, tup = self.held.pop(value)
            collector.ack(tup)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition. Fail after a time limit."""
        async with asyncio.timeout(PATIENCE_SECS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_SECS)


class Noting(Bolt):
    """Acks, fails or holds by the first value."""

    output_fields = None

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def execute(self, tup: Tuple) -> None:
        notes, value = self.notes, tup[0]
        notes.got.append(value)
        notes.tuples.append(tup)
        if notes.fail_times.get(value, 0) > 0:
            notes.fail_times[value] -= 1
            self.collector.fail(tup)
        elif notes.hold(value):
            notes.held[value] = (self.collector, tup)
        else:
            self.collector.ack(tup)


def number(record: Any) -> tuple[int]:
    """The translator of most tests: the value as a number."""
    return (int(record.value),)


def settings(kafka: str, topic: str, **changes: Any) -> KafkaSpoutConfig:
    """A config for tests: quick commits, a group of its own."""
    base: dict[str, Any] = {
        "brokers": kafka,
        "group": fresh_name("group"),
        "translator": number,
        "fields": "value",
        "offset_commit_period_ms": 3_600_000.0,
        "session_timeout_ms": 10_000,
    }
    base |= {} if "pattern" in changes else {"topics": topic}
    return KafkaSpoutConfig(**(base | changes))


def topology_of(
    config: KafkaSpoutConfig, notes: Notes, *, name: str = "play", tasks: int = 1, streams: Sequence[str] = ("default",)
) -> Topology:
    builder = TopologyBuilder(name)
    builder.set_spout("kafka", lambda: KafkaSpout(config), parallelism=tasks)
    bolt = builder.set_bolt("notes", lambda: Noting(notes))
    for stream in streams:
        bolt.global_grouping("kafka", stream=stream)
    return builder.build()


@asynccontextmanager
async def playing(config: KafkaSpoutConfig, notes: Notes, engine_config: Config | None = None, **options: Any) -> AsyncIterator[Run]:
    """Return a run, which is stopped without a drain at the end of the block."""
    async with engine.run(topology_of(config, notes, **options), engine_config or Config(enable_message_timeouts=False)) as run:
        yield run
        await run.stop()


async def all_of(config: KafkaSpoutConfig, notes: Notes | None = None, engine_config: Config | None = None, **options: Any) -> list[Any]:
    """Run to the end of the topic, and return the values."""
    notes = notes or Notes()
    async with engine.run(topology_of(dataclasses.replace(config, stop_at_end=True), notes, **options), engine_config or Config()) as run:
        async with asyncio.timeout(PATIENCE_SECS):
            await run.completed()
    return notes.got


def heard(run: Run) -> list[str]:
    """Return a list that gets the text of each later report."""
    texts: list[str] = []
    run.on_report.append(lambda report: texts.append(report.text))
    return texts


def counted(run: Run, name: str) -> float:
    """Return a counter of the spout, summed over its tasks."""
    return sum(metric.value for metric in run.snapshot().user_metrics if metric.name == name)


def gauges(run: Run, name: str) -> dict[str, float]:
    """Return a gauge of the spout, by partition."""
    return {dict(metric.own_labels)["partition"]: metric.value for metric in run.snapshot().user_metrics if metric.name == name}
