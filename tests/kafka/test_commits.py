"""Commits of a spout: their offsets, metadata and times (KS-1, KS-2, KS-3)."""

from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from aiokafka import AIOKafkaProducer

from engine.errors import ConfigError
from engine.kafka import KafkaSpoutConfig
from engine.kafka.source import commit_loop as committing
from engine.kafka.source.acked_set import CommitNote, count, decode, encode
from tests.kafka.play import Notes, all_of, commit, committed, counted, gauges, heard, playing, produce, settings, until_committed
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_fixtures import NewBroker, NewTopic

pytestmark = pytest.mark.guarantee("KS-2")


async def test_the_contiguous_acked_prefix_is_committed(kafka: str, new_topic: NewTopic) -> None:
    """Given 5 in flight and all others acked, then deactivation commits 5, with the others as metadata."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic), Notes()
    notes.hold = lambda value: value == 5
    async with playing(config, notes) as run:
        await notes.until(lambda: len(notes.got) == 10)
        await run.deactivate()
        found = await committed(kafka, config.group or "", topic)
        assert found.offset == 5
        note = decode(found.metadata)
        assert note == CommitNote("play", 5, (6, 10), mark=note.mark)
        notes.release(5)
        await run.activate()
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 10)
        await run.deactivate()
        found = await committed(kafka, config.group or "", topic)
        assert found.offset == 10
        assert len(notes.got) == 10


@pytest.mark.guarantee("KS-7")
async def test_another_topology_with_a_similar_name_skips_nothing(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic), Notes()
    notes.hold = lambda value: value == 0
    name = "統計を取るトポロジー" * 10
    async with playing(config, notes, name=f"{name}一") as run:
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 9)
        await run.deactivate()
    assert await all_of(config, name=f"{name}二") == list(range(10))


@pytest.mark.guarantee("KS-7")
async def test_a_set_of_a_name_cut_by_an_older_version_is_reported_and_unused(kafka: str, new_topic: NewTopic) -> None:
    topic, name = await new_topic(partitions=1), "名" * 40
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic), Notes()
    cut = encode("words", 4, [6, 9], 4096)[0].replace("words", quote(name)[:96])
    await commit(kafka, config.group or "", topic, 4, cut)
    async with playing(config, notes, name=name) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 6)
        assert notes.got == [*range(4, 10)]
        assert any("by an older version, which shortened the name" in text for text in texts)
        assert counted(run, "kafka_acked_set_dropped") == 3
        await run.drain()
    note = decode((await committed(kafka, config.group or "", topic)).metadata)
    assert note is not None
    assert (note.base, note.is_by(name)) == (10, True)


async def test_acked_offsets_are_committed_at_the_end_of_the_run(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config = settings(kafka, topic)
    assert sorted(await all_of(config)) == list(range(10))
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 10
    assert await all_of(config) == []


async def test_offsets_are_committed_each_period(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config, notes = settings(kafka, topic, offset_commit_period_ms=50), Notes()
    async with playing(config, notes):
        await until_committed(kafka, config.group or "", topic, 10)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_missing_offsets_are_skipped(kafka: str, new_topic: NewTopic, isolation: str) -> None:
    """Given markers and aborted records between and after the others, when all are acked, then the commit is the end."""
    topic = await new_topic(partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=topic) as producer:
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, str(number).encode(), partition=0)
            await (producer.commit_transaction() if number % 2 == 0 else producer.abort_transaction())
    config = settings(kafka, topic, isolation_level=isolation)
    assert await all_of(config) == ([0, 2] if isolation == "read_committed" else [0, 1, 2, 3])
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 8


@pytest.mark.guarantee("KS-3")
async def test_a_full_partition_is_paused_while_others_continue(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    await produce(kafka, topic, range(3000), partition=0)
    await produce(kafka, topic, range(10_000, 13_000), partition=1)
    config = settings(kafka, topic, max_uncommitted_offsets=500, max_poll_records=50)
    notes = Notes()
    notes.hold = lambda value: value == 7
    async with playing(config, notes) as run:
        await notes.until(lambda: sum(value >= 10_000 for value in notes.got) == 3000)
        await notes.until(lambda: gauges(run, "kafka_paused").get("0") == 1)
        furthest = max(value for value in notes.got if value < 10_000)
        assert 499 <= furthest < 7 + 500 + 50
        notes.release(7)
        await notes.until(lambda: len(notes.got) == 6000)
    assert sorted(notes.got) == [*range(3000), *range(10_000, 13_000)]


@pytest.mark.guarantee("KS-1")
async def test_at_most_once_commits_before_it_emits(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(200))
    config, notes = settings(kafka, topic, guarantee="at_most_once", max_poll_records=10), Notes()
    async with playing(config, notes):
        await notes.until(lambda: len(notes.got) >= 1)
        first = max(notes.got)
        found = await committed(kafka, config.group or "", topic)
        assert found.offset > first
        await notes.until(lambda: len(notes.got) == 200)
    assert sorted(notes.got) == list(range(200))


@pytest.mark.guarantee("KS-1")
@pytest.mark.parametrize("guarantee", ["at_most_once", "no_guarantee"])
async def test_a_failure_is_not_repeated_without_the_guarantee(kafka: str, new_topic: NewTopic, guarantee: str) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    config, notes = settings(kafka, topic, guarantee=guarantee), Notes()
    notes.fail_times = dict.fromkeys(range(20), 5)
    assert await all_of(config, notes) == list(range(20))
    found = await committed(kafka, config.group or "", topic)
    assert found.offset == 20


@pytest.mark.guarantee("KS-1")
async def test_no_guarantee_commits_on_a_timer_despite_failures(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(20))
    config, notes = settings(kafka, topic, guarantee="no_guarantee", offset_commit_period_ms=50), Notes()
    notes.hold = lambda value: True
    async with playing(config, notes):
        await until_committed(kafka, config.group or "", topic, 20)


def test_the_client_never_commits() -> None:
    with pytest.raises(ConfigError, match=r"enable_auto_commit.*KS-2"):
        KafkaSpoutConfig(brokers="h:1", topics="t", group="g", client={"enable_auto_commit": True})


async def test_metadata_above_the_brokers_limit_are_shortened(kafka: str, new_topic: NewTopic) -> None:
    """Given more holes than 4,096 bytes hold, then the commit has the fitting part of the set."""
    topic, chance = await new_topic(partitions=1), Random(1)
    await produce(kafka, topic, range(40_000))
    config, notes = settings(kafka, topic, max_metadata_bytes=8192), Notes()
    slow = {0, 2, *(value for value in range(4, 40_000) if chance.random() < 0.5)}
    notes.hold = lambda value: value in slow
    async with playing(config, notes) as run:
        await notes.until(lambda: len(notes.got) == 40_000)
        notes.release(0)
        acked = 40_001 - len(slow)
        await notes.until(lambda: run.snapshot().components["kafka"].acked == acked)
        await run.deactivate()
        found: Any = await committed(kafka, config.group or "", topic)
        assert found.offset == 2
        note = decode(found.metadata)
        assert note is not None
        assert len(found.metadata) <= 4096
        assert note.runs[0] == 3
        assert 10_000 < count(note.runs) < acked
        assert counted(run, "kafka_acked_set_left_out") == acked - 2 - count(note.runs)


@pytest.mark.guarantee("KS-7")
async def test_acked_sets_of_many_partitions_are_committed_in_parts(new_broker: NewBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker stores the commits of one request as one batch. If the batch were too large, no commit would succeed."""
    monkeypatch.setattr(committing, "MOST_METADATA_BYTES_PER_REQUEST", 3000)
    broker = new_broker(settings={"message.max.bytes": 8000}).bootstrap
    topic = await create_topic(broker, "lines", partitions=12)
    for partition in range(12):
        await produce(broker, topic, range(700), partition=partition, max_batch_size=4000)
    config, notes = settings(broker, topic), Notes()
    notes.hold = lambda value: value % 2 == 0
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: run.snapshot().components["kafka"].acked == 12 * 350 and len(notes.tuples) == 12 * 700)
        await run.deactivate()
        assert not texts
        for partition in range(12):
            note = decode((await committed(broker, config.group or "", topic, partition)).metadata)
            assert note is not None
            assert count(note.runs) == 350
