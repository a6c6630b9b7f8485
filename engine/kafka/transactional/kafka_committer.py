"""`KafkaCommitter` writes the output of each batch exactly once to a topic (TX-8, TX-10)."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final, cast

from engine.api import Tuple
from engine.errors import FatalError, UsageError
from engine.kafka.client.errors import describe_error
from engine.kafka.sink.partition_sender import PartitionSender
from engine.kafka.sink.records import OutgoingRecord, RecordMaker
from engine.kafka.transactional.batch_writer import BatchWriter, WriterResource
from engine.kafka.transactional.committer_config import KafkaCommitterConfig
from engine.transactional import Committer


class KafkaCommitter(Committer):
    """Writes one record for each tuple of a batch. Emits nothing.

    >>> config = KafkaCommitterConfig(brokers="127.0.0.1:9092", topic="counts")
    >>> committer = lambda: KafkaCommitter(config)  # builder.set_bolt("counts", committer).global_grouping("count")

    The records of a batch wait in memory until its commit phase. Then one transaction of Kafka writes them and the txid. A replay
    writes nothing if its txid is already stored.
    """

    needs_transactional_spout: ClassVar[bool] = True
    """True, because written records cannot be replaced, so a replay must have the same records."""

    def __init__(self, config: KafkaCommitterConfig) -> None:
        if not isinstance(cast(object, config), KafkaCommitterConfig):
            text = f"KafkaCommitter was given {config!r}"
            raise UsageError(text, hint="Write KafkaCommitter(KafkaCommitterConfig(brokers=..., topic=...)).")
        self.config: Final = config
        self.keyed_by: Sequence[str] | None = config.keyed_by
        """Fields of the committer's fields grouping, if the committer has several tasks."""
        self._maker = RecordMaker(config)
        self._senders: dict[int, PartitionSender] = {}
        self._bytes = 0
        self._failure: Exception | None = None

    async def prepare(self) -> None:
        """Open the producer of the task, with retries. All attempts share this producer."""
        self._writer: BatchWriter = await self.resources.opened(WriterResource(self.config))
        self._writer.check_config(self.config)

    def execute(self, tup: Tuple) -> None:
        """Store the record of a tuple for the commit phase."""
        topic = self._writer.topic
        try:
            made = self._maker.make(tup)
            wanted = None if self.config.partition is None else self._maker.partition(tup)
            partition = topic.choose_partition(made.key, wanted)
        except UsageError as error:  # a replay of the batch would fail again
            self._refuse(f"no record for topic {topic.name!r} can be made of a tuple: {error.message}", error.hint)
            return
        sender = self._senders.get(partition)
        if sender is None:
            sender = self._senders[partition] = PartitionSender(topic, partition, self, self._writer.link, self._writer.sender_settings)
        self._bytes += sender.add_record(OutgoingRecord(None, made.key, made.value, made.headers, made.timestamp_ms))
        if self._bytes > self.config.max_output_bytes:
            text = f"batch {self.attempt} writes more than max_output_bytes={self.config.max_output_bytes} at one task"
            raise FatalError(
                text, hint="Write a smaller batch_records for the spout, or raise max_output_bytes. The records wait in memory."
            )

    async def finish_batch(self) -> None:
        """Write the batch, unless an earlier attempt has written it."""
        await self._writer.write_batch(self.attempt, self)

    async def published_txid(self) -> int:
        """Return the newest txid that the brokers have stored for this committer, 0 before the first (EO-9)."""
        writer: BatchWriter = await self.resources.opened(WriterResource(self.config))
        return await writer.newest_txid()

    async def forget(self) -> None:
        """Forget the txids that the brokers have stored for this committer. Written records stay (EO-11)."""
        writer: BatchWriter = await self.resources.opened(WriterResource(self.config))
        await writer.forget_txids()

    # BatchOutput

    async def send_records(self) -> None:
        """Write all records, the batches of each partition in order."""
        ends = await asyncio.gather(*(sender.send_all() for sender in self._senders.values()), return_exceptions=True)
        for error in (*ends, self._failure):
            if error is not None:
                raise error

    # RecordOutcomes

    def note_written(self, records: list[OutgoingRecord]) -> None:
        """Count acknowledged records. Readers see them only after the commit of the transaction."""
        self._writer.records_written.add(len(records))

    def note_failed(self, records: list[OutgoingRecord], error: Exception) -> None:
        """Remember the error, which fails the batch."""
        self._failure = self._failure or error

    async def note_refused(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> None:
        """Handle a refused record by `on_refused`."""
        self._refuse(f"a record for topic {topic!r} was refused: {describe_error(error)}")

    def _refuse(self, text: str, fix: str | None = None) -> None:
        if self.config.on_refused == "stop":
            hint = fix or "Change the topology so that it makes no such record."
            raise FatalError(text, hint=f"{hint} on_refused='drop' leaves such records out, with a report.")
        self._writer.records_refused.add(1)
        self.collector.report_error(ValueError(f"{text}. The record is dropped"))

    def release_room(self, records: int, byte_count: int) -> None:
        """Do nothing. All records are in memory before the first one is sent, so nothing waits for room."""
