"""Start positions, and positions after an offset that does not exist (KS-5, KS-7)."""

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from engine import ComponentError
from engine.kafka.source.acked_set import encode
from tests.kafka.play import Notes, all_of, commit, committed, counted, gauges, playing, produce, settings
from tests.servers.kafka_admin import admin, fresh_name
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-5")

OURS, ANOTHERS, FOREIGN = encode("play", 6, [], 4096)[0], encode("other", 6, [], 4096)[0], "written by some other program"


@pytest.mark.parametrize(
    ("start", "metadata", "begins"),
    [
        ("uncommitted_earliest", None, 0),
        ("uncommitted_earliest", OURS, 6),
        ("uncommitted_earliest", ANOTHERS, 6),
        ("uncommitted_earliest", FOREIGN, 6),
        ("uncommitted_latest", None, 10),
        ("uncommitted_latest", FOREIGN, 6),
        ("earliest", None, 0),
        ("earliest", FOREIGN, 0),
        ("earliest", ANOTHERS, 0),
        ("earliest", OURS, 6),
        ("latest", FOREIGN, 10),
        ("latest", OURS, 6),
    ],
)
async def test_start_positions(kafka: str, new_topic: NewTopic, start: Any, metadata: str | None, begins: int) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    if metadata is not None:
        await commit(kafka, group, topic, 6, metadata)
    assert await all_of(settings(kafka, topic, group=group, start=start)) == list(range(begins, 10))


async def test_start_at_a_timestamp(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    async with asyncio.timeout(60):
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
            for value in range(10):
                await producer.send_and_wait(topic, str(value).encode(), partition=0, timestamp_ms=1_700_000_000_000 + value)
    config = settings(kafka, topic, start="timestamp", start_timestamp_ms=1_700_000_000_004)
    assert await all_of(config) == [4, 5, 6, 7, 8, 9]
    assert await all_of(config) == []  # from the commit


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(
    ("base", "topology", "comes"),
    [(2, "play", [2, 3, 7, 8, 9]), (1, "play", [2, 3, 4, 5, 6, 7, 8, 9]), (2, "other", [2, 3, 4, 5, 6, 7, 8, 9])],
)
async def test_a_set_is_used_only_with_the_commit_that_carries_it(
    kafka: str, new_topic: NewTopic, base: int, topology: str, comes: list[int]
) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 2, encode(topology, base, [4, 7], 4096)[0])
    notes = Notes()
    async with playing(settings(kafka, topic, group=group), notes) as run:
        await notes.until(lambda: len(notes.got) >= len(comes))
        assert counted(run, "kafka_acked_set_dropped") == len(comes) - 5
    assert notes.got == comes


@pytest.mark.guarantee("KS-7")
async def test_the_next_owner_skips_records_acked_above_the_commit(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config, notes = settings(kafka, topic), Notes()
    notes.hold = lambda value: value in (10, 50)
    async with playing(config, notes) as run:
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 98)
    assert await all_of(config) == [10, 50]
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 100


@pytest.mark.guarantee("KS-7")
async def test_without_the_acked_set_the_next_owner_reads_them_again(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config, notes = settings(kafka, topic, commit_acked_set=False), Notes()
    notes.hold = lambda value: value in (10, 50)
    async with playing(config, notes) as run:
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 98)
    assert await all_of(config) == list(range(10, 100))


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize(("policy", "comes"), [("earliest", list(range(6, 10))), ("latest", [])])
async def test_offsets_deleted_by_retention(kafka: str, new_topic: NewTopic, policy: str, comes: list[int]) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 2, encode("play", 2, [7, 9], 4096)[0])
    await delete_before(kafka, topic, 6)
    notes = Notes()
    async with playing(settings(kafka, topic, group=group, out_of_range=policy), notes) as run:
        await notes.until(lambda: gauges(run, "kafka_position") == {"0": 10})
        await notes.until(lambda: len(notes.got) >= len(comes))
        assert (counted(run, "kafka_out_of_range"), counted(run, "kafka_acked_set_dropped")) == (1, 2)
    assert notes.got == comes


async def test_missing_offsets_can_end_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 50)
    with pytest.raises(ComponentError, match=f"{topic}-0: offset 50 does not exist; the broker has offsets 0 to 9"):
        await all_of(settings(kafka, topic, group=group, out_of_range="fail"))
    assert (await committed(kafka, group, topic)).offset == 50


async def test_a_commit_beyond_the_end_is_moved_to_the_earliest_offset(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 50)
    assert await all_of(settings(kafka, topic, group=group)) == list(range(10))


async def test_reading_by_assignment_needs_no_group(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=4)
    for partition in range(4):
        await produce(kafka, topic, range(partition * 10, partition * 10 + 10), partition=partition)
    config = settings(kafka, topic, group=None, membership="assign")
    assert sorted(await all_of(config, tasks=3)) == list(range(40))
    assert sorted(await all_of(config)) == list(range(40))  # nothing was committed


@pytest.mark.guarantee("KS-3")
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once", "no_guarantee"])
async def test_without_a_group_max_uncommitted_offsets_stops_nothing(kafka: str, new_topic: NewTopic, guarantee: Any) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, group=None, membership="assign", guarantee=guarantee, max_uncommitted_offsets=10, max_poll_records=5)
    assert await all_of(config) == list(range(100))


async def test_an_assignment_may_commit_for_a_group(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(10))
    config = settings(kafka, topic, membership="assign")
    assert await all_of(config) == list(range(10))
    assert await all_of(config) == []


async def test_topics_by_pattern(kafka: str, new_topic: NewTopic) -> None:
    first, second = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, first, range(5))
    await produce(kafka, second, range(5, 10))
    config = settings(kafka, "", pattern=f"({first}|{second})$")
    assert sorted(await all_of(config)) == list(range(10))


@pytest.mark.guarantee("KS-2")
@pytest.mark.parametrize("start", ["latest", "uncommitted_latest", "timestamp"])
async def test_a_start_at_the_end_is_committed_before_the_first_emit(kafka: str, new_topic: NewTopic, start: Any) -> None:
    """Otherwise a process that dies before its first commit loses records, because the next one begins at a later end."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    timestamp_ms = 1_900_000_000_000 if start == "timestamp" else None
    config, notes = settings(kafka, topic, start=start, start_timestamp_ms=timestamp_ms), Notes()
    notes.hold = lambda value: True
    async with playing(config, notes) as run:
        await notes.until(lambda: gauges(run, "kafka_position") == {"0": 10})
        await produce(kafka, topic, [10])
        await notes.until(lambda: notes.got)
        assert (await committed(kafka, config.group or "", topic)).offset == 10
        dead = settings(kafka, topic, start=start, start_timestamp_ms=timestamp_ms, group=config.group, membership="assign")
        assert await all_of(dead) == [10], "another process would begin behind it"


@pytest.mark.guarantee("KS-2")
async def test_a_position_moved_to_the_end_is_committed_before_the_first_emit(kafka: str, new_topic: NewTopic) -> None:
    topic, group = await new_topic(partitions=1), fresh_name("group")
    await produce(kafka, topic, range(10))
    await commit(kafka, group, topic, 50)
    notes = Notes()
    notes.hold = lambda value: True
    async with playing(settings(kafka, topic, group=group, out_of_range="latest"), notes) as run:
        await notes.until(lambda: gauges(run, "kafka_position") == {"0": 10})
        await produce(kafka, topic, [10])
        await notes.until(lambda: notes.got)
        assert (await committed(kafka, group, topic)).offset == 10


async def delete_before(kafka: str, topic: str, offset: int) -> None:
    async with admin(kafka) as client:
        await client.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})
