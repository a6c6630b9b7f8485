"""What one task of a Kafka committer has open: its producer, and what it knows of the transactions that its topic has."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka import TopicPartition, errors

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, connected
from engine.kafka.client.errors import RetryPolicy, describe_error, fatal_error, hint_of, is_transient
from engine.kafka.client.partition import PartitionId
from engine.kafka.client.producer_link import OF_ANY_CLIENT, producer_options
from engine.kafka.client.transaction_link import TransactionLink, TransactionLost
from engine.kafka.sink.partition_sender import SenderSettings
from engine.kafka.sink.records import SinkTopic
from engine.kafka.transactional.committer_config import KafkaCommitterConfig
from engine.kafka.transactional.stored_txids import Owner, Stored, is_to_write, read_stored
from engine.transactional import FailedBatch, TransactionAttempt

LOGGER: Final = logging.getLogger("engine.kafka")
STORE_AGAIN_SECS: Final = 86_400.0
"""A txid that has not changed for so long is stored again, or the brokers would forget it (after 7 days, unless they are set otherwise)."""


class Output(Protocol):
    """The records of one batch."""

    async def send(self) -> None:
        """Have all of them written; raises where one was not."""


class BatchWriter:
    """Writes the output of one batch after the other, each in a transaction of Kafka."""

    def __init__(self, config: KafkaCommitterConfig, context: TaskContext) -> None:
        self._config, self._context = config, context
        self._owner = Owner(context.topology_name, context.component_id, context.task_index, context.tasks)
        self._client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        self._writing = f"writing topic {config.topic!r} in transactions of {context.component_id!r}"
        self.link = self._link_of(self._owner)
        self.topic = SinkTopic(config.topic, config.partitioner)
        self.sender_settings = SenderSettings(context.clock.now, 0.0, config.transaction_timeout_ms / 1000, config.max_record_bytes)
        self._stored: dict[int, Stored] = {}
        self._stored_of = 0
        """The producer after whose start that was read: what came before it is committed or aborted."""
        self._one_at_a_time = asyncio.Lock()
        self.records_written = context.counter("kafka_records_written")
        self.records_refused = context.counter("kafka_records_refused")

    def _link_of(self, owner: Owner) -> TransactionLink:
        config = self._config
        options = producer_options(config, self._client_id) | config.producer_options() | {"transactional_id": owner.transactional_id}
        return TransactionLink(config, options, writing=self._writing, report=_log)

    # Life

    async def open(self) -> None:
        """Connect, which ends whatever another process had open as this task; FatalError where the topic is missing."""
        try:
            await self.link.start()
            partitions = await self.link.partitions_of(self._config.topic, self._config.topic_timeout_secs)
            self.topic.learn(partitions, self.link.known_partitions(self._config.topic)[1])
        except BaseException as error:
            await self.link.stop(0.0)
            if isinstance(error, errors.UnknownTopicOrPartitionError):
                hint = "Create the topic, or correct its name: it is looked for, and never created."
                raise FatalError(f"topic {self._config.topic!r} does not exist: {error}", hint=hint) from error
            if isinstance(error, errors.KafkaError):
                raise fatal_error(error, self._writing) from error
            raise
        self._context.create_task(self._keep_stored())

    def check(self, config: KafkaCommitterConfig) -> None:
        """Raise FatalError for the config of a later batch that names another place: the txids stand in this one."""
        for name in ("brokers", "topic"):
            before, now = getattr(self._config, name), getattr(config, name)
            if now != before:
                text = f"the factory of {self._owner.component!r} has changed {name} from {before!r} to {now!r} since its first batch"
                raise FatalError(text, hint="Name the same brokers and topic for every batch; for other topics take other committers.")

    async def close(self) -> None:
        """Disconnect; a transaction that is open is aborted by whoever comes next, or by the broker when its time is over."""
        self.link.spoil()
        await self.link.stop(0.0)

    # Transactions

    async def write(self, attempt: TransactionAttempt, output: Output) -> None:
        """Write the output of a batch and its txid, both or nothing; nothing where they are there.

        Raises FailedBatch for what is worth another try, else FatalError.
        """
        async with self._one_at_a_time:
            began = self._context.clock.now()
            try:
                async with asyncio.timeout(self._config.transaction_timeout_ms / 1000):
                    if await self._is_to_write(attempt.txid):
                        await self._transact(attempt.txid, output)
            except BaseException as error:
                self.link.spoil()
                if not isinstance(error, Exception) or isinstance(error, (FatalError, FailedBatch)):
                    raise
                raise self._judged(error, attempt, self._context.clock.now() - began) from error

    async def _transact(self, txid: int, output: Output | None) -> None:
        link = self.link
        self.topic.learn(*link.known_partitions(self._config.topic))
        await link.begin()
        # First: aiokafka asks again sooner for a group than for a partition while the transaction before is still being ended.
        await link.store(self._owner.group, TopicPartition(self._config.topic, 0), txid, self._owner.metadata)
        if output is not None:
            await output.send()
        await link.commit()
        self._stored[self._owner.task] = Stored(txid, self._owner.parallelism)

    def _judged(self, error: Exception, attempt: TransactionAttempt, took_secs: float) -> Exception:
        """Return what a failure means for the batch."""
        limit_secs = self._config.transaction_timeout_ms / 1000
        if self.link.is_fenced and took_secs < limit_secs:
            text = f"another process writes as task {self._owner.task} of {self._owner.component!r}: this one was fenced at batch {attempt}"
            return FatalError(text, hint="One run of a topology at a time; the other one goes on where this one stopped.")
        if isinstance(error, TimeoutError):
            return FailedBatch(
                f"{self._writing}: not done within transaction_timeout_ms={self._config.transaction_timeout_ms}", report=True
            )
        cause = _cause(error)
        if isinstance(cause, errors.KafkaError) and not is_transient(cause) and hint_of(cause) is not None:
            return fatal_error(cause, self._writing)
        return FailedBatch(f"{self._writing} failed: {describe_error(cause)}", report=True)

    async def _keep_stored(self) -> None:
        """Have the brokers remember the txid of a topology that is idle."""
        while True:
            await asyncio.sleep(STORE_AGAIN_SECS)
            await self.store_again()

    async def store_again(self) -> None:
        """Store what is stored; where that fails it is tried the next day."""
        async with self._one_at_a_time:
            mine = self._stored.get(self._owner.task)
            if mine is None or self._stored_of != self.link.producers:
                return
            try:
                async with asyncio.timeout(self._config.transaction_timeout_ms / 1000):
                    await self._transact(mine.txid, None)
            except Exception as error:  # noqa: BLE001 - the next batch meets what lasts
                self.link.spoil()
                _log(error)

    # What is stored

    async def _is_to_write(self, txid: int) -> bool:
        await self.link.start()  # another producer, where the last one was given up
        if self._stored_of != self.link.producers:
            await self._read()
        return is_to_write(self._stored, self._owner, txid, writes_unknown=self._config.when_unknown == "write")

    async def _read(self) -> None:
        """Learn what all tasks have stored; tasks of another parallelism cannot change it any more then."""
        producers, retry_policy = self.link.producers, RetryPolicy(_log)
        while True:
            try:
                stored = await self._stored_by_all()
                newest = max(stored.values(), default=None)
                if newest is not None and newest.parallelism != self._owner.parallelism:
                    await self._fence(newest.parallelism)
                    stored = await self._stored_by_all()
                break
            except FatalError as error:
                cause = error.__cause__
                if not isinstance(cause, Exception) or not is_transient(cause):
                    raise
                await retry_policy.wait_or_raise(cause, "reading which transactions are stored")
        self._stored, self._stored_of = stored, producers

    async def _stored_by_all(self) -> dict[int, Stored]:
        config = self._config
        client = {name: value for name, value in config.client.items() if name in OF_ANY_CLIENT}
        cluster = ClusterConfig(
            brokers=config.brokers,
            security=config.security,
            client=client,
            client_id=self._client_id,
            request_timeout_ms=config.request_timeout_ms,
        )
        async with connected(cluster) as link:
            stored = await self._stored_by(link, range(self._owner.parallelism))
            most = max((one.parallelism for one in stored.values()), default=0)
            return stored | await self._stored_by(link, range(self._owner.parallelism, most))

    async def _stored_by(self, link: AdminClient, tasks: Collection[int]) -> dict[int, Stored]:
        found: dict[int, Stored] = {}
        for task in tasks:
            owner = self._owner._replace(task=task)
            commits = await link.committed(owner.group)
            mine = commits.get(PartitionId(self._config.topic, 0))
            if mine is not None:
                found[task] = read_stored(owner, mine.offset, mine.metadata)
        return found

    async def _fence(self, parallelism: int) -> None:
        """End whatever is open of the tasks that there were: a process may have been paused in the midst of it."""
        for task in range(parallelism):
            link = self._link_of(self._owner._replace(task=task, parallelism=parallelism))
            try:
                await link.start()
            finally:
                await link.stop(0.0)


@dataclass(frozen=True, slots=True)
class WriterResource:
    """The resource of a committer's task. A task has one writer, whatever config comes: its transactional id is one."""

    config: KafkaCommitterConfig = field(compare=False)
    """The config of the first batch makes the producer."""

    async def open(self, context: TaskContext) -> BatchWriter:
        """Return a writer for the task of this context."""
        writer = BatchWriter(self.config, context)
        await writer.open()
        return writer


def _cause(error: BaseException) -> BaseException:
    """What is behind an error that only says that the transaction, or aiokafka's sender, has ended."""
    while error.__cause__ is not None and (isinstance(error, TransactionLost) or type(error) is errors.KafkaError):
        error = error.__cause__
    return error


def _log(error: BaseException) -> Any:
    LOGGER.warning("%s", error)
