"""Offsets without records: compaction before, between and behind batches (TX-7)."""

import asyncio
from typing import Any

import pytest

from engine.errors import FatalError
from engine.kafka.transactional import KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import partition_of
from tests.kafka.play import produce
from tests.kafka.transactional.hand import PATIENCE_SECS, PAUSE_SECS, coordinating, emitting, settings
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_fixtures import NewBroker, NewTopic

pytestmark = pytest.mark.guarantee("TX-7")
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "0",
    "segment.ms": "50",
}


def spout(kafka: str, topics: Any, **changes: Any) -> KafkaTransactionalSpout:
    return KafkaTransactionalSpout(settings(kafka, topics, **changes))


async def until_compacted(kafka: str, topic: str, before: int) -> list[int]:
    """Append records of other keys until compaction has deleted some of the first ones. Return the rest of these."""
    async with asyncio.timeout(PATIENCE_SECS):
        while True:
            await produce(kafka, topic, [(b"other", 1_000)])
            async with emitting(spout(kafka, topic)) as hand:
                left = [value for value in await hand.new(1, f"{topic}-0") if value < 1_000]
            if len(left) < before:
                return left
            await asyncio.sleep(PAUSE_SECS)


async def test_compaction_before_a_batch_is_accepted_and_after_it_reported(new_broker: NewBroker) -> None:
    kafka = new_broker(settings={"log.cleaner.backoff.ms": 50, "log.initial.task.delay.ms": 50}).bootstrap
    topic, name = await create_topic(kafka, "compacted", partitions=1, settings=COMPACTED), "compacted-0"
    await produce(kafka, topic, [(str(number % 5).encode(), number) for number in range(20)])
    async with emitting(spout(kafka, topic, batch_records=20)) as before:
        assert await before.new(1, name) == list(range(20))
    left = await until_compacted(kafka, topic, 20)
    async with emitting(spout(kafka, topic, batch_records=len(left))) as after:
        assert await after.new(1, name) == left
        assert after.range(1, name).end - after.range(1, name).start > len(left)
        assert await after.again(1, name) == left
        after.metadata = before.metadata
        with pytest.raises(FatalError, match=rf"of the 20 records of offsets 0 to 20, {20 - len(left)} are gone"):
            await after.again(1, name)


async def test_offsets_after_the_last_record_are_skipped(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    name, place = f"{topic}-0", partition_of(f"{topic}-0")
    source = spout(kafka, topic, batch_wait_ms=0.0)
    async with emitting(source) as hand, coordinating(source) as coordinator:
        link = hand.emitter._reader.link
        assert await hand.until(1, name, 10) == list(range(10))
        last = hand.txid
        async with asyncio.timeout(PATIENCE_SECS):
            while link.empty_up_to(place) is None:  # noqa: ASYNC110 - until a broker has answered that nothing is behind them
                await asyncio.sleep(PAUSE_SECS)
        assert link.empty_up_to(place) == 10
        link.begin(place, 4)
        assert link.empty_up_to(place) is None
        for told in ("empty_up_to", "surely_empty_up_to"):
            monkeypatch.setattr(link, told, lambda place: 13)  # as where compaction has taken the last three
        monkeypatch.setitem(coordinator._ends.known, place, 13)
        coordinator.positions = {name: hand.metadata[last, name]}
        assert await coordinator.is_ready()
        assert await hand.once(last + 1, name) == []
        assert hand.range(last + 1, name) == (10, 13, 0)
        coordinator.positions = {name: hand.metadata[last + 1, name]}
        assert not coordinator._has_more()
