"""`ProducerLink` is a producer that replaces itself when it breaks.

The link uses aiokafka's producer, including private parts of aiokafka.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition, errors
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import OffsetAndMetadata

from engine.errors import FatalError
from engine.kafka.client.advertised_brokers import AdvertisedClient
from engine.kafka.client.connect import advertised_error, connection_error, find_real_error
from engine.kafka.client.connection import BrokerAccess
from engine.kafka.client.errors import (
    BACKOFF,
    CODECS_HINT,
    KafkaWarning,
    Report,
    describe_error,
    fatal_error,
    send_error_kind,
)
from engine.kafka.client.topic_lookup import log_found_topics, prepare_client
from engine.waits import waiting_for

STOP_SECS: Final = 2.0
"""Timeout of a normal stop. After this time the connections are closed by force."""

_SLOW_START_SECS: Final = 6.0  # then the reason of a slow start is looked for and reported
_FENCED: Final = (errors.ProducerFenced, errors.InvalidProducerEpoch)

OF_ANY_CLIENT: Final = frozenset(
    {"metadata_max_age_ms", "retry_backoff_ms", "connections_max_idle_ms", "sasl_kerberos_service_name", "sasl_kerberos_domain_name"}
)


class ClientConfig(BrokerAccess, Protocol):
    """Settings that spouts, sinks and tools share for access to the cluster, with client id and timeout."""

    @property
    def client_id(self) -> str | None: ...
    @property
    def request_timeout_ms(self) -> int: ...


def producer_options(config: ClientConfig, client_id: str) -> dict[str, Any]:
    """Return aiokafka's options for an idempotent producer. Raise FatalError for unusable certificates.

    Ignores options in `config.client` that only some clients have.
    """
    try:
        security = config.security.client_options()
    except OSError as error:  # ssl.SSLError is a subclass
        raise FatalError(f"the certificates of KafkaSecurity cannot be used: {describe_error(error)}", hint="Correct its files.") from error
    return {
        **{name: value for name, value in config.client.items() if name in OF_ANY_CLIENT},
        **security,
        "bootstrap_servers": list(config.brokers),
        "client_id": client_id,
        "request_timeout_ms": config.request_timeout_ms,
        "enable_idempotence": True,
        "acks": "all",
    }


class _Producer:
    """One producer of aiokafka, and its sends that wait for an acknowledgment."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.client: Any = AIOKafkaProducer(**options)
        prepare_client(self.client.client)
        self.waiting: set[asyncio.Future[Any]] = set()
        self.is_spoilt = False

    async def wait_for(self, future: "asyncio.Future[Any]", timeout_secs: float) -> None:
        """Wait for the acknowledgment. Raise the broker's error, KafkaTimeoutError or ProducerClosed."""
        self.waiting.add(future)
        future.add_done_callback(_retrieve)
        try:
            await asyncio.wait((future,), timeout=timeout_secs)
        finally:
            self.waiting.discard(future)
        if not future.done():
            raise errors.KafkaTimeoutError(f"no broker has acknowledged within {timeout_secs:g} s")
        if future.cancelled():
            raise errors.ProducerClosed("the producer was replaced")
        future.result()

    def take_numbers_back(self, topic: str, partition: int, records: int) -> None:
        """Give the sequence numbers of a refused batch to the next batch. Brokers accept no gap in these numbers.

        Safe only if the producer has no other batch of that partition.
        """
        manager = self.client._txn_manager
        if manager is not None:
            manager.increment_sequence_number(TopicPartition(topic, partition), -records)

    async def end(self, flush_secs: float) -> None:
        """Flush and close, each within a limit. Sends that still wait get ProducerClosed."""
        stopping = asyncio.ensure_future(self.client.stop())
        try:
            await asyncio.wait((stopping,), timeout=flush_secs)
            if not stopping.done():
                await self._close_by_force(stopping)
        finally:
            stopping.add_done_callback(_retrieve)
            stopping.cancel()
            self.retrieve_outcome()
            for future in self.waiting:
                future.cancel()

    def retrieve_outcome(self) -> None:
        """Retrieve the result of the transaction, so that asyncio does not warn if nobody awaits it."""
        waiter = None if self.client._txn_manager is None else self.client._txn_manager._transaction_waiter
        if waiter is not None:
            waiter.add_done_callback(_retrieve)

    async def _close_by_force(self, stopping: "asyncio.Future[None]") -> None:
        """Close the connections without a flush, because no broker answers. This ends the sender task, and `stop` waits for that task."""
        sender = self.client._sender.sender_task
        for _ in range(2):
            if sender is not None and not sender.done():
                sender.cancel()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECS / 2):
                    await self.client.client.close()
            await asyncio.wait((stopping,), timeout=STOP_SECS / 2)
        self._fail_batches()
        await asyncio.wait((stopping,), timeout=STOP_SECS / 2)

    def _fail_batches(self) -> None:
        """Fail the remaining batches, because `stop` and other callers may wait for these batches."""
        accumulator = self.client._message_accumulator
        batches = [*itertools.chain(*accumulator._batches.values()), *accumulator._pending_batches]
        accumulator._pending_batches.update(batches)  # aiokafka's own callbacks look for the batches here
        accumulator.fail_all(errors.ProducerClosed("the producer was replaced"))
        for batch in batches:
            batch._drain_waiter.add_done_callback(_retrieve)


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception, so that asyncio does not warn about an abandoned future."""
    if not future.cancelled():
        future.exception()


class ProducerLink:
    """A producer that starts with retries, is replaced when it breaks, and stops within a limit.

    options: options of aiokafka's producer, see `producer_options`. writing: the purpose in error texts, such as "writing topic 'words'".
    report: called with the error of each failed attempt.
    """

    def __init__(self, config: ClientConfig, options: Mapping[str, Any], *, writing: str, report: Report) -> None:
        self._config = config
        self._options = options
        self._writing = writing
        self._report = report
        self._producer: _Producer | None = None
        self._builders: Any = None
        """The newest started producer. This producer creates batches, and any later producer can send these batches."""
        self._client: AdvertisedClient | None = None  # of the newest producer, which may not have started
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    # Start and stop

    async def start(self) -> None:
        """Connect, with retries until it succeeds. Raise FatalError for a permanent error."""
        await self._current()

    async def stop(self, flush_secs: float = STOP_SECS) -> None:
        """Flush for at most `flush_secs`, and stop. Do nothing if no producer runs."""
        self._is_stopped = True
        self._give_up_producer(flush_secs)
        while self._ending:
            await asyncio.wait(set(self._ending))

    async def _current(self) -> _Producer:
        """Return the current producer. Start a new producer if there is none, or if the current producer is broken."""
        async with self._starting:
            if self._producer is not None and self._producer.is_spoilt:
                self._give_up_producer(STOP_SECS)
            if self._producer is None:
                with waiting_for(f"a connection to Kafka ({', '.join(self._config.brokers)})", logs=False):  # each failure is reported
                    self._producer = await self._start_one()
                self._builders = self._producer.client
            return self._producer

    def _give_up_producer(self, flush_secs: float) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            ending = asyncio.get_running_loop().create_task(producer.end(flush_secs), name="end of a Kafka producer")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _start_one(self) -> _Producer:
        pauses = BACKOFF.pauses()
        while not self._is_stopped:
            try:
                return await self._try_to_start()
            except FatalError:
                raise
            except Exception as raised:  # noqa: BLE001 - reported, or raised as a FatalError
                error = await find_real_error(raised, self._config, self._advertised())
                if send_error_kind(error) != "passing":
                    raise fatal_error(error, self._writing) from error
                pause = next(pauses)
                self._report(ConnectionError(f"{self._unreached(error)}; retry in {pause:g} s"))
            await asyncio.sleep(pause)
        raise errors.ProducerClosed("the producer was stopped")

    async def _try_to_start(self) -> _Producer:
        try:
            producer = _Producer(self._options)
        except (ValueError, TypeError, RuntimeError) as error:
            hint = f"Install the codec: {CODECS_HINT}" if isinstance(error, RuntimeError) else "Correct the setting."
            raise FatalError(f"Kafka's client refused the settings for {self._writing}: {error}", hint=hint) from error
        self._client = producer.client.client
        telling = asyncio.ensure_future(self._report_slow_start())
        try:
            async with asyncio.timeout(self._options["request_timeout_ms"] / 1000):
                await producer.client.start()
        except BaseException:
            await producer.end(STOP_SECS)
            raise
        finally:
            telling.cancel()
        return producer

    async def _report_slow_start(self) -> None:
        """Report why a start takes long, because its timeout is longer than anybody should wait for a reason."""
        await asyncio.sleep(_SLOW_START_SECS)
        if (reason := await self.reason_of_silence()) is not None:
            self._report(ConnectionError(self._unreached(reason)))

    def _unreached(self, reason: BaseException) -> str:
        return f"Kafka at {','.join(self._config.brokers)} cannot be reached for {self._writing}: {describe_error(reason)}"

    def _advertised(self) -> Mapping[int, str]:
        return {} if self._client is None else self._client.advertised()

    # Work

    async def partitions_of(self, topic: str, timeout_secs: float) -> tuple[int, ...]:
        """Return the partition numbers of a topic, ascending. Raise UnknownTopicOrPartitionError if the topic does not appear in time.

        Raise InvalidTopicError for an internal topic of the brokers. Reports a missing topic, and logs when it appears. If no broker
        answers, reports the silence and restarts the timeout.
        """
        client, now = (await self._current()).client.client, asyncio.get_running_loop().time
        deadline, reported = now() + timeout_secs, set[str]()
        client.set_topics(client._topics | {topic})
        while not (found := client.cluster.partitions_for_topic(topic)):
            answered = await client.force_metadata_update()
            if topic in client.cluster.unauthorized_topics:
                raise errors.TopicAuthorizationFailedError(topic)
            if client.cluster.partitions_for_topic(topic):
                continue
            if not answered:
                deadline = now() + timeout_secs
                self._report_once(
                    reported, "silent", ConnectionError(f"Kafka at {','.join(self._config.brokers)} does not answer ({self._writing})")
                )
            elif now() >= deadline:
                client._topics.discard(topic)
                raise errors.UnknownTopicOrPartitionError(f"topic {topic!r} has not appeared within {timeout_secs:g} s")
            else:
                hint = f"The lookup is repeated for {timeout_secs:g} s. Topics are never created."
                self._report_once(reported, "missing", KafkaWarning(f"topic {topic!r} does not exist ({self._writing})", hint=hint))
            await asyncio.sleep(BACKOFF.first_secs)
        if topic in client.cluster.internal_topics:
            raise errors.InvalidTopicError(f"topic {topic!r} is internal to the brokers, which accept no records for it")
        if "missing" in reported:
            log_found_topics([topic])
        return tuple(sorted(found))

    def _report_once(self, reported: set[str], kind: str, error: Exception) -> None:
        """Report an error, but only the first error of each kind."""
        if kind not in reported:
            reported.add(kind)
            self._report(error)

    async def reason_of_silence(self) -> Exception | None:
        """Return the reason why brokers do not answer, None if no reason is found."""
        return await connection_error(self._config) or await advertised_error(self._config, self._advertised())

    def known_partitions(self, topic: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the known partitions of a topic, and the partitions that have a leader. Both are ascending."""
        if self._producer is None:
            return (), ()
        cluster = self._producer.client.client.cluster
        with_leader = cluster.available_partitions_for_topic(topic) or ()
        return tuple(sorted(cluster.partitions_for_topic(topic) or ())), tuple(sorted(with_leader))

    def new_batch(self) -> BatchBuilder:
        """Return an empty batch. Any producer of this link can send it."""
        return self._builders.create_batch()

    async def send_batch(self, batch: BatchBuilder, topic: str, partition: int, timeout_secs: float) -> None:
        """Send a batch, and return after the broker has acknowledged it. Send each batch once, and one batch of a partition at a time.

        Raises the errors that `send_error_kind` classifies. After a timeout the batch may still be written.
        """
        with waiting_for(f"Kafka to acknowledge records of topic {topic!r}"):
            await self._send_batch(batch, topic, partition, timeout_secs)

    async def _send_batch(self, batch: BatchBuilder, topic: str, partition: int, timeout_secs: float) -> None:
        producer = await self._current()
        try:
            if partition not in await producer.client.partitions_for(topic):
                raise errors.UnknownTopicOrPartitionError(f"topic {topic!r} has no partition {partition}")
            await producer.wait_for(await producer.client.send_batch(batch, topic, partition=partition), timeout_secs)
        except Exception as error:
            if send_error_kind(error) == "refused" or type(error) is errors.UnknownError:  # the broker expects the same numbers again
                producer.take_numbers_back(topic, partition, batch.record_count())
            else:
                producer.is_spoilt = True
            raise


class TransactionLost(errors.KafkaError):  # type: ignore[misc]
    """The transaction will not be committed. The batch can be retried."""

    retriable: ClassVar[bool] = True


class TransactionLink(ProducerLink):
    """Runs one transaction at a time. After any error the producer is replaced, and its successor aborts the open transaction.

    So one path handles all errors. When the successor has started, the outcome of the transaction is final. The broker answers the
    successor's first request only after it has committed or aborted the earlier transaction.
    """

    def __init__(self, config: ClientConfig, options: Mapping[str, Any], *, writing: str, report: Report) -> None:
        super().__init__(config, options, writing=writing, report=report)
        self.producers = 0
        """Number of started producers."""
        self.is_fenced = False
        """True after a broker reported that a newer producer has our transactional id."""
        self._within: _Producer | None = None
        """Producer of the open transaction."""

    async def _try_to_start(self) -> _Producer:
        producer = await super()._try_to_start()
        self.producers += 1
        self.is_fenced = False
        return producer

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within = await self._current()
        await self._within.client.begin_transaction()
        self._within.retrieve_outcome()

    async def send_batch(self, batch: BatchBuilder, topic: str, partition: int, timeout_secs: float) -> None:
        """Send a batch in the transaction. Raise the broker's error if it refuses the batch, else TransactionLost."""
        if self._within is None or self._within.is_spoilt:
            raise TransactionLost("the transaction has failed already")
        try:
            await super().send_batch(batch, topic, partition, timeout_secs)
        except Exception as error:
            self._note_fencing(error)
            if send_error_kind(error) == "passing" and type(error) is not errors.UnknownError:
                raise TransactionLost(str(error) or type(error).__name__) from error
            raise

    async def store_offset(self, group: str, partition: TopicPartition, offset: int, metadata: str) -> None:
        """Commit an offset of a group in the transaction."""
        await self._call_producer("send_offsets_to_transaction", {partition: OffsetAndMetadata(offset, metadata)}, group)

    async def commit_transaction(self) -> None:
        """Commit the transaction. After the return, readers are certain to see its records."""
        await self._call_producer("commit_transaction")
        self._within = None

    def abandon_transaction(self) -> None:
        """Abandon the open transaction and its producer."""
        if self._within is not None:
            self._within.is_spoilt = True
            self._within = None

    async def _call_producer(self, method: str, *arguments: Any) -> None:
        assert self._within is not None
        try:
            with waiting_for(f"Kafka to answer {method}()"):
                await getattr(self._within.client, method)(*arguments)
        except Exception as error:
            self._note_fencing(error)
            raise

    def _note_fencing(self, error: BaseException) -> None:
        self.is_fenced = self.is_fenced or isinstance(error, _FENCED)
