"""`DeadLetterWriter` makes dead letters of given-up records, and writes them to their topic. `dead_letter` has the format."""

import asyncio
from typing import Any, Final, Protocol

from aiokafka import errors

from engine.api import TaskContext
from engine.errors import EngineBug, Failure, FatalError
from engine.kafka.client.errors import BACKOFF, Report, describe_error, fatal_error
from engine.kafka.client.producer_link import ClientConfig, ProducerLink, producer_options
from engine.kafka.dead_letters.dead_letter import DeadLetter, dead_letter_of
from engine.kafka.sink.partition_sender import PartitionSender, SenderSettings
from engine.kafka.sink.records import OutgoingRecord, SinkTopic

TOPIC_SECS: Final = 30.0
DELIVERY_SECS: Final = 60.0
"""Timeout of one attempt to write a letter. Retries follow."""
MOST_BYTES: Final = 1_048_576
"""Limit of a whole letter. A larger letter is cut before the first attempt."""


class DeadLetterConfig(ClientConfig, Protocol):
    """Settings of a spout or a sink with dead letters."""

    @property
    def dead_letter_topic(self) -> str | None: ...


class _Ticket:
    """A letter in flight, and the future that the caller of `send_dead_letter` got."""

    __slots__ = ("arrived", "letter")

    def __init__(self, letter: DeadLetter, arrived: "asyncio.Future[None]") -> None:
        self.letter = letter
        self.arrived = arrived


class DeadLetterWriter:
    """Writes dead letters with its own producer, so that failures of a sink's producer do not affect them.

    Spouts and sinks use this class, and bound the number of letters in flight. config: settings of the spout or the sink. report:
    `report_error` of its collector.
    """

    def __init__(self, config: DeadLetterConfig, context: TaskContext, report: Report) -> None:
        if config.dead_letter_topic is None:
            raise EngineBug("dead letters without a topic", config=config)
        self.topic: Final[str] = config.dead_letter_topic
        self._context = context
        self._report = report
        self._loop = asyncio.get_running_loop()
        name = f"{config.client_id or f'{context.topology_name}.{context.component_id}.{context.task_index}'}.dead-letters"
        self._writing = f"writing dead letters to topic {self.topic!r}"
        self._link = ProducerLink(config, producer_options(config, name), writing=self._writing, report=report)
        self._partitions = SinkTopic(self.topic, None)
        self._senders: dict[int, PartitionSender] = {}
        self._sender_settings = SenderSettings(context.clock.now, 0.0, DELIVERY_SECS, MOST_BYTES)
        self._open: dict[asyncio.Future[None], _Ticket] = {}
        self._failures = 0
        self._pauses: set[asyncio.TimerHandle] = set()

    # Start and stop

    async def start(self) -> None:
        """Connect, with retries. Raise FatalError if the topic does not exist or writing is forbidden."""
        await self._link.start()
        try:
            partitions = await self._link.partitions_of(self.topic, TOPIC_SECS)
        except errors.UnknownTopicOrPartitionError as error:
            hint = "Create the topic, or correct dead_letter_topic=... The topic is never created."
            raise FatalError(f"the dead-letter topic {self.topic!r} does not exist", hint=hint) from error
        except errors.KafkaError as error:
            raise fatal_error(error, self._writing) from error
        self._partitions.update_partitions(partitions, partitions)
        for ticket in self._open.values():
            self._place(ticket)

    async def stop(self) -> None:
        """Stop, and cancel unacknowledged letters. A caller that needs the acknowledgments must await the futures first."""
        for pause in self._pauses:
            pause.cancel()
        senders = [sender.aio_task for sender in self._senders.values() if sender.aio_task is not None]
        for sender in senders:
            sender.cancel()
        if senders:
            await asyncio.wait(senders)
        for arrived in tuple(self._open):
            arrived.cancel()
        await self._link.stop()

    # Letters

    def send_failed_record(self, record: Any, failure: Failure, attempts: int) -> "asyncio.Future[None]":
        """Write the letter of a record that was read from Kafka; see `send_dead_letter`."""
        now_ms = int(self._context.clock.wall() * 1000)
        return self.send_dead_letter(dead_letter_of(record, failure, attempts, topology=self._context.topology_name, failed_at_ms=now_ms))

    def send_dead_letter(self, letter: DeadLetter) -> "asyncio.Future[None]":
        """Write a letter. The returned future is done after the broker's acknowledgment.

        Failed attempts are reported and repeated. A letter that is too large is cut. The future gets FatalError for a permanent error, and
        `stop` cancels it. The method may be called before `start` has finished.
        """
        arrived: asyncio.Future[None] = self._loop.create_future()
        ticket = self._open[arrived] = _Ticket(letter, arrived)
        arrived.add_done_callback(self._close)
        if self._partitions.partitions:
            self._place(ticket)
        return arrived

    @property
    def unacknowledged(self) -> int:
        """Number of letters without an acknowledgment."""
        return len(self._open)

    def _close(self, arrived: "asyncio.Future[None]") -> None:
        del self._open[arrived]
        if not arrived.cancelled():
            arrived.exception()  # retrieve the error, else asyncio warns if nobody waits for it

    def _place(self, ticket: _Ticket) -> None:
        """Add a letter to the sender of its key's partition."""
        if ticket.arrived.done():  # the caller has cancelled the future
            return
        letter = ticket.letter
        number = self._partitions.choose_partition(letter.key, None)
        sender = self._senders.get(number)
        if sender is None:
            sender = self._senders[number] = PartitionSender(self._partitions, number, self, self._link, self._sender_settings)
        sender.add_record(OutgoingRecord(ticket, letter.key, letter.value, letter.wire_headers(), None))
        if sender.aio_task is None:
            sender.aio_task = self._loop.create_task(sender.send_all(), name=f"dead letters to {self.topic}")
            sender.aio_task.add_done_callback(lambda done: self._sender_ended(sender, done))

    def _sender_ended(self, sender: PartitionSender, done: "asyncio.Task[None]") -> None:
        """Fail the letters that wait in a sender that died. The next letter starts the sender again."""
        error = None if done.cancelled() else done.exception()
        if error is not None:
            sender.aio_task = None
            for record in sender.remove_records():
                _fail_ticket(record.origin, error)

    # Outcomes (RecordOutcomes)

    def note_written(self, records: list[OutgoingRecord]) -> None:
        """Complete the futures of acknowledged letters."""
        self._failures = 0
        for record in records:
            if not record.origin.arrived.done():
                record.origin.arrived.set_result(None)

    def note_failed(self, records: list[OutgoingRecord], error: Exception) -> None:
        """Retry after a pause. The pause doubles after each failure."""
        self._failures += 1
        pause = BACKOFF.pause_secs(self._failures)
        text = f"{len(records)} dead letters for topic {self.topic!r} were not written: {describe_error(error)}; retry in {pause:g} s"
        self._report(ConnectionError(text))

        def again() -> None:
            self._pauses.discard(handle)
            for record in records:
                self._place(record.origin)

        handle = self._loop.call_later(pause, again)
        self._pauses.add(handle)

    async def note_refused(self, record: OutgoingRecord, topic: str, partition: int, error: Exception) -> None:
        """Cut the letter and retry. If it is already cut, fail it with FatalError."""
        ticket: _Ticket = record.origin
        if ticket.letter.is_whole:
            ticket.letter = ticket.letter.cut()
            self._place(ticket)
            return
        text = f"the brokers refuse a dead letter for topic {topic!r}, even after it was cut: {describe_error(error)}"
        refused = FatalError(text, hint="Raise max.message.bytes of the topic to 16 kB or more. It must not be compacted.")
        refused.__cause__ = error
        _fail_ticket(ticket, refused)

    def release_room(self, records: int, byte_count: int) -> None:
        """Do nothing, because the callers bound the letters in flight."""


def _fail_ticket(ticket: _Ticket, error: BaseException) -> None:
    if not ticket.arrived.done():
        ticket.arrived.set_exception(error)
