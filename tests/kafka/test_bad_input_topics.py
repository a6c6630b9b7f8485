"""Topics and offsets that are not there, come late, change or vanish while they are read (KS-5, KS-7)."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import TopicAlreadyExistsError

from engine import ComponentError
from engine.errors import ConfigError
from engine.kafka import KafkaSpoutConfig
from tests.kafka.play import Notes, all_of, commit, committed, gauges, heard, playing, produce, settings, until_committed
from tests.kafka.test_starts import delete_before
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import add_partitions, admin, create_topic, delete_topic, fresh_name
from tests.servers.kafka_fixtures import NewBroker, NewTopic

pytestmark = pytest.mark.guarantee("KS-5")

LOOKS: dict[str, Any] = {"client": {"metadata_max_age_ms": 200}}
"""The client asks for changes of topics soon."""


@pytest.mark.parametrize("name", ["a b", "a/b", "..", "x" * 250, "größe"])
def test_an_impossible_topic_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid topic name"):
        KafkaSpoutConfig(brokers="h:1", topics=("t", name), group="g")


async def test_a_missing_topic_ends_the_run_unless_it_appears_in_time(new_broker: NewBroker) -> None:
    """Given a missing topic at a broker that creates none, then the run ends, unless it appears in time."""
    broker = await asyncio.to_thread(new_broker, settings={"auto.create.topics.enable": "false"})
    config = settings(broker.bootstrap, "late", topic_timeout_secs=0.5)
    with pytest.raises(ComponentError, match=r"(?s)topic 'late' does not exist, and did not appear within 0.5 s.*Fix: Create it"):
        await all_of(config)
    config, notes = settings(broker.bootstrap, "late"), Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: any("topic 'late' does not exist" in text for text in texts))
        await create_topic(broker.bootstrap, "late", partitions=2)
        await produce(broker.bootstrap, "late", range(10))
        await notes.until(lambda: len(notes.got) == 10)


async def test_a_pattern_without_topics_is_reported(kafka: str, new_topic: NewTopic) -> None:
    begin = fresh_name("later")
    async with playing(settings(kafka, "", pattern=f"{begin}.*", **LOOKS), notes := Notes()) as run:
        texts = heard(run)
        await notes.until(lambda: any(f"no topic matches the pattern '{begin}.*'" in text for text in texts))
        await create_topic(kafka, f"{begin}-1", partitions=1)
        await produce(kafka, f"{begin}-1", range(10))
        await notes.until(lambda: len(notes.got) == 10)


@pytest.mark.parametrize("membership", ["group", "assign"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
async def test_added_partitions_are_read(kafka: str, new_topic: NewTopic, membership: str, guarantee: str) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, membership=membership, guarantee=guarantee, heartbeat_interval_ms=100, **LOOKS)
    notes = Notes()
    async with playing(config, notes, tasks=2):
        await notes.until(lambda: len(notes.got) == 100)
        await add_partitions(kafka, topic, 4)
        for partition in range(4):
            await produce(kafka, topic, range(1000 * partition, 1000 * partition + 100), partition=partition, metadata_max_age_ms=100)
        await notes.until(lambda: len(notes.got) >= 500)
    assert sorted(set(notes.got)) == [*range(100), *range(1000, 1100), *range(2000, 2100), *range(3000, 3100)]
    assert len(notes.got) == 500  # the records 0 to 99 were sent twice


@pytest.mark.guarantee("KS-5")
async def test_an_added_partition_is_read_from_the_beginning_despite_start_latest(kafka: str, new_topic: NewTopic) -> None:
    """Or what is written before the spout sees it would never be read."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, start="latest", heartbeat_interval_ms=100, client={"metadata_max_age_ms": 3000})
    notes = Notes()
    async with playing(config, notes) as run:
        await notes.until(lambda: len(gauges(run, "kafka_position")) == 1)
        await add_partitions(kafka, topic, 2)
        await produce(kafka, topic, range(1000, 1010), partition=1, metadata_max_age_ms=100)
        await notes.until(lambda: len(notes.got) == 10)
    assert notes.got == list(range(1000, 1010))


async def test_more_tasks_than_partitions_and_an_empty_topic(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    assert await all_of(settings(kafka, topic), tasks=3) == []
    await produce(kafka, topic, range(10))
    await produce(kafka, topic, range(10, 20), partition=1)
    assert sorted(await all_of(settings(kafka, topic), tasks=3)) == list(range(20))


@pytest.mark.guarantee("KS-7")
async def test_records_deleted_while_the_spout_is_held_back(kafka: str, new_topic: NewTopic) -> None:
    """Given a full partition, when its next records are deleted, then reading continues at the first existing one."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, max_uncommitted_offsets=10, max_poll_records=10, max_partition_fetch_bytes=1, fetch_max_bytes=1)
    notes = Notes()
    notes.hold = lambda value: value < 10
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) >= 10)
        await delete_before(kafka, topic, 100)
        await produce(kafka, topic, range(100, 150))
        notes.release()
        await notes.until(lambda: 149 in notes.got)
        assert not [text for text in texts if "KafkaWarning" in text and "does not exist" not in text]
        await run.deactivate()
        assert (await committed(kafka, config.group or "", topic)).offset == 150
    assert sorted(notes.got)[-50:] == list(range(100, 150))


@pytest.mark.guarantee("KS-7")
@pytest.mark.parametrize("noticed", [True, False])
async def test_a_topic_created_again_while_it_is_read(kafka: str, new_topic: NewTopic, noticed: bool) -> None:
    """Given a deleted topic, when it exists again, whether or not the client noticed, then its new records are read."""
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(100))
    config = settings(kafka, topic, heartbeat_interval_ms=100, offset_commit_period_ms=100, **(LOOKS if noticed else {}))
    notes = Notes()
    async with playing(config, notes):
        await notes.until(lambda: len(notes.got) == 100)
        await until_committed(kafka, config.group or "", topic, 100)
        await delete_topic(kafka, topic)
        async with asyncio.timeout(PATIENCE_SECS):
            while not await is_there(kafka, topic):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await produce(kafka, topic, range(1000, 1050))
        await notes.until(lambda: len(notes.got) >= 150)
    assert sorted(notes.got) == [*range(100), *range(1000, 1050)]


async def is_there(kafka: str, topic: str) -> bool:
    """Make the topic, unless somebody's question for it has made it already; False while it is still being deleted."""
    try:
        await create_topic(kafka, topic, partitions=1)
    except TopicAlreadyExistsError:
        async with admin(kafka) as client:
            [seen] = await client.describe_topics([topic])
            return bool(seen["partitions"]) and all(one["leader"] >= 0 for one in seen["partitions"])
    return True


async def test_a_commit_of_another_program_with_metadata(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    for metadata in ("stormcell:1:play:!!!", "stormcell:1:play:", "stormcell:9:play:CgID", "stormcell:1:play:////", "\x00ü:::", "x" * 4000):
        group = fresh_name("group")
        await commit(kafka, group, topic, 6, metadata)
        assert await all_of(settings(kafka, topic, group=group)) == [6, 7, 8, 9]
