"""Records of a real broker that executors read: aborted transactions, new partitions, and brokers that are away (CL-1, CL-3)."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.kafka.transactional import KafkaBatchSpoutConfig, KafkaTransactionalSpout
from engine.transactional import TransactionalTopologyBuilder
from spark_bridge.process import SparkChild
from spark_bridge.topology import cluster_run
from spark_bridge.topology.job import Job
from tests.kafka.play import produce
from tests.kafka.transactional.hand import transact
from tests.patience import PATIENCE_SECS
from tests.servers.kafka_admin import add_partitions, create_topic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.kafka_fixtures import NewTopic
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.both_engines import Committed, Records
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.spark_replaced import spark_replaced

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("CL-1", "CL-3")]

RUN_SECS = 100


class Passes(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


class Telling(Records):
    """Records the batches, and tells the test after each one."""

    def __init__(self, committed: Committed, changed: asyncio.Event) -> None:
        super().__init__(committed)
        self.changed = changed

    def finish_batch(self) -> None:
        super().finish_batch()
        self.changed.set()


class Play:
    """A run of a topology that reads a topic. Its committer tells of each batch."""

    def __init__(self, brokers: str, topic: str, **config: Any) -> None:
        self.committed, self.changed = Committed(), asyncio.Event()
        settings = {"batch_records": 20, "refresh_ms": 100, "replay_timeout_ms": 5_000, **config}
        spout = KafkaTransactionalSpout(
            KafkaBatchSpoutConfig(brokers=brokers, topics=topic, fields="number", translator=_number, **settings)
        )
        builder = TransactionalTopologyBuilder("planned", "numbers", spout, 2)
        builder.set_bolt("passes", Passes, 2).shuffle_grouping("numbers")
        builder.set_committer("keep", lambda: Telling(self.committed, self.changed)).global_grouping("passes")
        self.topology = builder.build()

    def run(self, **options: Any) -> Any:
        return cluster_run.run(self.topology, Config(max_spout_pending=2, batch_interval_ms=20), **options)

    async def until(self, numbers: int) -> None:
        """Wait until so many numbers are committed."""
        async with asyncio.timeout(PATIENCE_SECS):
            while len(self.committed.rows()) < numbers:
                self.changed.clear()
                await self.changed.wait()

    @property
    def numbers(self) -> list[int]:
        """All committed numbers, in ascending order."""
        return [row[0] for row in self.committed.rows()]


def _number(record: Any) -> tuple[int]:
    return (int(record.value),)


async def add_holes_and_a_partition(kafka: str, topic: str, play: Play, **options: Any) -> list[int]:
    """Run over aborted transactions, and over a partition that is added meanwhile. Return the committed numbers."""
    await transact(kafka, topic, range(50))
    await transact(kafka, topic, range(1_000, 1_070), commit=False)
    await transact(kafka, topic, range(50, 90))
    async with asyncio.timeout(RUN_SECS), play.run(**options) as run:
        await play.until(90)
        await add_partitions(kafka, topic, 2)
        await produce(kafka, topic, range(90, 120), partition=1)
        await play.until(120)
        await run.drain()
    return play.numbers


async def test_aborted_records_are_skipped_and_a_new_partition_is_read(kafka: str, new_topic: NewTopic) -> None:
    topic = await new_topic(partitions=1)
    with spark_replaced(LocalJobs()):
        assert await add_holes_and_a_partition(kafka, topic, Play(kafka, topic)) == list(range(120))


@pytest.mark.deep
async def test_the_same_on_executors(kafka: str, new_topic: NewTopic, spark_child: SparkChild) -> None:
    topic = await new_topic(partitions=1)
    assert await add_holes_and_a_partition(kafka, topic, Play(kafka, topic), spark=LOCAL) == list(range(120))


class Kills:
    """Kills a broker once, before a chosen partition, and starts it again in a thread."""

    def __init__(self, broker: KafkaBroker, txid: int) -> None:
        self.broker, self.txid = broker, txid
        self.starting: threading.Thread | None = None

    def __call__(self, job: Job, level: int, partition: int) -> None:
        if job.attempt.request.attempt.txid == self.txid and level == 0 and self.starting is None:
            self.broker.kill()
            self.starting = threading.Thread(target=self.broker.start)
            self.starting.start()


@pytest.mark.deep
async def test_a_broker_that_is_away_at_the_start_of_a_job_loses_nothing(own_broker: KafkaBroker) -> None:
    topic = await create_topic(own_broker.bootstrap, "numbers", partitions=2)
    await produce(own_broker.bootstrap, topic, range(150), partition=None)
    play, kills = Play(own_broker.bootstrap, topic, stop_at_end=True), Kills(own_broker, 2)

    with spark_replaced(LocalJobs(before=kills)):
        async with asyncio.timeout(RUN_SECS), play.run() as run:
            await run.completed()

    assert kills.starting is not None
    await asyncio.to_thread(kills.starting.join)
    assert play.numbers == list(range(150))


@pytest.mark.parametrize(
    "end", [pytest.param(KafkaBroker.stop, marks=pytest.mark.soak), pytest.param(KafkaBroker.kill, marks=pytest.mark.deep)]
)
async def test_a_broker_that_restarts_between_two_jobs_loses_nothing(
    own_broker: KafkaBroker, spark_child: SparkChild, end: Callable[[KafkaBroker], None]
) -> None:
    topic = await create_topic(own_broker.bootstrap, "numbers", partitions=2)
    await produce(own_broker.bootstrap, topic, range(200), partition=None)
    play = Play(own_broker.bootstrap, topic, stop_at_end=True)

    async with asyncio.timeout(RUN_SECS), play.run(spark=LOCAL) as run:
        await play.until(20)
        await asyncio.to_thread(end, own_broker)
        assert len(play.numbers) < 200
        await asyncio.to_thread(own_broker.start)
        await run.completed()

    assert play.numbers == list(range(200))
