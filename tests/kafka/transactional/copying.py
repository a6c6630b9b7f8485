"""Transactional topology Kafka → bolt → Kafka, also as a process that may be killed at any time.

python -m tests.kafka.transactional.copying BROKERS FROM TO STATE_URL
"""

import asyncio
import sys
from typing import Any

import engine
from engine import BasicBolt, Config, Topology, Tuple
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaCommitter, KafkaCommitterConfig, KafkaTransactionalSpout
from engine.transactional import FailedBatch, TransactionalTopologyBuilder


class Keyed(BasicBolt):
    """Gives each number a key, and fails the batch of some numbers at their first arrival."""

    output_fields = ("key", "value")
    failing: set[int] = set()

    def execute(self, tup: Tuple) -> None:
        number = tup["value"]
        if number in self.failing:
            self.failing.discard(number)
            raise FailedBatch(f"the first sight of {number}")
        self.collector.emit((str(number % 10), str(number)))


def number(record: Any) -> tuple[int]:
    """The translator: the value as a number."""
    return (int(record.value),)


def topology_of(kafka: str, source: str, target: str, *, tasks: int = 2, pending: int = 3, **settings: Any) -> Topology:
    """lines × 2 → keyed × 2 → copies × tasks."""
    base: dict[str, Any] = {"batch_records": 50, "batch_wait_ms": 10.0, "stop_at_end": True}
    reading = KafkaBatchSpoutConfig(brokers=kafka, topics=source, translator=number, fields="value", **(base | settings))
    builder = TransactionalTopologyBuilder(f"copy-{target}", "lines", KafkaTransactionalSpout(reading), 2, max_spout_pending=pending)
    builder.set_bolt("keyed", Keyed, 2).shuffle_grouping("lines")
    committer = lambda: KafkaCommitter(KafkaCommitterConfig(brokers=kafka, topic=target, keyed_by="key"))  # noqa: E731 - as users write it
    builder.set_bolt("copies", committer, tasks).fields_grouping("keyed", "key")
    return builder.build()


async def copy(topology: Topology, state_url: str) -> None:
    """Run it to the end of the topic."""
    async with engine.run(topology, Config(state_provider=state_url, batch_interval_ms=10)) as run:
        print("running", flush=True)
        await run.completed()


if __name__ == "__main__":
    brokers, source, target, url = sys.argv[1:]
    asyncio.run(copy(topology_of(brokers, source, target), url))
