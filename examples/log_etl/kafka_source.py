"""Kafka instead of files: the logs as records of a topic, and the spout that reads them."""

from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from engine.kafka import KafkaRecord
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional.spouts import AnySpout
from traffic import in_order

TOPIC: Final = "access-log"


async def fill(brokers: str, logs: Path) -> int:
    """Create the topic and write each line of the logs as a record, in order of arrival. Returns the number of lines.

    The topic has one partition. A consumer with a backlog in several partitions may be hours further in one of them. Spark's watermark
    would have to wait for the others. Live partitions are seconds apart, so a live topic may have many.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()
    count = 0
    async with AIOKafkaProducer(bootstrap_servers=brokers, linger_ms=20, max_batch_size=2**18) as producer:
        for line in in_order(logs):
            await producer.send(TOPIC, line, partition=0)
            count += 1
    return count


def of_kafka(brokers: str, batch_records: int) -> AnySpout:
    """Return a spout that reads the topic to its present end."""
    config = KafkaBatchSpoutConfig(
        brokers=brokers,
        topics=TOPIC,
        translator=line_of,
        fields="line",
        batch_records=batch_records,
        stop_at_end=True,
    )
    return KafkaTransactionalSpout(config)


def line_of(record: KafkaRecord) -> tuple[str]:
    """Translate a record to its text, with any bytes."""
    return ((record.value or b"").decode(errors="replace"),)
