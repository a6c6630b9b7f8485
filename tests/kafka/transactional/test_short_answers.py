"""Fetch answers without room for a partition: it has records, but none is in the answer (TX-7)."""

import asyncio
import random
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest

from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import partition_of
from tests.kafka.play import produce
from tests.kafka.transactional.hand import PATIENCE_SECS, PAUSE_SECS, emitting, settings
from tests.servers.kafka_fixtures import NewTopic

PARTITIONS = 4
RECORDS = 60
VALUE = b"x" * 4_000


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("spout", [KafkaTransactionalSpout, KafkaOpaqueSpout])
async def test_a_partition_left_out_of_a_full_answer_is_not_at_its_end(kafka: str, new_topic: NewTopic, spout: Any) -> None:
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


@pytest.mark.guarantee("TX-7")
async def test_an_empty_answer_does_not_skip_records_appended_after_it(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "shuffle", lambda asked: asked.sort(reverse=True))  # aiokafka asks for the busy partition first
    topic = await new_topic(partitions=2)
    idle, busy = f"{topic}-0", f"{topic}-1"
    options = {"batch_records": 7, "batch_wait_ms": 0.0, "fetch_max_bytes": 50_000, "translator": lambda record: (record.offset,)}
    async with emitting(KafkaTransactionalSpout(settings(kafka, topic, **options))) as hand, asyncio.timeout(PATIENCE_SECS):
        link, place = hand.emitter._reader.link, partition_of(idle)
        assert await hand.once(1, idle) == []
        while link.empty_up_to(place) != 0:  # noqa: ASYNC110 - until a broker has answered a fetch of this one alone
            await asyncio.sleep(PAUSE_SECS)
        assert await hand.once(1, busy) == []
        link.pause([place, partition_of(busy)])
        while link._consumer._fetcher._in_flight:  # noqa: ASYNC110 - so that the next answer is to a fetch of both, with all that follows
            await asyncio.sleep(PAUSE_SECS)
        for partition in (1, 0):
            await produce(kafka, topic, [VALUE] * RECORDS, partition=partition)
        link.fetch_all([place, partition_of(busy)])
        seen: dict[str, list[int]] = {busy: [], idle: []}
        txid = 1
        while any(len(offsets) < RECORDS for offsets in seen.values()):
            txid += 1
            for name, offsets in seen.items():
                offsets += await hand.once(txid, name)
                assert hand.range(txid, name).end == len(offsets), f"records of {name} were passed over"
            await asyncio.sleep(PAUSE_SECS / 10)


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("spout", [KafkaTransactionalSpout, KafkaOpaqueSpout])
async def test_a_leader_that_refers_to_a_replica_does_not_mean_an_empty_partition(kafka: str, new_topic: NewTopic, spout: Any) -> None:
    """With client_rack, a leader may answer with its end, no records, and a replica to read from (KIP-392)."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(RECORDS))
    async with emitting(spout(settings(kafka, topic, batch_wait_ms=0.0, client={"client_rack": "a"}))) as hand:
        client = hand.emitter._reader.link._consumer._client
        send, referred = client.send, []
        stops = asyncio.Event()

        async def refer(node_id: int, request: Any, **options: Any) -> Any:
            answer = await send(node_id, request, **options)
            if isinstance(request, FetchRequest) and not stops.is_set() and answer.topics:
                [(name, [(partition, *columns, _, _)])] = answer.topics
                answer.topics = [(name, [(partition, *columns, node_id, b"")])]
                referred.append(node_id)
            return answer

        client.send = refer
        while len(referred) < 3:
            assert await hand.once(1, f"{topic}-0") == []
            assert hand.range(1, f"{topic}-0").end == 0, "records were passed over"
            await asyncio.sleep(PAUSE_SECS)
        stops.set()
        assert await hand.until(1, f"{topic}-0", RECORDS) == list(range(RECORDS))
