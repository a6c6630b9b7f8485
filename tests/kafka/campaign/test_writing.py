"""What the engine writes is read by Java's consumer: nulls, brokers that move, and advertised addresses that do not work (KS-14, TX-10)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import Config, Run, Topology, TopologyBuilder
from engine.kafka import KafkaSink, KafkaSinkConfig, KafkaSpout
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaCommitter, KafkaCommitterConfig, KafkaTransactionalSpout
from engine.transactional import TransactionalTopologyBuilder
from tests.kafka.campaign.java_client import NULLS, java_client
from tests.kafka.play import settings
from tests.kafka.proxy import Proxy
from tests.kafka.test_advertised_addresses import moved
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewBroker, NewTopic
from tests.servers.process import HOST, free_port

pytestmark = [pytest.mark.guarantee("KS-10"), pytest.mark.guarantee("KS-14"), pytest.mark.guarantee("TX-10"), pytest.mark.deep]
TOLD_SECS = 15.0
"""Time by which each wait must be told."""
FIELDS = ("key", "value", "headers")


def parts(record: Any) -> tuple[Any, ...]:
    """The translator: all that a copy keeps."""
    return record.key, record.value, record.headers


def headers(tup: Any) -> Any:
    return tup["headers"]


def by_tuples(kafka: str, source: str, target: str, **changes: Any) -> Topology:
    """Copy at least once, with spout and sink."""
    reading = settings(kafka, source, translator=parts, fields=FIELDS, heartbeat_interval_ms=1000, offset_commit_period_ms=200, **changes)
    builder = TopologyBuilder(f"copy-{target}")
    builder.set_spout("lines", lambda: KafkaSpout(reading))
    builder.set_bolt("copies", lambda: KafkaSink(KafkaSinkConfig(brokers=kafka, topic=target, headers=headers))).shuffle_grouping("lines")
    return builder.build()


def by_batches(kafka: str, source: str, target: str, **changes: Any) -> Topology:
    """Copy exactly once, with batches and a committer."""
    reading = KafkaBatchSpoutConfig(
        brokers=kafka, topics=source, translator=parts, fields=FIELDS, batch_records=10, replay_timeout_ms=5000, **changes
    )
    writing = KafkaCommitterConfig(brokers=kafka, topic=target, headers=headers, transaction_timeout_ms=10_000)
    builder = TransactionalTopologyBuilder(f"copy-{target}", "lines", KafkaTransactionalSpout(reading), 1)
    builder.set_committer("copies", lambda: KafkaCommitter(writing)).global_grouping("lines")
    return builder.build()


def config(folder: Path, name: str) -> Config:
    return Config(state_provider=f"sqlite:///{folder / name}.db", batch_interval_ms=20)


@pytest.mark.parametrize("copying", [by_tuples, by_batches])
async def test_nulls_are_written_as_java_reads_them(kafka: str, new_topic: NewTopic, tmp_path: Path, copying: Any) -> None:
    source, target = await new_topic(partitions=1), await new_topic(partitions=1)
    async with java_client(kafka) as java:
        for key, value, its_headers in NULLS:
            await java.put(source, key, value, its_headers)
        async with engine.run(copying(kafka, source, target, stop_at_end=True), config(tmp_path, "nulls")) as run:
            async with asyncio.timeout(PATIENCE_SECS):
                await run.completed()
        copies = await java.read(target)
    assert sorted(map(repr, copies_of(copies))) == sorted(repr((key, value, tuple(its))) for key, value, its in NULLS)


def copies_of(rows: list[Any]) -> list[Any]:
    return [row[2:] for row in rows]


@asynccontextmanager
async def copied_twice(kafka: str, folder: Path) -> AsyncIterator[list[Run]]:
    """Run both ways of copying `in`, to `tuples` and to `batches`."""
    async with (
        engine.run(by_tuples(kafka, "in", "tuples"), config(folder, "tuples")) as tuples,
        engine.run(by_batches(kafka, "in", "batches"), config(folder, "batches")) as batches,
    ):
        yield [tuples, batches]
        await tuples.stop()
        await batches.stop()


async def put_numbers(kafka: str, begin: int, end: int) -> None:
    async with java_client(kafka) as java:
        for number in range(begin, end):
            await java.put("in", None, str(number).encode(), [("n", None)])


async def until_copied(kafka: str, count: int) -> None:
    """Wait until Java reads so many numbers in each copy, then compare: nothing is lost, and the batches have nothing twice."""
    wanted = [str(number).encode() for number in range(count)]
    async with java_client(kafka) as java, asyncio.timeout(2 * PATIENCE_SECS):
        for target in ("tuples", "batches"):
            while len({row.value for row in await java.read(target)}) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert [row.value for row in await java.read("batches")] == wanted
        assert {row.value for row in await java.read("tuples")} == set(wanted)


async def test_a_moved_broker_loses_and_doubles_nothing(own_broker: KafkaBroker, tmp_path: Path) -> None:
    """Given a bootstrap address that follows the broker, when the broker moves twice, then each record is copied."""
    service = free_port()
    kafka = f"{HOST}:{service}"
    async with Proxy(service, own_broker.port) as proxy:
        for topic in ("in", "tuples", "batches"):
            await create_topic(kafka, topic, partitions=1)
        await put_numbers(kafka, 0, 30)
        async with copied_twice(kafka, tmp_path):
            await until_copied(kafka, 30)
            for begin in (30, 60):
                await asyncio.to_thread(moved, own_broker)
                proxy.lead_to(own_broker.port)
                await put_numbers(kafka, begin, begin + 30)
                await until_copied(kafka, begin + 30)


async def test_an_unreachable_address_is_told_in_time_and_loses_nothing(new_broker: NewBroker, tmp_path: Path) -> None:
    """Given an advertised address that works, does not, and works again, then the waits are told within 15 s, and each record is copied."""
    behind, port = free_port(), free_port()
    kafka = f"{HOST}:{port}"
    await asyncio.to_thread(new_broker, port=port, settings={"advertised.listeners": f"PLAINTEXT://{HOST}:{behind}"})
    async with Proxy(behind, port):
        for topic in ("in", "tuples", "batches"):
            await create_topic(kafka, topic, partitions=1)
        await put_numbers(kafka, 0, 30)
    opened = Proxy(behind, port)
    async with opened, copied_twice(kafka, tmp_path) as runs:
        await until_copied(kafka, 30)
        await opened.close()
        for run in runs:
            await until_told(run, f"broker 1 of Kafka at {HOST}:{behind}")
        async with Proxy(behind, port):
            await put_numbers(kafka, 30, 60)
            await until_copied(kafka, 60)
            for run in runs:
                assert not [wait for wait in run.waits if str(behind) in wait.what]


async def until_told(run: Run, what: str) -> None:
    """Wait until the run tells a wait, and check that it was told in time."""
    async with asyncio.timeout(PATIENCE_SECS):
        while not (found := [wait for wait in run.waits if wait.what == what]):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert found[0].secs < TOLD_SECS
