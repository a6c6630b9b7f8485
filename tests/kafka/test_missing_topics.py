"""Missing topics at brokers that create topics on request: they are looked up, reported and never created (KS-12)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from engine import ComponentError, Run
from engine.errors import FatalError
from engine.kafka.transactional import KafkaTransactionalSpout
from engine.testing import Feeder
from tests.kafka.play import Notes, all_of, heard, playing, produce, settings
from tests.kafka.sink_play import fed, sink_config, until, values, write
from tests.kafka.tools import dead_letter_of, printed, write_letters
from tests.kafka.transactional.committer_task import committer_config, committing
from tests.kafka.transactional.hand import coordinating
from tests.kafka.transactional.hand import settings as batch_settings
from tests.servers.kafka_admin import create_topic, delete_topic, fresh_name, topic_exists
from tests.servers.kafka_fixtures import NewBroker, NewTopic

pytestmark = pytest.mark.guarantee("KS-12")
SOON: Final[dict[str, Any]] = {"metadata_max_age_ms": 100}
QUICK_COMMITS: Final = ("engine.kafka.client.consumer_link.COMMIT_TIMEOUT_SECS", 0.5)
"""A revoke and a stop commit, and no commit for a deleted topic succeeds."""

Use = Callable[[str, str, str], Awaitable[object]]


async def spout(kafka: str, missing: str, there: str) -> None:
    with pytest.raises(ComponentError, match=rf"topic '{missing}' does not exist, and did not appear within 0.5 s"):
        await all_of(settings(kafka, missing, topic_timeout_secs=0.5))


async def spout_without_group(kafka: str, missing: str, there: str) -> None:
    with pytest.raises(ComponentError, match=rf"topic '{missing}' does not exist, and did not appear within 0.5 s"):
        await all_of(settings(kafka, "", topics=(there, missing), membership="assign", topic_timeout_secs=0.5))


async def batch_spout(kafka: str, missing: str, there: str) -> None:
    with pytest.raises(FatalError, match=rf"topic '{missing}' does not exist, and did not appear within 0.5 s"):
        async with coordinating(KafkaTransactionalSpout(batch_settings(kafka, missing, topic_timeout_secs=0.5))):
            pass


async def dead_letters(kafka: str, missing: str, there: str) -> None:
    with pytest.raises(ComponentError, match=rf"the dead-letter topic '{missing}' does not exist"):
        await write(sink_config(kafka, there, dead_letter_topic=missing), fed(["a"]))


async def sink(kafka: str, missing: str, there: str) -> None:
    with pytest.raises(ComponentError, match=rf"topic '{missing}' does not exist, and did not appear within 0.5 s"):
        await write(sink_config(kafka, missing, topic_timeout_secs=0.5), fed(["a"]))


async def sink_of_a_function(kafka: str, missing: str, there: str) -> None:
    feeder = fed([missing, there])
    await write(sink_config(kafka, lambda tup: tup["value"], topic_timeout_secs=0.5), feeder)
    assert (feeder.acked, [message_id for message_id, _ in feeder.failed]) == ([2], [1])


async def committer(kafka: str, missing: str, there: str) -> None:
    async with committing(committer_config(kafka, missing, topic_timeout_secs=0.5), name=fresh_name("words")) as task:
        with pytest.raises(FatalError, match=rf"topic '{missing}' does not exist"):
            await task.commit(1, "a")


USES: Final = (spout, spout_without_group, batch_spout, dead_letters, sink, sink_of_a_function, committer)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
async def test_no_user_of_a_missing_topic_creates_it(
    kafka: str, new_topic: NewTopic, use: Use, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Given brokers that create topics on request, then a missing one stays missing, and is not logged repeatedly."""
    monkeypatch.setattr("engine.kafka.dead_letters.dead_letter_writer.TOPIC_SECS", 0.5)
    caplog.set_level(logging.WARNING)
    missing = fresh_name("missing")
    await use(kafka, missing, await new_topic())
    assert not await topic_exists(kafka, missing)
    assert not [one for one in caplog.records if one.name.startswith("aiokafka") and missing in one.getMessage()]


async def test_commands_create_no_topics(kafka: str, new_topic: NewTopic, capsys: pytest.CaptureFixture[str]) -> None:
    missing, dead = fresh_name("missing"), await new_topic(partitions=1)
    await write_letters(kafka, dead, [dead_letter_of(missing, 1)])
    brokers = ("--brokers", kafka)
    out, _ = await printed(capsys, "replay", *brokers, "--topic", dead, status=1)
    assert f"topic {missing!r} does not exist" in out
    for command in (["dead-letters"], ["replay"], ["replay", "--to", missing, "--topic", dead], ["dead-letters", "--show", "0@1"]):
        topic = [] if "--to" in command else ["--topic", missing]
        _, err = await printed(capsys, *command, *brokers, *topic, status=2)
        assert f"topic {missing!r} does not exist" in err
    assert not await topic_exists(kafka, missing)


@pytest.mark.parametrize("membership", ["group", "assign"])
@pytest.mark.deep
async def test_a_topic_deleted_while_it_is_read_is_reported_and_not_created(
    kafka: str, new_topic: NewTopic, membership: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*QUICK_COMMITS)
    caplog.set_level(logging.WARNING, "engine.kafka")
    topic, other = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    config = settings(kafka, "", topics=(topic, other), membership=membership, heartbeat_interval_ms=100, client=SOON)
    async with playing(config, notes := Notes()):
        await notes.until(lambda: len(notes.got) == 10)
        await delete_topic(kafka, topic)
        await until(lambda: f"topic {topic!r} was deleted" in caplog.text)
        await produce(kafka, other, range(10, 20))
        await notes.until(lambda: len(notes.got) == 20)
        assert not await topic_exists(kafka, topic)
        await create_topic(kafka, topic, partitions=1)
        await produce(kafka, topic, range(20, 25))
        await notes.until(lambda: len(notes.got) == 25)
        assert f"topic {topic!r} exists again" in caplog.text
        assert caplog.text.count(f"topic {topic!r} was deleted") == 1
    assert notes.got == list(range(25))


@pytest.mark.parametrize("membership", ["group", "assign"])
@pytest.mark.deep
async def test_a_deleted_topic_that_does_not_come_back_ends_the_run(
    kafka: str, new_topic: NewTopic, membership: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*QUICK_COMMITS)
    topic, other = await new_topic(partitions=1), await new_topic(partitions=1)
    await produce(kafka, topic, range(10))
    times: dict[str, Any] = {"heartbeat_interval_ms": 100, "topic_timeout_secs": 0.5, "client": SOON}
    config = settings(kafka, "", topics=(topic, other), membership=membership, **times)

    async def delete_it_while_it_is_read() -> None:
        async with playing(config, notes := Notes()) as run:
            await notes.until(lambda: len(notes.got) == 10)
            await delete_topic(kafka, topic)
            async with asyncio.timeout(30):
                await run.completed()

    with pytest.raises(ComponentError, match=rf"topic '{topic}' does not exist, and did not appear within 0.5 s"):
        await delete_it_while_it_is_read()


async def test_a_late_topic_is_announced_to_its_reader(kafka: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "engine.kafka")
    topic = fresh_name("late")
    async with playing(settings(kafka, topic), notes := Notes()) as run:
        texts = heard(run)
        await notes.until(lambda: any(f"topic {topic!r} does not exist" in text for text in texts))
        await create_topic(kafka, topic, partitions=2)
        await produce(kafka, topic, range(10))
        await notes.until(lambda: len(notes.got) == 10)
    assert f"topic {topic!r} exists now" in caplog.text


async def test_a_late_topic_of_a_pattern_is_announced(kafka: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "engine.kafka")
    begin = fresh_name("later")
    first = await create_topic(kafka, f"{begin}-1", partitions=1)
    await produce(kafka, first, range(10))
    async with playing(settings(kafka, "", pattern=f"{begin}.*", heartbeat_interval_ms=100, client=SOON), notes := Notes()):
        await notes.until(lambda: len(notes.got) == 10)
        second = await create_topic(kafka, f"{begin}-2", partitions=1)
        await produce(kafka, second, range(10, 20))
        await notes.until(lambda: len(notes.got) == 20)
    assert f"topic {second!r} exists now" in caplog.text
    assert f"topic {first!r} exists now" not in caplog.text


async def test_a_late_topic_of_a_batch_spouts_pattern_is_announced(kafka: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "engine.kafka")
    begin = fresh_name("later")
    async with coordinating(KafkaTransactionalSpout(batch_settings(kafka, "", pattern=f"{begin}.*", refresh_ms=50.0))) as coordinator:
        assert coordinator.partitions() == []
        topic = await create_topic(kafka, f"{begin}-1", partitions=1)
        await until(coordinator.partitions)
        assert f"topic {topic!r} exists now" in caplog.text


@pytest.mark.guarantee("KS-10")
async def test_a_late_topic_is_announced_to_its_writer(kafka: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "engine.kafka")
    topic, feeder = fresh_name("late"), fed(["a"])
    writing = asyncio.create_task(write(sink_config(kafka, topic, topic_timeout_secs=30.0), feeder))
    await until(lambda: f"topic {topic!r} does not exist" in caplog.text)
    await create_topic(kafka, topic, partitions=1)
    await writing
    assert f"topic {topic!r} exists now" in caplog.text
    assert caplog.text.count(f"topic {topic!r} does not exist") == 1
    assert await values(kafka, topic) == [b"a"]


@pytest.mark.guarantee("KS-10")
@pytest.mark.deep
async def test_time_without_a_broker_does_not_count_for_a_missing_topic(new_broker: NewBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Given a broker that is away for longer than `topic_timeout_secs`, when broker and topic come, then all is written."""
    broker = await asyncio.to_thread(new_broker)
    feeder = fed(["a"])
    writing = asyncio.create_task(write(sink_config(broker.bootstrap, "late", topic_timeout_secs=1.0), feeder))
    await until(lambda: "topic 'late' does not exist" in caplog.text)
    broker.kill()
    await until(lambda: f"Kafka at {broker.bootstrap} does not answer (writing topic 'late')" in caplog.text)
    await asyncio.to_thread(broker.start)
    await create_topic(broker.bootstrap, "late", partitions=1)
    await writing
    assert await values(broker.bootstrap, "late") == [b"a"]


@pytest.mark.guarantee("KS-10")
async def test_records_for_a_deleted_topic_wait_until_it_is_created_again(
    kafka: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic, feeder = await new_topic(partitions=1), Feeder("value", max_retries=1000)

    async def delete_and_make(run: Run) -> None:
        for number in range(100):
            feeder.feed((str(number),))
        await until(lambda: len(feeder.acked) == 100)
        await delete_topic(kafka, topic)
        async with asyncio.timeout(20):
            while await topic_exists(kafka, topic):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for number in range(100, 200):
            feeder.feed((str(number),))
        await until(lambda: f"topic {topic!r} was deleted" in caplog.text)
        assert not await topic_exists(kafka, topic)
        await create_topic(kafka, topic, partitions=1)
        await until(lambda: len(feeder.acked) == 200)
        feeder.close()

    await write(sink_config(kafka, topic), feeder, during=delete_and_make)
    assert set(map(int, await values(kafka, topic))) == set(range(100, 200))
