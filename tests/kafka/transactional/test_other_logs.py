"""Batches of logs that are not the ones that were read: their end was cut, or their topic was created again (KS-15). Real brokers."""

import asyncio
from typing import Any

import pytest

from engine.errors import FatalError
from engine.kafka.transactional import KafkaOpaqueSpout, KafkaTransactionalSpout
from engine.kafka.transactional.batch_reader import mark_of, range_of
from engine.transactional import TransactionAttempt
from tests.kafka.cut_log import cut_log
from tests.kafka.play import produce
from tests.kafka.transactional.hand import Hand, coordinating, emitting, settings
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-15", "TX-10")
KINDS = pytest.mark.parametrize("kind", [KafkaTransactionalSpout, KafkaOpaqueSpout])


async def filled(broker: KafkaBroker) -> str:
    """Return a topic with twenty records, each in its own batch."""
    topic = await create_topic(broker.bootstrap, fresh_name("cut"), 1)
    for value in range(20):
        await produce(broker.bootstrap, topic, [value])
    return topic


async def lose_end(broker: KafkaBroker, topic: str, offset: int) -> None:
    """Cut the log of partition 0, and append ten other records."""
    await asyncio.to_thread(broker.stop)
    cut_log(broker.folder, topic, offset)
    await asyncio.to_thread(broker.start)
    await produce(broker.bootstrap, topic, range(1000, 1010))


async def create_again(kafka: str, topic: str) -> None:
    """Create a topic again, with more records than it had."""
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, 1)
    await produce(kafka, topic, range(1000, 1030))


@pytest.mark.parametrize(
    ("kind", "is_restart"),
    [
        (KafkaTransactionalSpout, True),
        pytest.param(KafkaTransactionalSpout, False, marks=pytest.mark.deep),
        pytest.param(KafkaOpaqueSpout, True, marks=pytest.mark.deep),
        pytest.param(KafkaOpaqueSpout, False, marks=pytest.mark.deep),
    ],
)
async def test_new_batches_continue_where_the_log_was_cut(own_broker: KafkaBroker, kind: Any, is_restart: bool) -> None:
    """Given a log that has grown beyond the last batch again, then each record that exists is in exactly one batch."""
    topic = await filled(own_broker)
    source, name = kind(settings(own_broker.bootstrap, topic)), f"{topic}-0"
    async with emitting(source) as hand:
        assert await hand.new(1, name) == list(range(20))
        if not is_restart:
            await lose_end(own_broker, topic, 15)
            assert await hand.until(2, name, 10) == list(range(1000, 1010))
            reported = hand.reported
    if is_restart:
        await lose_end(own_broker, topic, 15)
        async with emitting(source) as other:
            other.metadata = hand.metadata
            assert await other.new(2, name) == list(range(1000, 1010))
            assert other.range(2, name) == (15, 25, 10)
            reported = other.reported
    [text] = [text for text in reported if "lost" in text]
    assert f"{name}: the brokers have lost the records from offset 15 on, which were read up to offset 20. Reading continues at 15" in text


@pytest.mark.deep
async def test_a_replay_of_records_that_were_cut_ends_the_run(own_broker: KafkaBroker) -> None:
    topic = await filled(own_broker)
    source, name = KafkaTransactionalSpout(settings(own_broker.bootstrap, topic, batch_records=18)), f"{topic}-0"
    async with emitting(source) as hand:
        await hand.new(1, name)
        assert await hand.new(2, name) == [18, 19]
    await lose_end(own_broker, topic, 15)
    async with emitting(source) as other:
        other.metadata = hand.metadata
        with pytest.raises(FatalError, match=r"lost the records from offset 15 on, .*: the replay of offsets 18 to 20 cannot continue"):
            await other.again(2, name)


async def test_a_planned_batch_begins_where_the_log_was_cut(own_broker: KafkaBroker) -> None:
    topic = await filled(own_broker)
    source, name = KafkaTransactionalSpout(settings(own_broker.bootstrap, topic)), f"{topic}-0"
    async with emitting(source) as planner:
        planned = await planner.emitter.plan_partition_batch(TransactionAttempt(1, 1), name, None)
        assert range_of(planned) == (0, 20, -1)
        await lose_end(own_broker, topic, 15)
        after = await planner.emitter.plan_partition_batch(TransactionAttempt(2, 2), name, planned)
        assert range_of(after) == (15, 25, -1)


@pytest.mark.deep
@KINDS
async def test_a_new_leader_with_the_whole_log_changes_nothing(own_broker: KafkaBroker, kind: Any) -> None:
    topic = await filled(own_broker)
    source, name = kind(settings(own_broker.bootstrap, topic)), f"{topic}-0"
    async with emitting(source) as hand:
        await hand.new(1, name)
        await asyncio.to_thread(own_broker.stop)
        await asyncio.to_thread(own_broker.start)
        await produce(own_broker.bootstrap, topic, range(20, 30))
        assert await hand.until(2, name, 10) == list(range(20, 30))
        last = hand.metadata[hand.txid, name]
        mark = mark_of(last)
        assert mark is not None
        assert mark.leader_epoch > 0
        assert not any("lost" in text for text in hand.reported)


@pytest.mark.parametrize("is_planned", [False, True])
async def test_a_transactional_spout_ends_at_a_topic_that_was_created_again(kafka: str, new_topic: NewTopic, is_planned: bool) -> None:
    """Given a new topic that has grown beyond the last batch, then its first records are not skipped silently."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    source, name = KafkaTransactionalSpout(settings(kafka, topic)), f"{topic}-0"
    async with emitting(source) as hand:
        await hand.new(1, name)
    await create_again(kafka, topic)
    async with emitting(source) as other, coordinating(source) as coordinator:
        other.metadata = hand.metadata
        coordinator.positions = {name: hand.metadata[1, name]}
        assert await coordinator.is_ready()
        with pytest.raises(FatalError, match="was deleted and created again since it was read up to offset 20"):
            await (plan(other, name) if is_planned else other.new(2, name))


async def plan(hand: Hand, name: str) -> Any:
    return await hand.emitter.plan_partition_batch(TransactionAttempt(2, 2), name, hand.metadata[1, name])


@pytest.mark.parametrize("records", [0, 3, 30])
async def test_an_opaque_spout_begins_again_at_a_topic_that_was_created_again(kafka: str, new_topic: NewTopic, records: int) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    source, name = KafkaOpaqueSpout(settings(kafka, topic)), f"{topic}-0"
    async with emitting(source) as hand:
        await hand.new(1, name)
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, 1)
    await produce(kafka, topic, range(1000, 1000 + records))
    async with emitting(source) as other, coordinating(source) as coordinator:
        other.metadata = hand.metadata
        coordinator.positions = {name: hand.metadata[1, name]}
        assert await coordinator.is_ready()
        assert await (other.new(2, name) if records else other.once(2, name)) == list(range(1000, 1000 + records))
        assert "created again since it was read up to offset 20. Reading continues at 0" in other.reported[0]
        coordinator.positions = {name: other.metadata[2, name]}
        assert not await coordinator.is_ready()


@KINDS
async def test_positions_of_older_versions_are_continued(kafka: str, new_topic: NewTopic, kind: Any) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    async with emitting(kind(settings(kafka, topic))) as hand:
        hand.metadata[1, f"{topic}-0"] = [0, 12, 12]
        assert await hand.new(2, f"{topic}-0") == list(range(12, 20))
        assert mark_of(hand.metadata[2, f"{topic}-0"]) is not None
