"""Coordinators and emitters of Kafka's batch spouts without a run, on a real broker."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions, RecordsToDelete

from engine.api import Values
from engine.kafka.transactional import KafkaBatchSpoutConfig
from engine.kafka.transactional.batch_reader import range_of
from engine.transactional import TransactionAttempt
from tests.servers.kafka_admin import admin

PATIENCE_SECS: Final = 60.0
PAUSE_SECS: Final = 0.02


class HandCounter:
    """Counter of a context, which adds to a sum by name."""

    def __init__(self, counts: Counter[str], name: str) -> None:
        self._counts, self._name = counts, name

    def add(self, amount: float = 1, /) -> None:
        self._counts[self._name] += int(amount)


class HandContext:
    """Context of a task without a run."""

    def __init__(self, *, name: str = "by-hand", component: str = "lines", task_index: int = 0, tasks: int = 1) -> None:
        self.topology_name, self.component_id, self.task_index, self.tasks, self.task_id = name, component, task_index, tasks, task_index
        self.counts: Counter[str] = Counter()
        self.background: list[asyncio.Task[Any]] = []

    def counter(self, name: str, /, **labels: str) -> HandCounter:
        return HandCounter(self.counts, name)

    def create_task(self, coroutine: Coroutine[Any, Any, object], /, *, context: Any = None) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(coroutine)
        self.background.append(task)
        return task

    async def end(self) -> None:
        """Cancel the background tasks, and raise the first error of one."""
        for task in self.background:
            task.cancel()
        for found in await asyncio.gather(*self.background, return_exceptions=True):
            if isinstance(found, Exception):
                raise found


class HandCollector:
    """Records emitted tuples and reports."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Values]] = []
        self.reported: list[str] = []

    @property
    def values(self) -> list[Any]:
        """The first value of each tuple."""
        return [values[0] for _, values in self.rows]

    def emit(self, values: Values, stream: str = "default") -> None:
        self.rows.append((stream, values))

    def emit_many(self, rows: Sequence[Values], stream: str = "default") -> None:
        self.rows += [(stream, values) for values in rows]

    def emit_direct(self, task: int, values: Values, stream: str = "default") -> None:
        raise AssertionError("the emitters of Kafka choose no task")

    def report_error(self, error: BaseException) -> None:
        self.reported.append(str(error))

    async def ready(self) -> None:
        await asyncio.sleep(0)


class Hand:
    """Asks an emitter for batches as the engine does, with growing attempts and stored metadata."""

    def __init__(self, emitter: Any, context: HandContext) -> None:
        self.emitter, self.context = emitter, context
        self.metadata: dict[tuple[int, str], Any] = {}
        self.reported: list[str] = []
        self.txid = 0
        """Newest requested txid."""
        self._attempts = 0

    def _attempt(self, txid: int) -> TransactionAttempt:
        self._attempts += 1
        self.txid = max(txid, self.txid)
        return TransactionAttempt(txid, self._attempts)

    async def new(self, txid: int, partition: str) -> list[Any]:
        """Ask for a new batch after txid - 1 until it is not empty. Return the emitted values."""
        async with asyncio.timeout(PATIENCE_SECS):
            while not (found := await self.once(txid, partition)):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_SECS)
        return found

    async def once(self, txid: int, partition: str) -> list[Any]:
        """Ask once for a new batch after txid - 1. Return the emitted values, perhaps none."""
        collector, before = HandCollector(), self.metadata.get((txid - 1, partition))
        ask = getattr(self.emitter, "emit_partition_batch_new", self.emitter.emit_partition_batch)
        try:
            self.metadata[txid, partition] = await ask(self._attempt(txid), collector, partition, before)
        finally:
            self.reported += collector.reported
        return collector.values

    async def again(self, txid: int, partition: str) -> list[Any]:
        """Replay a transactional batch. Return the emitted values."""
        collector = HandCollector()
        await self.emitter.emit_partition_batch(self._attempt(txid), collector, partition, self.metadata[txid, partition])
        return collector.values

    async def until(self, txid: int, partition: str, count: int) -> list[Any]:
        """Ask for new batches from this txid on, until `count` values were emitted. Return all."""
        found: list[Any] = []
        async with asyncio.timeout(PATIENCE_SECS):
            while len(found) < count:
                got = await self.once(txid, partition)
                found += got
                txid += 1
                if not got:
                    await asyncio.sleep(PAUSE_SECS)
        return found

    def range(self, txid: int, partition: str) -> Any:
        """Return the offset range of a batch."""
        return range_of(self.metadata[txid, partition])


@asynccontextmanager
async def emitting(spout: Any, **place: Any) -> AsyncIterator[Hand]:
    """Return an open emitter of a spout."""
    emitter, context = spout.emitter(), HandContext(**place)
    emitter.context = context
    await emitter.open()
    try:
        yield Hand(emitter, context)
    finally:
        await context.end()
        await emitter.close()


@asynccontextmanager
async def coordinating(spout: Any) -> AsyncIterator[Any]:
    """Return an open coordinator of a spout."""
    coordinator, context = spout.coordinator(), HandContext()
    coordinator.context, coordinator.positions = context, {}
    await coordinator.open()
    try:
        yield coordinator
    finally:
        await context.end()
        await coordinator.close()


def number(record: Any) -> tuple[int]:
    """The translator of most tests: the value as a number."""
    return (int(record.value),)


def settings(kafka: str, topics: Any, **changes: Any) -> KafkaBatchSpoutConfig:
    """Return a config for tests. A batch waits long for its first records, so that existing records are in it."""
    base: dict[str, Any] = {"brokers": kafka, "translator": number, "fields": "value", "batch_wait_ms": 300.0, "replay_timeout_ms": 5_000.0}
    base |= {} if "pattern" in changes else {"topics": topics}
    return KafkaBatchSpoutConfig(**(base | changes))


async def transact(kafka: str, topic: str, values: Sequence[Any], *, commit: bool = True) -> None:
    """Append records in a transaction of their own, which is committed or aborted."""
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"{topic}-writer") as producer:
        await producer.begin_transaction()
        for value in values:
            await producer.send(topic, str(value).encode(), partition=0)
        await producer.flush()
        await (producer.commit_transaction() if commit else producer.abort_transaction())


async def forget_before(kafka: str, topic: str, offset: int) -> None:
    """Delete the records of partition 0 below an offset, as retention does."""
    async with admin(kafka) as client:
        await client.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=offset)})


async def widen(kafka: str, topic: str, partitions: int) -> None:
    """Give a topic more partitions."""
    async with admin(kafka) as client:
        await client.create_partitions({topic: NewPartitions(partitions)})
