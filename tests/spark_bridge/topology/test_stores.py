"""Committers with PostgreSQL, Redis and Kafka: the same stored results from Spark as from one process (CL-1, TX-8)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from engine import Config, Topology, Tuple, run
from engine.kafka.transactional import KafkaCommitter, KafkaCommitterConfig
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import ReduceInto, ValueMap, values_at
from spark_bridge.process import SparkChild
from spark_bridge.topology import cluster_run
from tests.kafka.transactional.committer_task import seen
from tests.servers.kafka_fixtures import NewTopic
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required
from tests.spark_bridge.spark_fixtures import LOCAL
from tests.spark_bridge.topology.test_on_spark import LINES, Counts, Split

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.deep, pytest.mark.guarantee("CL-1")]

RUN_SECS = 110


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    required(why_not())
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def topology_of(name: str, committer: Any) -> Topology:
    """Return a word count in batches, which commits the counts of each batch."""
    builder = TransactionalTopologyBuilder(name, "lines", MemoryTransactionalSpout(LINES, "line", take=20), 2, max_spout_pending=2)
    builder.set_bolt("split", Split, 2).shuffle_grouping("lines")
    builder.set_bolt("count", Counts, 2).fields_grouping("split", "word")
    builder.set_committer("keep", committer, 2).fields_grouping("count", "word")
    return builder.build()


async def play(topology: Topology, *, on_spark: bool) -> None:
    running = cluster_run.run(topology, Config(seed=1), spark=LOCAL) if on_spark else run(topology, Config(seed=1))
    async with asyncio.timeout(RUN_SECS), running:
        await running.completed()
        assert not running.snapshot().errors


async def compare(committer_of: Callable[[str], Any], stored: Callable[[str], Awaitable[Any]], names: tuple[str, str]) -> None:
    """Run in one process and on Spark, into a place each. The stored results must be equal, and count each word once."""
    for name, on_spark in zip(names, (False, True), strict=True):
        await play(topology_of("words", committer_of(name)), on_spark=on_spark)
    here, there = [await stored(name) for name in names]
    assert here == there
    assert here


async def _compare_values(url: str) -> None:
    def values(name: str) -> ValueMap:
        return values_at(url, name)

    async def stored(name: str) -> dict[str, int]:
        async with values(name).reader() as reader:
            counts = {key: value async for key, value in reader.items()}
        assert sum(counts.values()) == 8 * len(LINES)
        return counts

    await compare(lambda name: ReduceInto(values(name), key="word", value="count"), stored, ("words_here", "words_there"))


async def test_postgres_has_the_values_of_one_process(spark_child: SparkChild, new_database: str) -> None:
    await _compare_values(new_database)


async def test_redis_has_the_values_of_one_process(spark_child: SparkChild, redis_url: str) -> None:
    await _compare_values(redis_url)


async def test_kafka_has_the_records_of_one_process(spark_child: SparkChild, kafka: str, new_topic: NewTopic) -> None:
    def committer(topic: str) -> Any:
        config = KafkaCommitterConfig(brokers=kafka, topic=topic, keyed_by="word", key=_word, value=_word_and_count)
        return lambda: KafkaCommitter(config)

    async def stored(topic: str) -> list[str]:
        return sorted(await seen(kafka, topic))

    await compare(committer, stored, (await new_topic(), await new_topic()))


def _word(tup: Tuple) -> str:
    return str(tup["word"])


def _word_and_count(tup: Tuple) -> str:
    return f"{tup['word']}={tup['count']}"
