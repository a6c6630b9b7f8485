"""`KafkaCommitter`: the output of each batch exactly once in a topic of Kafka (TX-8, TX-10)."""

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
    """Writes a record for each tuple of a batch; emits nothing.

    >>> config = KafkaCommitterConfig(brokers="127.0.0.1:9092", topic="counts")
    >>> committer = lambda: KafkaCommitter(config)  # builder.set_bolt("counts", committer).global_grouping("count")

    The records of a batch wait in memory until its commit phase. Then they are written in one transaction of Kafka, which also has the
    txid; a replay that finds its txid there does nothing.
    """

    needs_transactional_spout: ClassVar[bool] = True
    """It cannot replace what it has written, so a replay has to be the same batch."""

    def __init__(self, config: KafkaCommitterConfig) -> None:
        if not isinstance(cast(object, config), KafkaCommitterConfig):
            text = f"KafkaCommitter was given {config!r}"
            raise UsageError(text, hint="Write KafkaCommitter(KafkaCommitterConfig(brokers=..., topic=...)).")
        self.config: Final = config
        self.keyed_by: Sequence[str] | None = config.keyed_by
        """The fields that its input is grouped by, where it has several tasks."""
        self._maker = RecordMaker(config)
        self._senders: dict[int, PartitionSender] = {}
        self._bytes = 0
        self._failure: Exception | None = None

    async def prepare(self) -> None:
        """Have a producer, however long that takes; it is the task's, for all attempts."""
        self._writer: BatchWriter = await self.resources.opened(WriterResource(self.config))
        self._writer.check(self.config)

    def execute(self, tup: Tuple) -> None:
        """Keep the record of a tuple for the commit phase."""
        made, topic = self._maker.make(tup), self._writer.topic
        wanted = None if self.config.partition is None else self._maker.partition(tup)
        partition = topic.choose(made.key, wanted)
        sender = self._senders.get(partition)
        if sender is None:
            sender = self._senders[partition] = PartitionSender(topic, partition, self, self._writer.link, self._writer.sender_settings)
        self._bytes += sender.add(OutgoingRecord(None, made.key, made.value, made.headers, made.timestamp_ms))
        if self._bytes > self.config.max_output_bytes:
            text = f"batch {self.attempt} writes more than max_output_bytes={self.config.max_output_bytes} at one task"
            raise FatalError(
                text, hint="Make batches smaller (batch_records of the spout), or raise max_output_bytes: they wait in memory."
            )

    async def finish_batch(self) -> None:
        """Write the batch, where it is not there already."""
        await self._writer.write(self.attempt, self)

    # As the writer's Output

    async def send(self) -> None:
        """Have all records written, the batches of each partition one after the other."""
        ends = await asyncio.gather(*(sender.send_all() for sender in self._senders.values()), return_exceptions=True)
        for error in (*ends, self._failure):
            if error is not None:
                raise error

    # As the senders' RecordOutcomes

    def note_written(self, records: list[OutgoingRecord]) -> None:
        """Count them; whether they are ever seen is the transaction's."""
        self._writer.records_written.add(len(records))

    def note_failed(self, records: list[OutgoingRecord], error: Exception) -> None:
        """The transaction has failed."""
        self._failure = self._failure or error

    async def note_refused(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> None:
        """Do with a record that no broker takes what the config says."""
        told = f"a record for topic {topic!r} is refused: {describe_error(error)}"
        if self.config.on_refused == "stop":
            raise FatalError(told, hint="Make no such record, or write on_refused='drop'.")
        self._writer.records_refused.add(1)
        self.collector.report_error(ValueError(f"{told}; it is dropped"))

    def release_room(self, records: int, byte_count: int) -> None:
        """Nothing waits for room: all of it was there before the first was sent."""
