"""KafkaSink and brokers that are absent, killed, frozen or refuse: no loss, and errors with the reason (KS-10)."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from engine import Config, Run
from engine.errors import ComponentError
from engine.kafka import KafkaSecurity
from engine.kafka.dead_letters.dead_letter import read_dead_letter
from engine.testing import Feeder
from tests.kafka.sink_play import FAILURE, Record, burying, fed, sink_config, until, values, write, written
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import Operation, Resource, allow, create_topic
from tests.servers.kafka_broker import KafkaBroker, why_not
from tests.servers.kafka_fixtures import NewBroker
from tests.servers.kafka_security import KafkaSecurity as BrokerSecurity
from tests.servers.process import free_port
from tests.servers.required import required

pytestmark = pytest.mark.guarantee("KS-10")
PASSWORD: Final = "secret"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that creates no topics, and has one user without rights."""
    required(why_not())
    security = BrokerSecurity(users={"writer": PASSWORD}, acls=True)
    with KafkaBroker(tmp_path_factory.mktemp("strict"), settings={"auto.create.topics.enable": "false"}, security=security) as broker:
        yield broker


@pytest.fixture(scope="module")
def shaken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that these tests kill and freeze, one after the other."""
    required(why_not())
    with KafkaBroker(tmp_path_factory.mktemp("shaken")) as broker:
        yield broker


def as_writer(password: str = PASSWORD) -> KafkaSecurity:
    """Return the security settings of the user of `strict`."""
    return KafkaSecurity(protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="writer", password=password)


# Errors that end the run


async def test_a_wrong_password_ends_the_run(strict: KafkaBroker) -> None:
    config = sink_config(strict.address("SASL_PLAINTEXT"), "any", security=as_writer("wrong"))
    with pytest.raises(ComponentError, match="Kafka refused writing topic 'any'") as raised:
        await write(config, fed(["a"]))
    assert "Check username, password and mechanism" in str(raised.value)


async def test_no_right_to_a_topic_ends_the_run(strict: KafkaBroker) -> None:
    """With DESCRIBE the first record is refused, without it the topic."""
    for name, operations in (("seen", [Operation.DESCRIBE]), ("unseen", [])):
        await create_topic(strict.bootstrap, name)
        await allow(strict.bootstrap, "writer", Resource.TOPIC, name, *operations)
        await allow(strict.bootstrap, "writer", Resource.TOPIC, "another", Operation.WRITE)
        config, feeder = sink_config(strict.address("SASL_PLAINTEXT"), name, security=as_writer()), fed(["a"])
        with pytest.raises(ComponentError, match="TopicAuthorizationFailed") as raised:
            await write(config, feeder)
        assert "(sinks: WRITE," in str(raised.value)
        assert all("TopicAuthorizationFailed" in (failure.error or "") for _, failure in feeder.failed)


async def test_missing_rights_for_dead_letters_end_the_run_at_its_start(strict: KafkaBroker) -> None:
    await create_topic(strict.bootstrap, "written")
    await allow(strict.bootstrap, "writer", Resource.TOPIC, "written", Operation.WRITE)
    config = sink_config(strict.address("SASL_PLAINTEXT"), "written", security=as_writer(), dead_letter_topic="dead")
    with pytest.raises(ComponentError, match=r"Kafka refused writing dead letters to topic 'dead'"):
        await write(config, fed(["a"]))


async def test_a_missing_topic_ends_the_run_at_its_start(strict: KafkaBroker) -> None:
    with pytest.raises(ComponentError, match="topic 'nowhere' does not exist") as raised:
        await write(sink_config(strict.bootstrap, "nowhere", topic_timeout_secs=0.5), fed(["a"]))
    assert "Create the topic" in str(raised.value)


async def test_a_missing_topic_named_by_a_function_fails_its_tuples(strict: KafkaBroker) -> None:
    await create_topic(strict.bootstrap, "somewhere")
    feeder = fed(["nowhere", "somewhere", "nowhere"])
    finished = await write(sink_config(strict.bootstrap, lambda tup: tup["value"], topic_timeout_secs=0.3), feeder)
    assert feeder.acked == [2]
    assert sorted(message_id for message_id, _ in feeder.failed) == [1, 3]
    assert any("'nowhere' has not appeared within 0.3 s" in report.text for report in finished.errors)
    assert all("'nowhere' has not appeared within 0.3 s" in (failure.error or "") for _, failure in feeder.failed)


# Transient errors


async def test_an_absent_broker_is_reported_and_awaited(new_broker: NewBroker, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    feeder = fed(["a", "b"])
    writing = asyncio.create_task(write(sink_config(f"127.0.0.1:{port}", "late"), feeder))
    await until(lambda: caplog.text.count(f"Kafka at 127.0.0.1:{port} cannot be reached for writing topic 'late'") >= 2)
    await asyncio.to_thread(new_broker, port=port)
    await create_topic(f"127.0.0.1:{port}", "late")
    finished = await writing
    assert len(feeder.acked) == 2
    assert finished.errors
    assert sorted(await values(f"127.0.0.1:{port}", "late")) == [b"a", b"b"]


async def test_a_run_can_be_cancelled_while_there_is_no_broker(caplog: pytest.LogCaptureFixture) -> None:
    writing = asyncio.create_task(write(sink_config(f"127.0.0.1:{free_port()}", "never"), fed(["a"])))
    await until(lambda: "cannot be reached" in caplog.text)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_tuples_are_acked_after_the_broker_and_none_is_lost(shaken: KafkaBroker) -> None:
    """Given a broker that is frozen, thawed, killed and restarted, then tuples wait, none fails, and each record is written."""
    topic = await create_topic(shaken.bootstrap, "tried")
    feeder = Feeder("value")
    count = 0

    def feed(more: int) -> None:
        nonlocal count
        for _ in range(more):
            feeder.feed((str(count),))
            count += 1

    async def trouble(run: Run) -> None:
        feed(1000)
        await until(lambda: len(feeder.acked) == 1000)
        shaken.freeze()
        feed(1000)
        await until(lambda: run.snapshot().components["sink"].executed == 2000)
        assert len(feeder.acked) == 1000
        shaken.thaw()
        await until(lambda: len(feeder.acked) == 2000)
        feed(20_000)
        await until(lambda: len(feeder.acked) > 3000)
        await asyncio.to_thread(shaken.kill)
        feed(1000)
        await asyncio.to_thread(shaken.start)
        feeder.close()

    config = sink_config(shaken.bootstrap, topic, max_in_flight=2000, client={"retry_backoff_ms": 50})
    await write(config, feeder, during=trouble, engine_config=Config(message_timeout_secs=2.0))
    assert len(feeder.acked) == count
    assert feeder.failed == []
    assert sorted(map(int, await values(shaken.bootstrap, topic))) == list(range(count))


async def test_records_without_an_acknowledgment_in_time_fail_and_are_repeated(shaken: KafkaBroker) -> None:
    topic = await create_topic(shaken.bootstrap, "timed")
    feeder = Feeder("value", max_retries=1000)

    async def freeze(run: Run) -> None:
        feeder.feed(("first",))
        await until(lambda: len(feeder.acked) == 1)
        shaken.freeze()
        feeder.feed(("second",))
        await until(lambda: len(feeder.failed) >= 1)
        shaken.thaw()
        feeder.close()

    config = sink_config(shaken.bootstrap, topic, delivery_timeout_ms=400, request_timeout_ms=300)
    finished = await write(config, feeder, during=freeze)
    assert len(feeder.acked) == 2
    assert any("no broker has acknowledged within 0.4 s" in report.text for report in finished.errors)
    assert "no broker has acknowledged within 0.4 s" in (feeder.failed[0][1].error or "")
    assert set(await values(shaken.bootstrap, topic)) == {b"first", b"second"}


async def test_a_sink_closes_in_time_while_no_broker_answers(shaken: KafkaBroker) -> None:
    """Unacknowledged records are not acked, so the source still has them."""
    topic = await create_topic(shaken.bootstrap, "closed")
    feeder = Feeder("value")

    async def freeze_and_stop(run: Run) -> None:
        feeder.feed(("first",))
        await until(lambda: len(feeder.acked) == 1)
        shaken.freeze()
        feeder.feed(("second",))
        await until(lambda: run.snapshot().components["sink"].executed == 2)
        async with asyncio.timeout(PATIENCE_SECS):
            await run.stop()
        shaken.thaw()

    await write(sink_config(shaken.bootstrap, topic, flush_timeout_secs=0.2), feeder, during=freeze_and_stop)
    assert feeder.acked == [1]
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


# Dead letters


async def test_dead_letters_wait_for_an_absent_broker(shaken: KafkaBroker) -> None:
    await create_topic(shaken.bootstrap, "dead-1")
    async with burying(shaken.bootstrap, "dead-1", request_timeout_ms=500) as (letters, _):
        await letters.send_failed_record(Record(offset=0), FAILURE, 1)
        shaken.kill()
        waiting = letters.send_failed_record(Record(offset=1), FAILURE, 1)
        await asyncio.to_thread(shaken.start)
        assert not waiting.done() or waiting.exception() is None
        await asyncio.wait_for(waiting, PATIENCE_SECS)
    found = [read_dead_letter(record).offset for record in await written(shaken.bootstrap, "dead-1")]
    assert set(found) == {0, 1}


async def test_unwritten_letters_are_cancelled_at_the_stop(shaken: KafkaBroker) -> None:
    await create_topic(shaken.bootstrap, "dead")
    async with burying(shaken.bootstrap, "dead", request_timeout_ms=500) as (letters, _):
        shaken.freeze()
        waiting = letters.send_failed_record(Record(), FAILURE, 1)
        assert letters.unacknowledged == 1
    shaken.thaw()
    assert waiting.cancelled()
