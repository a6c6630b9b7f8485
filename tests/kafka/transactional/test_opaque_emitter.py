"""`KafkaOpaqueSpout`'s emitter on a real broker: it continues after losses, and repeats no record (TX-7)."""

import asyncio
from typing import Any

import pytest

from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import partition_of
from engine.transactional import FailedBatch
from tests.kafka.play import produce
from tests.kafka.transactional.hand import coordinating, emitting, forget_before, settings
from tests.servers.kafka_admin import create_topic, delete_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("TX-7")


def spout(kafka: str, topics: Any, **changes: Any) -> KafkaOpaqueSpout:
    return KafkaOpaqueSpout(settings(kafka, topics, **changes))


async def test_a_replay_starts_at_the_end_of_the_previous_batch_and_may_grow(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(12))
    async with emitting(spout(kafka, topic, batch_records=10)) as hand:
        name = f"{topic}-0"
        assert await hand.new(1, name) == list(range(10))
        assert await hand.new(2, name) == [10, 11]
        await produce(kafka, topic, range(12, 15))
        assert await hand.new(2, name) == [10, 11, 12, 13, 14]
        assert await hand.once(3, name) == []
        assert hand.metadata[3, name] is hand.metadata[2, name]


async def test_records_lost_to_retention_are_counted_and_reported(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    async with emitting(spout(kafka, topic, batch_records=5)) as hand:
        await hand.new(1, f"{topic}-0")
    await forget_before(kafka, topic, 8)
    async with emitting(spout(kafka, topic, batch_records=5)) as other:
        other.metadata = hand.metadata
        assert await other.new(2, f"{topic}-0") == [8, 9, 10, 11, 12]
        assert other.context.counts["kafka_offsets_lost"] == 3
        assert (
            "offset 5 does not exist; the broker has offsets 8 to 19. Reading continues at 8; 3 offsets were never read"
            in other.reported[0]
        )
        assert other.range(2, f"{topic}-0") == (8, 13, 5)


async def test_a_topic_that_was_created_again_is_read_from_the_beginning(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    async with emitting(spout(kafka, topic)) as hand:
        await hand.new(1, f"{topic}-0")
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, partitions=1)
    await produce(kafka, topic, range(100, 103))
    async with emitting(spout(kafka, topic)) as other:
        other.metadata = hand.metadata
        assert await other.new(2, f"{topic}-0") == [100, 101, 102]
        assert "was deleted and created again since it was read up to offset 20. Reading continues at 0" in other.reported[0]


async def test_an_unavailable_partition_does_not_delay_the_others(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=2)
    there, away = f"{topic}-0", f"{topic}-1"
    for number in (0, 1):
        await produce(kafka, topic, range(20), partition=number)
    source = spout(kafka, topic, batch_records=5, batch_wait_ms=100.0)
    async with emitting(source) as hand, coordinating(source) as coordinator:
        for link in (hand.emitter._reader.link, coordinator._link):
            monkeypatch.setattr(link, "leader_of", lambda place: None if str(place) == away else 1)
        assert await coordinator.is_ready()
        assert await hand.new(1, there) == [0, 1, 2, 3, 4]
        assert (await hand.once(1, away), hand.metadata[1, away]) == ([], None)
        coordinator.positions = {there: [15, 20, 5], away: None}
        assert not await coordinator.is_ready()
        monkeypatch.undo()
        assert await coordinator.is_ready()
        assert await hand.new(2, there) == [5, 6, 7, 8, 9]
        assert await hand.until(2, away, 5) == [0, 1, 2, 3, 4]
        hand.emitter._reader.link.pause([partition_of(away)])  # as a leader that has gone: nothing comes
        last = hand.txid
        hand.metadata[last, there] = hand.metadata[2, there]
        assert (await hand.once(last + 1, away), await hand.new(last + 1, there)) == ([], [10, 11, 12, 13, 14])
        assert hand.metadata[last + 1, away] is hand.metadata[last, away]
        hand.emitter._reader.link.resume([partition_of(away)])
        assert await hand.until(last + 2, away, 15) == list(range(5, 20))


@pytest.mark.deep
async def test_batches_are_empty_while_the_broker_hangs_or_is_dead(own_broker: KafkaBroker) -> None:
    kafka, name = own_broker.bootstrap, "lines-0"
    await create_topic(kafka, "lines", partitions=1)
    await produce(kafka, "lines", range(20))
    source = spout(kafka, "lines", request_timeout_ms=1_000, batch_records=15, batch_wait_ms=100.0)
    async with emitting(source) as hand, coordinating(source) as coordinator:
        assert await coordinator.is_ready()
        found = await hand.new(1, name)
        for harm, mend in ((own_broker.freeze, own_broker.thaw), (own_broker.kill, own_broker.start)):
            harm()
            while got := await hand.once(hand.txid + 1, name):  # what was read ahead
                found += got
            assert hand.metadata[hand.txid, name] is hand.metadata[hand.txid - 1, name]
            coordinator.positions = {name: hand.metadata[hand.txid, name]}
            await coordinator.is_ready()  # does not hang
            await asyncio.to_thread(mend)
            more = range(len(found), len(found) + 3) if len(found) >= 20 else range(20, 23)
            await produce(kafka, "lines", more)
            found += await hand.until(hand.txid + 1, name, more.stop - len(found))
    assert found == list(range(26))


async def test_a_replay_fails_its_batch_while_the_broker_is_away(own_broker: KafkaBroker) -> None:
    await create_topic(own_broker.bootstrap, "lines", partitions=1)
    await produce(own_broker.bootstrap, "lines", range(5))
    source = KafkaTransactionalSpout(settings(own_broker.bootstrap, "lines", replay_timeout_ms=300.0, request_timeout_ms=1_000))
    async with emitting(source) as hand:
        assert await hand.new(1, "lines-0") == list(range(5))
        own_broker.kill()
        with pytest.raises(FailedBatch, match="no record of offsets 0 to 5 has come for"):
            await hand.again(1, "lines-0")
        await asyncio.to_thread(own_broker.start)
        while True:
            try:
                assert await hand.again(1, "lines-0") == list(range(5))
                break
            except FailedBatch:
                continue
