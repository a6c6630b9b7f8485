"""`TransactionLink`: a `ProducerLink` that writes in transactions of Kafka."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from aiokafka import TopicPartition, errors
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import OffsetAndMetadata

from engine.kafka.client.errors import Report
from engine.kafka.client.producer_link import ClientConfig, ProducerLink, _Producer, send_error_kind

_FENCED: Final = (errors.ProducerFenced, errors.InvalidProducerEpoch)


class TransactionLost(errors.KafkaError):  # type: ignore[misc]
    """The transaction will not be committed. Its batch is worth a retry."""

    retriable: ClassVar[bool] = True


class TransactionLink(ProducerLink):
    """Runs one transaction at a time. After any error the producer is replaced, and its successor aborts the open transaction.

    So one path handles all errors. The outcome of the transaction is known after the successor has started: the broker answers its first
    request only after the earlier transaction is committed or aborted.
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

    async def begin(self) -> None:
        """Begin a transaction."""
        self._within = await self._current()
        await self._within.client.begin_transaction()
        self._within.retrieve_outcome()

    async def send_batch(self, batch: BatchBuilder, topic: str, partition: int, timeout_secs: float) -> None:
        """Send a batch in the transaction. Raise the broker's refusal, or TransactionLost for any other error."""
        if self._within is None or self._within.is_spoilt:
            raise TransactionLost("the transaction had failed")
        try:
            await super().send_batch(batch, topic, partition, timeout_secs)
        except Exception as error:
            self._note(error)
            if send_error_kind(error) == "passing" and type(error) is not errors.UnknownError:
                raise TransactionLost(str(error) or type(error).__name__) from error
            raise

    async def store(self, group: str, partition: TopicPartition, offset: int, metadata: str) -> None:
        """Commit an offset of a group in the transaction."""
        await self._do("send_offsets_to_transaction", {partition: OffsetAndMetadata(offset, metadata)}, group)

    async def commit(self) -> None:
        """Commit the transaction. After the return, readers are certain to see its records."""
        await self._do("commit_transaction")
        self._within = None

    def spoil(self) -> None:
        """Abandon the open transaction and its producer."""
        if self._within is not None:
            self._within.is_spoilt = True
            self._within = None

    async def _do(self, method: str, *arguments: Any) -> None:
        assert self._within is not None
        try:
            await getattr(self._within.client, method)(*arguments)
        except Exception as error:
            self._note(error)
            raise

    def _note(self, error: BaseException) -> None:
        self.is_fenced = self.is_fenced or isinstance(error, _FENCED)
