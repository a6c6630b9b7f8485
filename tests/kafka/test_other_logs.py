"""Logs that are not the ones that were read: their end was cut, or their topic was created again (KS-15). Real brokers."""

import asyncio
import base64
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from engine.errors import ComponentError
from engine.kafka import KafkaSpoutConfig
from engine.kafka.source.acked_set import decode, encode
from tests.kafka.cut_log import cut_log
from tests.kafka.play import Notes, all_of, commit, committed, counted, heard, playing, produce, settings, until_committed
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic

pytestmark = pytest.mark.guarantee("KS-15")
GROWN = pytest.mark.parametrize(
    "new",
    [
        pytest.param(range(1000, 1003), id="shorter", marks=pytest.mark.deep),
        pytest.param(range(1000, 1005), id="as long", marks=pytest.mark.deep),
        pytest.param(range(1000, 1010), id="longer"),
    ],
)
"""Records that are written behind the cut, compared with the lost ones."""


async def lose_end(broker: KafkaBroker, topic: str, offset: int, new: Iterable[int]) -> None:
    """Cut the log of partition 0, and append other records."""
    await asyncio.to_thread(broker.stop)
    cut_log(broker.folder, topic, offset)
    await asyncio.to_thread(broker.start)
    await produce(broker.bootstrap, topic, new)


async def create_again(kafka: str, topic: str) -> None:
    await delete_topic(kafka, topic)
    await create_topic(kafka, topic, 1)


async def filled(broker: KafkaBroker, records: int) -> tuple[str, KafkaSpoutConfig]:
    """Return a topic with these records, each in a batch of its own at the end, and a config that commits often."""
    topic = await create_topic(broker.bootstrap, fresh_name("cut"), 1)
    await produce(broker.bootstrap, topic, range(records - 20))
    for value in range(records - 20, records):
        await produce(broker.bootstrap, topic, [value])
    return topic, settings(broker.bootstrap, topic, offset_commit_period_ms=100, client={"metadata_max_age_ms": 1000})


@GROWN
async def test_a_log_that_was_cut_while_the_spout_was_down_is_read_from_the_cut(own_broker: KafkaBroker, new: Iterable[int]) -> None:
    topic, config = await filled(own_broker, 100)
    assert sorted(await all_of(config)) == list(range(100))
    await lose_end(own_broker, topic, 95, new)
    notes = Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) >= len(list(new)))
        await until_committed(own_broker.bootstrap, config.group or "", topic, 95 + len(list(new)))
        assert counted(run, "kafka_out_of_range") == 1
    assert notes.got == list(new)
    [text] = [text for text in texts if "lost" in text]
    assert (
        f"{topic}-0: the brokers have lost the records from offset 95 on, which were read up to offset 100. Reading continues at 95" in text
    )


@GROWN
async def test_a_log_that_is_cut_while_the_spout_runs_is_read_from_the_cut(own_broker: KafkaBroker, new: Iterable[int]) -> None:
    topic, config = await filled(own_broker, 100)
    notes = Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 100)
        await lose_end(own_broker, topic, 95, new)
        await notes.until(lambda: 1000 in notes.got)
        await until_committed(own_broker.bootstrap, config.group or "", topic, 95 + len(list(new)))
    assert notes.got == [*range(100), *new]
    [text] = [text for text in texts if "lost" in text]
    assert "from offset 95 on, which were read up to offset 100. Reading continues at 95" in text


async def test_a_record_in_flight_before_the_cut_is_not_lost(own_broker: KafkaBroker) -> None:
    topic, config = await filled(own_broker, 100)
    notes = Notes()
    notes.hold = lambda value: value == 90
    async with playing(config, notes):
        await notes.until(lambda: len(notes.got) == 100)
        await lose_end(own_broker, topic, 95, range(1000, 1010))
        await notes.until(lambda: 1009 in notes.got)
    assert notes.got[100:] == [*range(90, 95), *range(1000, 1010)]
    assert (await committed(own_broker.bootstrap, config.group or "", topic)).offset == 90


@pytest.mark.deep
async def test_a_cut_log_can_end_the_run(own_broker: KafkaBroker) -> None:
    topic, config = await filled(own_broker, 100)
    await all_of(config)
    await lose_end(own_broker, topic, 95, range(1000, 1010))
    with pytest.raises(ComponentError, match="the brokers have lost the records from offset 95 on"):
        await all_of(dataclasses.replace(config, out_of_range="fail"))


async def test_a_new_leader_with_the_whole_log_changes_nothing(own_broker: KafkaBroker) -> None:
    """A restart of a broker begins a new leader epoch, and cuts nothing."""
    topic, config = await filled(own_broker, 40)
    notes = Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 40)
        await asyncio.to_thread(own_broker.stop)
        await asyncio.to_thread(own_broker.start)
        await produce(own_broker.bootstrap, topic, range(40, 50))
        await notes.until(lambda: len(notes.got) >= 50)
        await until_committed(own_broker.bootstrap, config.group or "", topic, 50)
        assert counted(run, "kafka_out_of_range") == 0
    assert notes.got == list(range(50))
    note = decode((await committed(own_broker.bootstrap, config.group or "", topic)).metadata)
    assert note is not None
    assert note.mark is not None
    assert note.mark.leader_epoch > 0
    assert await all_of(config) == []
    assert not any("lost" in text for text in texts)


@pytest.mark.parametrize(("policy", "comes"), [("earliest", list(range(1000, 1020))), ("latest", [])])
async def test_a_commit_of_a_topic_that_was_created_again_is_not_continued(
    kafka: str, new_topic: NewTopic, policy: Any, comes: list[int]
) -> None:
    """Given a commit of the old topic, and a new one that has grown beyond it, then `out_of_range` applies."""
    topic = await new_topic(partitions=1)
    config = settings(kafka, topic, out_of_range=policy)
    await produce(kafka, topic, range(10))
    await all_of(config)
    old = await committed(kafka, config.group or "", topic)
    await create_again(kafka, topic)
    await produce(kafka, topic, range(1000, 1020))
    await commit(kafka, config.group or "", topic, old.offset, old.metadata)
    notes = Notes()
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: counted(run, "kafka_out_of_range") == 1)
        await notes.until(lambda: len(notes.got) >= len(comes))
    assert notes.got == comes
    start = 0 if policy == "earliest" else 20
    text = f"{topic}-0: the topic was deleted and created again since it was read up to offset 10. Reading continues at {start}"
    assert any(text in one for one in texts)


@pytest.mark.parametrize("records", [5, 20], ids=["shorter", "longer"])
async def test_a_topic_that_is_created_again_during_the_run_is_read_from_its_beginning(
    kafka: str, new_topic: NewTopic, records: int
) -> None:
    topic = await new_topic(partitions=1)
    config, notes = settings(kafka, topic, client={"metadata_max_age_ms": 500}), Notes()
    await produce(kafka, topic, range(10))
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 10)
        await create_again(kafka, topic)
        await produce(kafka, topic, range(1000, 1000 + records))
        await notes.until(lambda: set(range(1000, 1000 + records)) <= set(notes.got))
    # A look-up between the two moments finds no topic, and with it the brokers have forgotten the commit.
    assert any("created again" in text or "does not exist" in text for text in texts)


async def test_a_topic_that_is_created_again_while_its_partition_is_full_is_read_from_its_beginning(
    kafka: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a full partition, which is not fetched, then no fetch fails, and the known topic ids are old."""
    monkeypatch.setattr("engine.kafka.client.log_continuity._UNWATCHED_SECS", 0.0)
    topic = await new_topic(partitions=1)
    config, notes = settings(kafka, topic, max_uncommitted_offsets=10, offset_commit_period_ms=200), Notes()
    notes.hold = lambda value: value < 10
    await produce(kafka, topic, range(10))
    async with playing(config, notes):
        await notes.until(lambda: len(notes.got) == 10)
        await create_again(kafka, topic)
        await produce(kafka, topic, range(1000, 1020))
        notes.release()
        await notes.until(lambda: set(range(1000, 1020)) <= set(notes.got))
    assert notes.got == [*range(10), *range(1000, 1020)]


async def test_a_topic_that_is_created_again_with_fewer_partitions_does_not_hold_up_commits(kafka: str, new_topic: NewTopic) -> None:
    """Given finished records of a partition that is gone, when more records come than fit without a commit, then all are read."""
    topic = await new_topic(partitions=2)
    config = settings(kafka, topic, membership="assign", max_uncommitted_offsets=40, client={"metadata_max_age_ms": 500})
    notes = Notes()
    await produce(kafka, topic, range(5), partition=0)
    await produce(kafka, topic, range(5, 10), partition=1)
    async with playing(config, notes) as run:
        texts = heard(run)
        await notes.until(lambda: len(notes.got) == 10)
        await create_again(kafka, topic)
        await produce(kafka, topic, range(1000, 1200))
        await notes.until(lambda: 1199 in notes.got)
        await until_committed(kafka, config.group or "", topic, 120)
    assert not any("commit failed" in text for text in texts)


async def test_commits_of_older_versions_are_continued(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config = settings(kafka, topic)
    await commit(kafka, config.group or "", topic, 4, encode("play", 4, [6, 9], 4096)[0])
    assert await all_of(config) == [4, 5, 9]
    note = decode((await committed(kafka, config.group or "", topic)).metadata)
    assert note is not None
    assert note.mark is not None


async def test_records_have_the_id_of_their_topic(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=2)
    config, ids = settings(kafka, topic, translator=lambda record: (record.topic_id,), membership="assign", group=None), []
    for _ in range(2):
        await produce(kafka, topic, range(3), partition=0)
        await produce(kafka, topic, range(3), partition=1)
        [topic_id] = set(await all_of(config))
        ids.append(topic_id)
        await delete_topic(kafka, topic)
        await create_topic(kafka, topic, 2)
    assert len(set(ids)) == 2
    assert all(len(base64.urlsafe_b64decode(one + "==")) == 16 for one in ids)
