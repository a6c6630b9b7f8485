"""`KafkaSink` is a bolt that writes a record for each tuple, and acks the tuple after the broker's acknowledgment (KS-10)."""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from typing import Any, Final, cast

from aiokafka import errors

from engine.api import Bolt, FailTuple, Tuple
from engine.errors import ERROR, Failure, FatalError, UsageError
from engine.kafka.client.errors import describe_error, fatal_error, send_error_kind
from engine.kafka.client.producer_link import ProducerLink, producer_options
from engine.kafka.dead_letters.dead_letter import DeadLetter
from engine.kafka.dead_letters.dead_letter_writer import DeadLetterWriter
from engine.kafka.sink.partition_sender import PartitionSender, SenderSettings
from engine.kafka.sink.records import OutgoingRecord, RecordMaker, SinkTopic
from engine.kafka.sink.sink_config import KafkaSinkConfig

LOOK_SECS: Final = 1.0
SHOWN_AFTER_SECS: Final = 10.0
"""Time without an acknowledgment before a report, and between two reports."""


class KafkaSink(Bolt):
    """Writes records to Kafka. Emits nothing.

    >>> config = KafkaSinkConfig(brokers="127.0.0.1:9092", topic="counts")
    >>> sink = lambda: KafkaSink(config)  # builder.set_bolt("sink", sink).shuffle_grouping("count")

    `execute` adds a record to the batch of its partition, and waits only while too much is in flight. Each partition has a
    `PartitionSender`. A tuple is acked or failed when its batch has an outcome.
    """

    def __init__(self, config: KafkaSinkConfig) -> None:
        if not isinstance(cast(object, config), KafkaSinkConfig):
            text = f"KafkaSink was given {config!r}"
            raise UsageError(text, hint="Write KafkaSink(KafkaSinkConfig(brokers=..., topic=...)).")
        self.config: Final = config
        self._maker = RecordMaker(config)
        self._topics: dict[str, SinkTopic] = {}
        """Topics that exist, and topics whose lookup is still running."""
        self._senders: dict[tuple[str, int], PartitionSender] = {}
        self._fixed: SinkTopic | None = None
        self._in_flight = self._bytes_in_flight = 0
        self._room: asyncio.Future[None] | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._dead_letters: DeadLetterWriter | None = None
        self._names_no_partition = config.partition is None
        self._most_records = config.max_in_flight
        self._most_bytes = config.max_in_flight_bytes

    # Start and stop

    async def prepare(self) -> None:
        """Connect, with retries until it succeeds. Raise FatalError for a permanent error."""
        context, config = self.context, self.config
        self._loop = asyncio.get_running_loop()
        self._now = context.clock.now
        delivery_secs = config.delivery_timeout_ms / 1000
        self._sender_settings = SenderSettings(self._now, config.linger_ms / 1000, delivery_secs, config.max_record_bytes)
        self._broken: asyncio.Future[None] = self._loop.create_future()
        self._last_answer = self._now()
        self._written = context.counter("kafka_records_written")
        self._given_up = context.counter("kafka_records_refused")
        self._writing = f"writing topic {config.topic!r}" if isinstance(config.topic, str) else f"writing as {context.component_id!r}"
        client_id = config.client_id or f"{context.topology_name}.{context.component_id}.{context.task_index}"
        options = producer_options(config, client_id) | config.producer_options()
        self._link = ProducerLink(config, options, writing=self._writing, report=self.collector.report_error)
        try:
            await self._connect()
            context.create_task(self._look_after())
            await asyncio.sleep(0)  # from now on the task closes the clients, however this instance ends
        except BaseException:
            await self._close()
            raise

    async def _connect(self) -> None:
        config = self.config
        await self._link.start()
        if config.dead_letter_topic is not None:
            self._dead_letters = DeadLetterWriter(config, self.context, self.collector.report_error)
            await self._dead_letters.start()
        if isinstance(config.topic, str):
            topic = SinkTopic(config.topic, config.partitioner)
            error = await self._ask_for(topic)
            if error is not None:
                raise self._missing(topic, error) from error
            self._fixed = self._topics[topic.name] = topic

    async def _look_after(self) -> None:
        """Renew tuple timeouts, refresh partitions, report a standstill, and raise the error of a dead sender."""
        refresh_secs = self.context.config.message_timeout_secs / 4
        refresh_at = self._now() + refresh_secs
        try:
            while True:
                await asyncio.wait((self._broken,), timeout=min(LOOK_SECS, refresh_secs))
                if self._broken.done():
                    self._broken.result()
                for topic in self._topics.values():
                    if topic.partitions:
                        topic.update_partitions(*self._link.known_partitions(topic.name))
                self._report_standstill()
                if self._now() >= refresh_at:
                    refresh_at = self._now() + refresh_secs
                    self._restart_clocks()
        finally:
            self._begin_close(0.0 if self._broken.done() else self.config.flush_timeout_secs)

    def _restart_clocks(self) -> None:
        """Restart the timeouts of tuples that wait for the broker.

        If such a tuple timed out, its replay would write the record twice (ACK-8).
        """
        for record in self._records():
            self.collector.reset_timeout(record.origin)

    def _report_standstill(self) -> None:
        now = self._now()
        since = [begun for sender in self._senders.values() if (begun := sender.waits_since()) is not None]
        if since and now - max(min(since), self._last_answer) >= SHOWN_AFTER_SECS:
            silent = now - min(since)
            self._last_answer = now
            text = f"Kafka has acknowledged nothing for {silent:.0f} s; {self._in_flight:,} records wait ({self._writing})"
            self.context.create_task(self._report_silence(text))

    async def _report_silence(self, text: str) -> None:
        """Report a standstill, with the reason if there is one. To find it, the link connects to the brokers."""
        reason = await self._link.reason_of_silence()
        self.collector.report_error(TimeoutError(text if reason is None else f"{text}: {describe_error(reason)}"))

    async def cleanup(self) -> None:
        """Flush for at most `flush_timeout_secs`, and disconnect. The remaining tuples fail."""
        await self._begin_close(self.config.flush_timeout_secs)

    def _begin_close(self, flush_secs: float) -> "asyncio.Task[None]":
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(flush_secs), name=f"end of a Kafka sink {self.context.component_id!r}")
        return self._closing

    async def _close(self, flush_secs: float = 0.0) -> None:
        if self._working:
            await asyncio.wait(set(self._working), timeout=flush_secs)
        left = self._working.copy()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        unsettled = [record for sender in self._senders.values() for record in sender.remove_records()]
        unsettled += [record for topic in self._topics.values() for record in topic.waiting]
        if unsettled:
            closed = TimeoutError(f"the sink closed, and no broker acknowledged within {flush_secs:g} s")
            self.note_failed(unsettled, self._broken_by() or closed)
        if self._dead_letters is not None:
            await self._dead_letters.stop()
        await self._link.stop(*([0.0] if unsettled else []))
        if not self._broken.cancel() and not self._broken.cancelled():
            self._broken.exception()  # retrieve the error, because otherwise asyncio warns

    def _broken_by(self) -> Exception | None:
        """Return the error that ends this instance, None for a normal end."""
        error = self._broken.exception() if self._broken.done() and not self._broken.cancelled() else None
        return error if isinstance(error, Exception) else None

    # Input

    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        """Start to write the record of a tuple. Return an awaitable if too many records or bytes are in flight."""
        if tup.is_tick:
            self.collector.ack(tup)
            return None
        try:
            record = self._maker.make(tup)
            topic = self._fixed
            if topic is None:
                topic = self._topic(self._maker.topic(tup))
            if topic.partitions:
                self._place(record, topic)
            else:
                topic.waiting.append(record)
        except FatalError:
            raise
        except Exception as error:
            raise FailTuple(f"no record can be made of the tuple: {_error_text(error)}", report=True) from error
        self._in_flight += 1
        if self._in_flight >= self._most_records or self._bytes_in_flight >= self._most_bytes:
            return self._wait_for_room()
        return None

    async def _wait_for_room(self) -> None:
        """Wait until at most half of the limit is in flight, so that the next batches are large again."""
        while self._in_flight * 2 > self._most_records or self._bytes_in_flight * 2 > self._most_bytes:
            self._room = self._loop.create_future()
            await self._room

    def _place(self, record: OutgoingRecord, topic: SinkTopic) -> None:
        """Add a record to the sender of its partition, and start that sender."""
        wanted = None if self._names_no_partition else self._maker.partition(record.origin)
        partition = topic.choose_partition(record.key, wanted)
        sender = self._senders.get((topic.name, partition))
        if sender is None:
            sender = self._senders[topic.name, partition] = PartitionSender(topic, partition, self, self._link, self._sender_settings)
        self._bytes_in_flight += sender.add_record(record)
        if sender.aio_task is None:
            sender.aio_task = self._work(sender.send_all())

    # Topics that a function names

    def _topic(self, name: str) -> SinkTopic:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = SinkTopic(name, self.config.partitioner)
            self._work(self._open(topic))
        return topic

    async def _open(self, topic: SinkTopic) -> None:
        """Look up a topic, and place its waiting records. If the topic is missing, the records fail. The next record repeats the lookup."""
        error = await self._ask_for(topic)
        if error is not None and send_error_kind(error) == "fatal" and not isinstance(error, errors.InvalidTopicError):
            raise self._missing(topic, error)
        waiting = list(topic.waiting)
        topic.waiting.clear()
        if error is not None:
            del self._topics[topic.name]
            self.note_failed(waiting, error)
            self.release_room(len(waiting), 0)
            return
        for record in waiting:
            try:
                self._place(record, topic)
            except Exception as wrong:  # noqa: BLE001 - the user's partitioner; the tuple fails with a report
                self.note_failed([record], wrong)
                self.release_room(1, 0)

    async def _ask_for(self, topic: SinkTopic) -> Exception | None:
        try:
            partitions = await self._link.partitions_of(topic.name, self.config.topic_timeout_secs)
        except errors.KafkaError as raised:
            error: Exception = raised
            return error
        topic.update_partitions(partitions, self._link.known_partitions(topic.name)[1])
        return None

    def _missing(self, topic: SinkTopic, error: Exception) -> FatalError:
        if isinstance(error, errors.UnknownTopicOrPartitionError):
            hint = "Create the topic, or correct its name. The sink never creates it."
            text = f"topic {topic.name!r} does not exist, and did not appear within {self.config.topic_timeout_secs:g} s"
            return FatalError(text, hint=hint)
        return fatal_error(error, f"writing topic {topic.name!r}")

    # Outcomes of records

    def note_written(self, records: list[OutgoingRecord]) -> None:
        """Ack the tuples of acknowledged records."""
        ack = self.collector.ack
        for record in records:
            ack(record[0])
        self._written.add(len(records))
        self._last_answer = self._now()

    def note_failed(self, records: list[OutgoingRecord], error: Exception) -> None:
        """Fail the tuples of these records with the reason. The source replays the tuples."""
        why = _error_text(error)
        self.collector.report_error(
            ConnectionError(
                f"{len(records)} {'record was' if len(records) == 1 else 'records were'} not written, so the tuples fail: {why}"
            )
        )
        for record in records:
            self.collector.fail(record.origin, error=f"the record was not written: {why}")

    async def note_refused(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> None:
        """Handle a refused record by `on_refused` and `dead_letter_topic`."""
        self._given_up.add(1)
        text = f"a record for topic {topic!r} was refused: {describe_error(error)}"
        if self.config.on_refused == "drop":
            self.collector.report_error(ValueError(f"{text}. The record is dropped"))
            self.collector.ack(record.origin)
        elif self._dead_letters is not None:
            letter = self._letter(record, topic, partition, error)
            await self._dead_letters.send_dead_letter(letter)
            self.collector.ack(record.origin)
        else:
            self.collector.report_error(ValueError(f"{text}. Its tuple fails. Set dead_letter_topic=... to store such records"))
            self.collector.fail(record.origin, error=text)

    def _letter(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> DeadLetter:
        context = self.context
        return DeadLetter(
            topic=topic,
            partition=partition,
            offset=None,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=tuple(record.headers),
            topology=context.topology_name,
            failure=Failure(ERROR, context.component_id, context.task_id, describe_error(error)),
            attempts=1,
            failed_at_ms=int(context.clock.wall() * 1000),
        )

    def release_room(self, records: int, byte_count: int) -> None:
        """Remove these records and bytes from the count in flight. Wake `execute` if it waits."""
        self._in_flight -= records
        self._bytes_in_flight -= byte_count
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _records(self) -> Iterator[OutgoingRecord]:
        for sender in self._senders.values():
            yield from sender.records()
        for topic in self._topics.values():
            yield from topic.waiting

    def _work(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start background work, which may continue while the sink closes. An error of this work ends the instance."""
        task = self._loop.create_task(coroutine)
        self._working.add(task)
        task.add_done_callback(self._worked)
        return task

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._working.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._broken.done():
            self._broken.set_exception(error)


def _error_text(error: BaseException) -> str:
    if isinstance(error, UsageError) and error.hint:
        return f"{error.message}. {error.hint}"
    return describe_error(error)
