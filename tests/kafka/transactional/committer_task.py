"""One task of a Kafka committer without a run, on a real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from engine.api import Fields
from engine.kafka.client.admin_client import ClusterConfig, connected
from engine.kafka.transactional import KafkaCommitter, KafkaCommitterConfig
from engine.kafka.transactional.batch_writer import BatchWriter
from engine.kafka.transactional.stored_txids import TxidOwner, read_stored_txid
from engine.state.rows import StoredTxid
from engine.transactional import TransactionAttempt
from engine.transactional.resources import OpenResources
from tests.kafka.transactional.hand import HandCollector, HandContext
from tests.patience import PATIENCE_SECS

MARK_SECS: Final = 1.0
"""Time in which a broker marks the end of a transaction in its partitions. Some tests leave one open on purpose."""
FIELDS = Fields("attempt", "key", "value")


class HandTuple(tuple[Any, ...]):
    """(attempt, key, value), as a committer sees it."""

    fields = FIELDS
    stream = "default"
    source_component = "count"


class CommitterTask:
    """One task of a committer. It makes an instance for each attempt, and opens the resources of the task once."""

    def __init__(self, config: KafkaCommitterConfig | Callable[[], KafkaCommitterConfig], context: Any) -> None:
        self.config, self.context = config, context
        self.resources = OpenResources(context)
        self._attempts = 0

    async def instance(self, txid: int, rows: Iterable[tuple[Any, Any]]) -> KafkaCommitter:
        """Return an instance that has executed a whole batch."""
        self._attempts += 1
        bolt: Any = KafkaCommitter(self.config() if callable(self.config) else self.config)
        bolt.attempt, bolt.context, bolt.resources = TransactionAttempt(txid, self._attempts), self.context, self.resources
        bolt.collector = HandCollector()
        await bolt.prepare()
        for key, value in rows:
            bolt.execute(HandTuple((bolt.attempt, key, value)))
        return bolt  # type: ignore[no-any-return]

    async def commit(self, txid: int, *values: Any) -> KafkaCommitter:
        """Commit a batch of records with these values."""
        bolt = await self.instance(txid, [(None, str(value)) for value in values])
        await bolt.finish_batch()
        return bolt

    @property
    def writer(self) -> BatchWriter:
        """Writer of the task, which is its resource."""
        [opened] = self.resources._opened.values()
        return opened.result()  # type: ignore[no-any-return]


@asynccontextmanager
async def committing(
    config: KafkaCommitterConfig | Callable[[], KafkaCommitterConfig], *, name: str, task: int = 0, tasks: int = 1
) -> AsyncIterator[CommitterTask]:
    """Return a task of the committer `counts` of the topology `name`. A function as config is called for each attempt."""
    context: Any = HandContext(name=name, component="counts", task_index=task, tasks=tasks)
    context.clock = SimpleNamespace(now=asyncio.get_running_loop().time)
    committer = CommitterTask(config, context)
    try:
        yield committer
    finally:
        await context.end()
        await committer.resources.close()


def committer_config(kafka: str, topic: str, **changes: Any) -> KafkaCommitterConfig:
    """A config for tests."""
    return KafkaCommitterConfig(**({"brokers": kafka, "topic": topic, "topic_timeout_secs": 5.0} | changes))


async def seen(kafka: str, topic: str) -> list[str]:
    """Return the values of all committed records, by partition and offset."""
    found: list[str] = []
    async with AIOKafkaConsumer(bootstrap_servers=kafka, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        while not (numbers := consumer.partitions_for_topic(topic)):
            await consumer._client.set_topics([topic])
        for place in (TopicPartition(topic, number) for number in sorted(numbers)):
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            end = await committed_end(kafka, consumer, place)
            async with asyncio.timeout(PATIENCE_SECS):
                while await consumer.position(place) < end:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        found += [record.value.decode() for record in records]
    return found


async def committed_end(kafka: str, consumer: AIOKafkaConsumer, place: TopicPartition) -> int:
    """Return the last stable offset of a partition.

    A broker answers a commit before the partition has its mark. So a transaction that is open is given a second to end.
    """
    async with AIOKafkaConsumer(bootstrap_servers=kafka, enable_auto_commit=False) as uncommitted:
        end = (await uncommitted.end_offsets([place]))[place]
    with suppress(TimeoutError):
        async with asyncio.timeout(MARK_SECS):
            while (await consumer.end_offsets([place]))[place] < end:  # noqa: ASYNC110 - the broker sends no event
                await asyncio.sleep(0.02)
    return (await consumer.end_offsets([place]))[place]  # type: ignore[no-any-return]


async def stored(kafka: str, topic: str, name: str, task: int = 0) -> StoredTxid | None:
    """Return the stored txid of a task."""
    owner = TxidOwner(name, "counts", task, 1)
    async with connected(ClusterConfig(brokers=kafka)) as link:
        commits = {one.topic: commit for one, commit in (await link.committed(owner.group)).items()}
    return read_stored_txid(owner, commits[topic].offset, commits[topic].metadata) if topic in commits else None


async def until_stored(kafka: str, topic: str, name: str, wanted: tuple[int, int], task: int = 0) -> None:
    """Wait until a task has stored a txid and a parallelism. A broker may answer a commit before its offsets are visible."""
    async with asyncio.timeout(PATIENCE_SECS):
        while await stored(kafka, topic, name, task) != wanted:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
