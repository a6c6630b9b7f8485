"""`BatchWriter` is the producer of one committer task. `BatchWriter` also reads the txids that the brokers have stored."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka import TopicPartition, errors

from engine.api import TaskContext
from engine.errors import FatalError
from engine.kafka.client.admin_client import AdminClient, ClusterConfig, connected
from engine.kafka.client.errors import RetryPolicy, describe_error, fatal_error, hint_of, is_transient
from engine.kafka.client.partition import CommittedOffset, PartitionId
from engine.kafka.client.producer_link import OF_ANY_CLIENT, TransactionLink, TransactionLost, producer_options
from engine.kafka.sink.partition_sender import SenderSettings
from engine.kafka.sink.records import SinkTopic
from engine.kafka.transactional.committer_config import KafkaCommitterConfig
from engine.kafka.transactional.stored_txids import TxidOwner, must_write, read_stored_txid
from engine.log import EngineLogger
from engine.state.rows import StoredTxid
from engine.transactional import FailedBatch, TransactionAttempt

LOGGER: Final = EngineLogger("engine.kafka")
_STABLE_SHARE: Final = 0.9
"""Share of a batch's time limit in which its stored txid must become stable. The rest is for the error report."""
REFRESH_SECS: Final = 86_400.0
"""Age at which an unchanged txid is stored again. Brokers forget it after offsets.retention.minutes, by default 7 days."""


class BatchOutput(Protocol):
    """Records of one batch."""

    async def send_records(self) -> None:
        """Write all records. Raise the error of a record that was not written."""


class BatchWriter:
    """Writes the records of batches, one batch at a time, each in a transaction of Kafka."""

    def __init__(self, config: KafkaCommitterConfig, context: TaskContext) -> None:
        self._config, self._context = config, context
        self._owner = TxidOwner(context.topology_name, context.component_id, context.task_index, context.tasks)
        self._client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        self._writing = f"writing topic {config.topic!r} in transactions of {context.component_id!r}"
        self.link = self._link_of(self._owner)
        self.topic = SinkTopic(config.topic, config.partitioner)
        self.sender_settings = SenderSettings(context.clock.now, 0.0, config.transaction_timeout_ms / 1000, config.max_record_bytes)
        self._stored: dict[int, StoredTxid] = {}
        self._stored_of = 0
        """Number of the producer that had started when the txids were read. The start of this producer ended all earlier transactions."""
        self._written_by = 0
        """Number of the producer that has completed a transaction last."""
        self._was_fenced_early = False
        """True if a producer was fenced in its first transaction, and no other one has completed a transaction since."""
        self._stable_by = 0.0
        """Time of the event loop at which the stored txids must be stable, for the current batch."""
        self._one_at_a_time = asyncio.Lock()
        self.records_written = context.counter("kafka_records_written")
        self.records_refused = context.counter("kafka_records_refused")

    def _link_of(self, owner: TxidOwner) -> TransactionLink:
        config = self._config
        options = producer_options(config, self._client_id) | config.producer_options() | {"transactional_id": owner.transactional_id}
        return TransactionLink(config, options, writing=self._writing, report=_log)

    # Start and stop

    async def open(self) -> None:
        """Connect, which ends open transactions of another process for this task. Raise FatalError if the topic is missing."""
        try:
            await self.link.start()
            partitions = await self.link.partitions_of(self._config.topic, self._config.topic_timeout_secs)
            self.topic.update_partitions(partitions, self.link.known_partitions(self._config.topic)[1])
        except BaseException as error:
            await self.link.stop(0.0)
            if isinstance(error, errors.UnknownTopicOrPartitionError):
                hint = "Create the topic, or correct its name. The committer never creates it."
                raise FatalError(f"topic {self._config.topic!r} does not exist: {error}", hint=hint) from error
            if isinstance(error, errors.KafkaError):
                raise fatal_error(error, self._writing) from error
            raise
        self._context.create_task(self._refresh_periodically())

    def check_config(self, config: KafkaCommitterConfig) -> None:
        """Raise FatalError if a later batch has other brokers or another topic, because the txids are stored with the topic."""
        for name in ("brokers", "topic"):
            before, now = getattr(self._config, name), getattr(config, name)
            if now != before:
                text = f"the factory of {self._owner.component!r} has changed {name} from {before!r} to {now!r} since its first batch"
                raise FatalError(text, hint="Use the same brokers and topic for every batch. Write one committer for each topic.")

    async def close(self) -> None:
        """Disconnect. The next producer of this task, or the broker after its timeout, aborts an open transaction."""
        self.link.abandon_transaction()
        await self.link.stop(0.0)

    # Transactions

    async def write_batch(self, attempt: TransactionAttempt, output: BatchOutput) -> None:
        """Write the records of a batch and its txid in one transaction. Do nothing if they are already written.

        Raise FailedBatch if a retry may succeed, else FatalError.
        """
        async with self._one_at_a_time:
            began, limit_secs = self._context.clock.now(), self._config.transaction_timeout_ms / 1000
            self._stable_by = asyncio.get_running_loop().time() + _STABLE_SHARE * limit_secs
            try:
                async with asyncio.timeout(limit_secs):
                    if await self._must_write(attempt.txid):
                        await self._transact(attempt.txid, output)
            except BaseException as error:
                self.link.abandon_transaction()
                if not isinstance(error, Exception) or isinstance(error, (FatalError, FailedBatch)):
                    raise
                raise self._batch_error(error, attempt, self._context.clock.now() - began) from error

    async def _transact(self, txid: int, output: BatchOutput | None) -> None:
        link = self.link
        self.topic.update_partitions(*link.known_partitions(self._config.topic))
        await link.begin_transaction()
        # Store the txid first. While the broker still ends the previous transaction, aiokafka retries a group sooner than a partition.
        await link.store_offset(self._owner.group, TopicPartition(self._config.topic, 0), txid, self._owner.metadata)
        if output is not None:
            await output.send_records()
        await link.commit_transaction()
        self._written_by, self._was_fenced_early = link.producers, False
        self._stored[self._owner.task] = StoredTxid(txid, self._owner.parallelism)

    def _batch_error(self, error: Exception, attempt: TransactionAttempt, took_secs: float) -> Exception:
        """Translate the error of a transaction into the error of its batch."""
        limit_secs = self._config.transaction_timeout_ms / 1000
        if self.link.is_fenced and took_secs < limit_secs:
            if self._may_be_a_late_request():
                self._was_fenced_early = True
                text = "its new producer was fenced, perhaps by a late request of the one before it. Another producer starts"
                return FailedBatch(f"{self._writing}: {text}", report=True)
            text = f"another process writes as task {self._owner.task} of {self._owner.component!r}: this one was fenced at batch {attempt}"
            return FatalError(text, hint="Start only one run of a topology at a time. The other run continues from here.")
        if isinstance(error, TimeoutError):
            return FailedBatch(
                f"{self._writing}: not finished within transaction_timeout_ms={self._config.transaction_timeout_ms}", report=True
            )
        cause = _root_cause(error)
        if isinstance(cause, errors.KafkaError) and not is_transient(cause) and hint_of(cause) is not None:
            return fatal_error(cause, self._writing)
        return FailedBatch(f"{self._writing} failed: {describe_error(cause)}", report=True)

    def _may_be_a_late_request(self) -> bool:
        """Tell whether a task or process that has died may have fenced this one, because its last request has come late.

        Then the txids decide what is still to be written. A process that is fenced again, or in a later transaction, has a rival.
        """
        return self._written_by != self.link.producers and not self._was_fenced_early

    async def _refresh_periodically(self) -> None:
        """Refresh the txid forever, so that the brokers remember it while the topology is idle."""
        while True:
            await asyncio.sleep(REFRESH_SECS)
            await self.refresh_txid()

    async def refresh_txid(self) -> None:
        """Store the newest txid again. An error is logged, and the next refresh is a day later."""
        async with self._one_at_a_time:
            mine = self._stored.get(self._owner.task)
            if mine is None or self._stored_of != self.link.producers:
                return
            try:
                async with asyncio.timeout(self._config.transaction_timeout_ms / 1000):
                    await self._transact(mine.txid, None)
            except Exception as error:  # noqa: BLE001 - the next batch raises a lasting error
                self.link.abandon_transaction()
                _log(error)

    # Stored txids

    async def newest_txid(self) -> int:
        """Return the newest stored txid of all tasks, 0 if there is none. Other tasks may still be writing, so nobody is fenced."""
        async with connected(self._cluster_config()) as admin:
            return max((stored.txid for stored in (await self._stored_by_all(admin, stable=())).values()), default=0)

    async def forget_txids(self) -> None:
        """Store txid 0 for each task that has a txid. Any transaction that was still open when it died is older, and changes nothing."""
        place = PartitionId(self._config.topic, 0)
        async with connected(self._cluster_config()) as admin:
            for task in await self._stored_by_all(admin, stable=()):
                owner = self._owner._replace(task=task)
                await admin.commit(owner.group, {place: CommittedOffset(0, owner.metadata)})

    async def _must_write(self, txid: int) -> bool:
        await self.link.start()  # starts a new producer if the last one was abandoned
        if self._stored_of != self.link.producers:
            await self._read_txids()
        return must_write(self._stored, self._owner, txid, writes_unknown=self._config.when_unknown == "write")

    async def _read_txids(self) -> None:
        """Read the stored txids of all tasks, with retries."""
        producers, retry_policy = self.link.producers, RetryPolicy(_log)
        while True:
            try:
                async with connected(self._cluster_config()) as admin:
                    self._stored = await self._final_txids(admin)
                break
            except FatalError as error:
                cause = error.__cause__
                if not isinstance(cause, Exception) or not is_transient(cause):
                    raise
                await retry_policy.wait_or_raise(cause, "reading the stored txids")
        self._stored_of = producers

    def _cluster_config(self) -> ClusterConfig:
        config = self._config
        client = {name: value for name, value in config.client.items() if name in OF_ANY_CLIENT}
        return ClusterConfig(
            brokers=config.brokers,
            security=config.security,
            client=client,
            client_id=self._client_id,
            request_timeout_ms=config.request_timeout_ms,
        )

    async def _final_txids(self, admin: AdminClient) -> dict[int, StoredTxid]:
        """Return the stored txids of all tasks, once no earlier transaction can change the decision about a batch.

        Tasks of another parallelism are fenced first, which ends their transactions.
        """
        # This read is not stable. A stable read would wait until the timeout for a transaction of an earlier parallelism. Fence it instead.
        stored, is_final = await self._stored_by_all(admin, stable=()), False
        fenced: set[int] = set()
        while True:
            newest = max(stored.values(), default=None)
            if newest is not None and newest.parallelism not in {self._owner.parallelism, *fenced}:
                await self._fence(newest.parallelism)
                fenced.add(newest.parallelism)
            elif is_final:
                return stored
            # This read is stable. This producer's start has ended its predecessor's transaction, but the stored txid may still be the older
            # one. Txids of other tasks matter only after a change of parallelism. Otherwise a wait for these tasks only costs time.
            stable = range(max(self._owner.parallelism, *fenced)) if fenced else (self._owner.task,)
            stored, is_final = await self._stored_by_all(admin, stable), True

    async def _stored_by_all(self, admin: AdminClient, stable: Collection[int]) -> dict[int, StoredTxid]:
        """Return the stored txids of all tasks, by task. stable: tasks for whose open transactions the read waits."""
        stored = await self._stored_by(admin, range(self._owner.parallelism), stable)
        most = max((one.parallelism for one in stored.values()), default=0)
        return stored | await self._stored_by(admin, range(self._owner.parallelism, most), stable)

    async def _stored_by(self, admin: AdminClient, tasks: Collection[int], stable: Collection[int]) -> dict[int, StoredTxid]:
        place, now = PartitionId(self._config.topic, 0), asyncio.get_running_loop().time
        found: dict[int, StoredTxid] = {}
        for task in tasks:
            owner = self._owner._replace(task=task)
            if task in stable:
                mine = (await admin.stable_offsets(owner.group, (place,), self._stable_by - now())).get(place)
            else:
                mine = (await admin.committed(owner.group)).get(place)
            if mine is not None:
                found[task] = read_stored_txid(owner, mine.offset, mine.metadata)
        return found

    async def _fence(self, parallelism: int) -> None:
        """Fence the tasks of an earlier parallelism, because a paused process may still have an open transaction."""
        for task in range(parallelism):
            link = self._link_of(self._owner._replace(task=task, parallelism=parallelism))
            try:
                await link.start()
            finally:
                await link.stop(0.0)


@dataclass(frozen=True, slots=True)
class WriterResource:
    """Resource of a committer task. A task has one writer, because it has one transactional id."""

    config: KafkaCommitterConfig = field(compare=False)
    """Config of the first batch. The producer with this config serves all batches."""

    async def open(self, context: TaskContext) -> BatchWriter:
        """Return a writer for the task of this context."""
        writer = BatchWriter(self.config, context)
        await writer.open()
        return writer


def _root_cause(error: BaseException) -> BaseException:
    """Return the cause of an error that only reports the end of the transaction or of aiokafka's sender."""
    while error.__cause__ is not None and (isinstance(error, TransactionLost) or type(error) is errors.KafkaError):
        error = error.__cause__
    return error


def _log(error: BaseException) -> Any:
    LOGGER.warning("%s", error)
