"""A flow from Kafka to Kafka: JSON in, records with a key out, unreadable values quarantined."""

import json
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from engine import Config
from engine import run as start_run
from engine.kafka import KafkaSink, KafkaSinkConfig, KafkaSpout, KafkaSpoutConfig
from engine.streams import Failed, Flow, json_of
from tests.kafka.tools import records_of
from tests.servers.kafka_fixtures import NewTopic


class Click(NamedTuple):
    user: str
    ms: int


async def test_rows_from_kafka_go_to_kafka(kafka: str, new_topic: NewTopic) -> None:
    source, target = await new_topic(), await new_topic()
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for number in range(200):
            value = b"{" if number == 7 else json.dumps({"user": f"u{number % 5}", "ms": number, "agent": "curl"}).encode()
            await producer.send(source, value)
        await producer.flush()
    config = KafkaSpoutConfig(brokers=kafka, topics=source, group=f"{source}-group", stop_at_end=True)
    sink_config, bad = KafkaSinkConfig(brokers=kafka, topic=target), list[Failed[dict[str, Any]]]()
    flow = Flow("clicks", Config(message_timeout_secs=20))
    clicks = flow.stream("clicks", lambda: KafkaSpout(config), Click, value=json_of(Click), divert=True)
    slow = clicks.filter(lambda click: click.ms >= 100, name="slow")
    slow.sink("out", lambda: KafkaSink(sink_config), fields={"key": lambda click: click.user, "value": lambda click: str(click.ms)})
    clicks.failed.sink("bad", bad.append)
    async with start_run(flow.topology()) as run:
        await run.completed()
    records = await records_of(kafka, target)
    assert sorted((record.key, int(record.value)) for record in records) == sorted(
        (f"u{number % 5}".encode(), number) for number in range(100, 200)
    )
    ((row, error, _, stage),) = bad
    assert (row["value"], stage) == (b"{", "clicks")
    assert "source 'clicks': field 'value': b'{' is no JSON of a Click" in error
