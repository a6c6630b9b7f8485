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
    """Make the topic, and write each line of the logs as a record, in the order in which they arrived; return how many.

    It has one partition. Who catches up with several takes what comes first, and may be hours of the log further in one of them than in
    another, and Spark's watermark would have to wait for so long. Followed live, they are seconds apart: take as many as you like.
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
    """Read the topic to the end that it has now."""
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
    """The translator: the text of a record, whatever its bytes are."""
    return ((record.value or b"").decode(errors="replace"),)
