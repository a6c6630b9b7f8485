"""Answers of a broker that had no room for a partition: nothing of it came, though records are there (TX-7)."""

import asyncio
from typing import Any

import pytest

from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from tests.kafka.play import produce
from tests.kafka.transactional.hand import PATIENCE_SECS, PAUSE_SECS, emitting, settings
from tests.servers.kafka_fixtures import NewTopic

PARTITIONS = 4
RECORDS = 60
VALUE = b"x" * 4_000


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("spout", [KafkaTransactionalSpout, KafkaOpaqueSpout])
async def test_a_partition_for_which_an_answer_had_no_room_is_not_taken_for_read(kafka: str, new_topic: NewTopic, spout: Any) -> None:
    topic = await new_topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        await produce(kafka, topic, [VALUE] * RECORDS, partition=partition)
    options = {"batch_records": 7, "batch_wait_ms": 0.0, "fetch_max_bytes": 50_000, "translator": lambda record: (record.offset,)}
    source = spout(settings(kafka, topic, **options))
    seen: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    async with emitting(source) as hand, asyncio.timeout(PATIENCE_SECS):
        txid = 0
        while any(len(offsets) < RECORDS for offsets in seen.values()):
            txid += 1
            for partition, offsets in seen.items():
                offsets += await hand.once(txid, f"{topic}-{partition}")
                taken = hand.range(txid, f"{topic}-{partition}")
                assert taken is None or taken.end == len(offsets), f"partition {partition}: records before {taken} were passed over"
            await asyncio.sleep(PAUSE_SECS / 10)
    assert all(offsets == list(range(RECORDS)) for offsets in seen.values())
