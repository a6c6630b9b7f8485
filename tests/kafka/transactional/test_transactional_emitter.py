"""`KafkaTransactionalSpout`'s emitter on a real broker: a txid always has the same records (TX-7)."""

import asyncio
from typing import Any

import pytest

from engine.errors import FatalError
from engine.kafka import ToStream
from engine.kafka.transactional import KafkaTransactionalSpout
from engine.transactional import FailedBatch
from tests.kafka.play import produce
from tests.kafka.transactional.hand import coordinating, emitting, forget_before, settings, transact, widen
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic, delete_topic
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("TX-7")


def spout(kafka: str, topics: Any, **changes: Any) -> KafkaTransactionalSpout:
    return KafkaTransactionalSpout(settings(kafka, topics, **changes))


async def test_batches_are_contiguous_and_replays_are_equal(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(25))
    async with emitting(spout(kafka, topic, batch_records=10)) as hand:
        name = f"{topic}-0"
        first, second, third = [await hand.new(txid, name) for txid in (1, 2, 3)]
        assert (first, second, third) == (list(range(10)), list(range(10, 20)), list(range(20, 25)))
        assert await hand.again(2, name) == second
        assert await hand.again(1, name) == first
        assert await hand.again(2, name) == second
        await produce(kafka, topic, range(25, 30))
        assert await hand.again(3, name) == third
        assert await hand.new(4, name) == list(range(25, 30))


async def test_another_task_replays_the_same_records(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(2_500))
    async with emitting(spout(kafka, topic, batch_records=2_000)) as hand:
        one = await hand.new(1, f"{topic}-0")
    async with emitting(spout(kafka, topic, batch_records=7)) as other:
        other.metadata = hand.metadata
        assert await other.again(1, f"{topic}-0") == one == list(range(2_000))
        assert await other.until(2, f"{topic}-0", 500) == list(range(2_000, 2_500))


async def test_a_batch_is_bounded_by_bytes(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [f"{number:09}" for number in range(3_500)])
    async with emitting(spout(kafka, topic, batch_bytes=10_000)) as hand:
        assert len(await hand.new(1, f"{topic}-0")) == 2_000


async def test_consecutive_batches_come_from_the_buffer(kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(50))
    async with emitting(spout(kafka, topic, batch_records=5)) as hand:
        await hand.new(1, f"{topic}-0")
        link, seeks = hand.emitter._reader.link, []
        monkeypatch.setattr(link, "seek", lambda partition, offset: seeks.append(offset))
        assert await hand.until(2, f"{topic}-0", 45) == list(range(5, 50))
        assert seeks == []


async def test_aborted_records_and_transaction_markers_are_skipped(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await transact(kafka, topic, range(5))
    await transact(kafka, topic, range(100, 105), commit=False)
    await transact(kafka, topic, range(5, 10))
    async with emitting(spout(kafka, topic), task_index=0) as hand:
        name = f"{topic}-0"
        assert await hand.new(1, name) == list(range(10))
        assert hand.range(1, name) == (0, 18, 10)
        assert await hand.again(1, name) == list(range(10))
        assert await hand.once(2, name) == []
    async with emitting(spout(kafka, topic, batch_records=5)) as hand, coordinating(spout(kafka, topic)) as coordinator:
        assert [len(await hand.new(txid, name)) for txid in (1, 2)] == [5, 5]
        assert await hand.again(1, name) == list(range(5))
        assert await hand.again(2, name) == list(range(5, 10))
        coordinator.positions = {name: hand.metadata[2, name]}
        while await coordinator.is_ready():  # until the marker at the end is passed
            assert await hand.once(hand.txid + 1, name) == []
            coordinator.positions = {name: hand.metadata[hand.txid, name]}
        assert coordinator.positions[name][1] == 18


async def test_records_behind_an_open_transaction_wait_for_its_end(kafka: str, new_topic: NewTopic) -> None:
    from aiokafka import AIOKafkaProducer

    topic = await new_topic(partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"1", partition=0)
        async with emitting(spout(kafka, topic)) as hand, coordinating(spout(kafka, topic)) as coordinator:
            assert await hand.once(1, f"{topic}-0") == []
            coordinator.positions = {f"{topic}-0": hand.metadata[1, f"{topic}-0"]}
            assert not await coordinator.is_ready()
            await producer.commit_transaction()
            async with asyncio.timeout(PATIENCE_SECS):
                while not await coordinator.is_ready():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            assert await hand.until(2, f"{topic}-0", 1) == [1]
    async with emitting(spout(kafka, topic, isolation_level="read_uncommitted")) as hand:
        assert await hand.new(1, f"{topic}-0") == [1]


@pytest.mark.parametrize("is_replay", [False, True])
async def test_records_lost_to_retention_end_the_run(kafka: str, new_topic: NewTopic, is_replay: bool) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    name = f"{topic}-0"
    async with emitting(spout(kafka, topic, batch_records=5)) as hand:
        await hand.new(1, name)
    await forget_before(kafka, topic, 7)
    async with emitting(spout(kafka, topic, batch_records=5)) as other:
        other.metadata = hand.metadata
        with pytest.raises(FatalError) as caught:
            await (other.again(1, name) if is_replay else other.new(2, name))
    needed = 0 if is_replay else 5
    assert name in str(caught.value)
    assert f"offset {needed}, which does not exist: the broker has offsets 7 to 19 (retention has deleted it)" in str(caught.value)
    assert "KafkaOpaqueSpout continues" in str(caught.value)


async def test_missing_records_of_a_range_end_the_run_with_their_number(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    async with emitting(spout(kafka, topic, batch_records=10)) as hand:
        await hand.new(1, f"{topic}-0")
    await forget_before(kafka, topic, 4)
    async with emitting(spout(kafka, topic)) as other:
        other.metadata = hand.metadata
        with pytest.raises(FatalError, match=r"of the 10 records of offsets 0 to 10, 4 are gone: transaction 1 cannot be replayed"):
            await other.again(1, f"{topic}-0")


async def test_a_range_that_lost_only_markers_is_replayed(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await transact(kafka, topic, range(100, 103), commit=False)
    await transact(kafka, topic, range(3))
    async with emitting(spout(kafka, topic)) as hand:
        assert await hand.new(1, f"{topic}-0") == [0, 1, 2]
    await forget_before(kafka, topic, 4)
    async with emitting(spout(kafka, topic)) as other:
        other.metadata = hand.metadata
        assert await other.again(1, f"{topic}-0") == [0, 1, 2]


async def test_a_topic_that_was_created_again_ends_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    async with emitting(spout(kafka, topic)) as hand:
        await hand.new(1, f"{topic}-0")
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, partitions=1)
    await produce(kafka, topic, range(3))
    async with emitting(spout(kafka, topic, replay_timeout_ms=500.0)) as other:
        other.metadata = hand.metadata
        with pytest.raises(FatalError, match="created again since it was read up to offset 20: transaction 2 cannot continue"):
            await other.new(2, f"{topic}-0")
        with pytest.raises(FatalError, match=r"created again .*: the replay of offsets 0 to 20 cannot continue"):
            await other.again(1, f"{topic}-0")


async def test_translated_records_go_to_their_streams_in_order(kafka: str, new_topic: NewTopic) -> None:
    def sorted_out(record: Any) -> Any:
        value = int(record.value)
        return None if value % 3 == 0 else ToStream("odd", (value,)) if value % 2 else (value,)

    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(8))
    source = spout(kafka, topic, translator=sorted_out, fields={"default": "value", "odd": "value"})
    async with emitting(source) as hand:
        assert await hand.new(1, f"{topic}-0") == [1, 2, 4, 5, 7]
        assert hand.range(1, f"{topic}-0") == (0, 8, 8)
        assert await hand.again(1, f"{topic}-0") == [1, 2, 4, 5, 7]


async def test_an_old_end_of_a_silent_broker_does_not_count_as_lost_records(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any) -> tuple[()]:
        return ()

    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    async with emitting(spout(kafka, topic, replay_timeout_ms=100.0)) as hand:
        assert await hand.until(1, f"{topic}-0", 10) == list(range(10))
        link = hand.emitter._reader.link
        monkeypatch.setattr(link, "take_records", silent)
        monkeypatch.setattr(link, "empty_up_to", lambda partition: 4)
        with pytest.raises(FailedBatch, match=r"no record of offsets 0 to 10 has come for"):
            await hand.again(1, f"{topic}-0")


async def test_an_unreadable_record_ends_the_run_or_is_dropped(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [1, "two", 3])
    async with emitting(spout(kafka, topic)) as hand:
        head = r"Its key is None, its value b'two'"
        told = rf"could not make a tuple of {topic}-0 offset 1: ValueError: .*'two' \(\S*hand\.py:\d+\)\. {head}"
        with pytest.raises(FatalError, match=told):
            await hand.new(1, f"{topic}-0")
    async with emitting(spout(kafka, topic, on_unreadable="drop")) as hand:
        assert await hand.new(1, f"{topic}-0") == [1, 3]
        assert await hand.again(1, f"{topic}-0") == [1, 3]
        assert hand.context.counts["kafka_records_dropped"] == 2
        assert "Its key is None, its value b'two'. The record is dropped" in hand.reported[0]


async def test_a_translator_error_whose_text_raises_is_reported(kafka: str, new_topic: NewTopic) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def never(record: Any) -> Any:
        raise Mute

    topic = await new_topic(partitions=1)
    await produce(kafka, topic, [1])
    async with emitting(spout(kafka, topic, translator=never)) as hand:
        with pytest.raises(FatalError, match=r"offset 0: Mute: its text cannot be shown, RuntimeError \(\S*\.py:\d+\)\. Its key"):
            await hand.new(1, f"{topic}-0")


@pytest.mark.parametrize("start", ["latest", "timestamp"])
async def test_the_first_transaction_begins_at_the_configured_start(kafka: str, new_topic: NewTopic, start: str) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(3))
    options = {"start_timestamp_ms": 4_000_000_000_000} if start == "timestamp" else {}
    async with emitting(spout(kafka, topic, start=start, **options)) as hand:
        assert await hand.once(1, f"{topic}-0") == []
        assert hand.range(1, f"{topic}-0") == (3, 3, 0)
        await produce(kafka, topic, [3, 4])
        assert await hand.until(2, f"{topic}-0", 2) == [3, 4]


async def test_added_partitions_are_found_and_read_from_the_beginning(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    source = spout(kafka, topic, start="latest", refresh_ms=50.0)
    async with coordinating(source) as coordinator, emitting(source) as hand:
        assert list(coordinator.partitions()) == [f"{topic}-0"]
        assert await hand.once(1, f"{topic}-0") == []
        await widen(kafka, topic, 3)
        async with asyncio.timeout(PATIENCE_SECS):
            while len(coordinator.partitions()) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert list(coordinator.partitions()) == [f"{topic}-{number}" for number in range(3)]
        await produce(kafka, topic, range(5), partition=2)
        assert await hand.once(2, f"{topic}-0") == []
        assert await hand.until(2, f"{topic}-2", 5) == list(range(5))
        await produce(kafka, topic, range(5, 7), partition=0)
        assert await hand.until(3, f"{topic}-0", 2) == [5, 6]
