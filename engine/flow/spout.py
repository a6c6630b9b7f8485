"""`FlowControlSpout` reads a producer, emits packs of records, and stores the position (FC-1 to FC-7)."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from engine.api import Fields, Spout, SpoutExhausted, TaskContext, call_kind
from engine.cancellation import CALL_ERRORS
from engine.errors import FAILED, EngineError, Failure, FatalError, UsageError
from engine.flow.controller import FlowController
from engine.flow.exact_position import ExactPosition
from engine.flow.feature import ENTRY
from engine.flow.position_keeper import PositionKeeper, ledger_name
from engine.flow.producer import FlowProducer, record_bytes
from engine.flow.record_reader import RecordReader, record_reader
from engine.flow.records import Records
from engine.flow.settings import FlowSettings
from engine.flow.status import FlowSnapshot, FlowTaskSnapshot
from engine.kernel import PackDelivery, TaskWindow
from engine.maybe_await import maybe_await
from engine.safe_text import safe_repr
from engine.state import StoreRetry
from engine.state.retry import store_named
from engine.topology.overrides import override_faults
from engine.topology.task_port import SEVERAL_ROWS, SpoutPortUser
from engine.undone import Undone

_LAST_WRITE_SECS: Final = 4.0
"""Time for the last write of the position while the spout closes. If the write fails, records are repeated, not lost."""
_STALL_TIMEOUTS: Final = 1.5
"""Number of message timeouts until a task counts as stalled.

A tuple in progress times out after 1 to 1.25 message timeouts. The timeout must come before the stall, because only a timeout counts as a
try of the records."""


class FlowControlSpout(Spout, SpoutPortUser):
    """Reads a producer, and emits packs of its records to the tasks of one bolt, by direct grouping.

    `builder.set_spout("lines", lambda: FlowControlSpout(LogLines("logs")))`, then
    `builder.set_bolt("parse", Parse, parallelism=12).direct_grouping("lines")`. The lambda makes a producer for each task.
    """

    output_fields = Fields("records", direct=True)
    keeps_position = True
    chooses_tasks = True
    needs_acks = True
    survives_rollback = True

    def __init__(self, producer: FlowProducer, settings: FlowSettings | None = None) -> None:
        if not isinstance(producer, FlowProducer):
            raise UsageError(
                f"FlowControlSpout was given {producer!r}, which is not a FlowProducer",
                hint="Derive from FlowProducer, and pass an instance: FlowControlSpout(LogLines()).",
            )
        if call_kind(producer.give_up).is_async:
            raise UsageError(
                f"{type(producer).__name__}.give_up() is async, but the engine does not await it",
                hint="Make it a plain function. It may start background work by self.context.create_task(...).",
            )
        for fault in override_faults("FlowControlSpout(producer)", type(producer)):
            raise UsageError(fault)
        if settings is not None and not isinstance(settings, FlowSettings):
            raise UsageError(f"FlowControlSpout was given {settings!r} as settings", hint="Write FlowSettings(threshold_ms=50).")
        self.producer = producer
        self.settings = settings or FlowSettings()
        self._controller: FlowController | None = None
        self._reader: RecordReader | None = None
        self._keeper: PositionKeeper | None = None
        """Stores the position in a topology without state."""
        self._exact: ExactPosition | None = None
        """The position in a topology with state, whose checkpoints store it."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._given_up = 0
        self._store_error: str | None = None
        self._has_reported_backward = False

    # Opening and closing

    async def open(self) -> None:
        """Load the position, and start to read the producer after this position."""
        context, settings = self.context, self.settings
        self._take_producer()
        [target] = self.port.subscribers()
        config = context.config
        # A pack that is called back would be processed twice. In a topology with state its timeout repeats the interval.
        stalls = config.enable_message_timeouts and self._exact is None
        controller = self._controller = FlowController(
            settings,
            context.task_ids(target.component_id),
            concurrency=max(target.settings.concurrency, target.settings.threads, 1),
            stall_secs=config.message_timeout_secs * _STALL_TIMEOUTS if stalls else float("inf"),
            size_of=_size_function(self.producer),
        )
        self.port.run.show_in_snapshot(ENTRY, context.task_id, partial(self._flow_snapshot, controller))
        if self._exact is not None:
            await maybe_await(self.producer.open())
            return  # `seek` follows
        ledger = self.port.run.ledger(ledger_name(context.component_id, context.task_index))
        patience = StoreRetry(config.state_timeout_secs, self._note_store_error, store=store_named(config.state_provider))
        keeper = self._keeper = PositionKeeper(ledger, controller.prefix, context, settings.checkpoint_interval_ms / 1000, patience)
        after = await keeper.load_position()
        await maybe_await(self.producer.open())
        self._begin_records(after)
        context.create_task(keeper.write_periodically())

    def _begin_records(self, after: Any) -> None:
        assert self._controller is not None
        self._reader = record_reader(self.producer, after, self.context, self._controller.offer_record)
        self.port.on_settled(self._on_task_ack)

    # Positions in a topology with state

    def let_engine_track_rows(self) -> None:
        """Resend nothing, because a failed pack is repeated with its interval (EO-6)."""
        self._exact = self._exact or ExactPosition(self.port)

    async def seek(self, position: Any) -> None:
        """Begin behind a committed position. Without state the position is that of the ledger, which `open` has read."""
        if self._exact is None:
            return
        assert self._controller is not None
        if self._reader is not None:
            await self._reader.close()
            self._controller.begin_again(self.context.clock.now())
        self._exact.seek(position)
        self._begin_records(position)

    def position(self) -> Any:
        """Return the position of the last record that was sent. Records that were read ahead are behind it."""
        return None if self._exact is None or self._controller is None else self._exact.position(self._controller.sent_records)

    def committed(self, position: Any) -> None:
        """Note that a position is stored."""
        assert self._controller is not None
        if self._exact is not None and self._exact.note_committed(position):
            self._controller.goes_alone = None

    def row_id(self, message_id: Any) -> Any:
        """Return the position of the one record of a pack, or of the one that has failed."""
        entries, records = message_id.pack.entries, message_id.payload
        index = 0 if len(entries) == 1 else None if records is None else records.failed_index
        return SEVERAL_ROWS if index is None else entries[index][0]

    def note_failed_row(self, message_id: Any, failure: Failure) -> None:
        """Send the records that may be to blame alone in the next pass."""
        assert self._controller is not None
        assert self._exact is not None
        self._controller.note_failed_pack(message_id, failure, self.context.clock.now())
        position = self.row_id(message_id)
        self._controller.goes_alone = self._exact.is_suspect
        self._exact.suspect([entry[0] for entry in message_id.pack.entries] if position is SEVERAL_ROWS else [position])

    def _take_producer(self) -> None:
        before: TaskContext | None = getattr(self.producer, "context", None)
        if before is not None and before.task_id != self.context.task_id:  # both tasks would read the same part of the source
            kind = type(self.producer).__name__
            raise FatalError(
                f"spout {self.context.component_id!r}: tasks {before.task_id} and {self.context.task_id} share one {kind} object",
                hint=f"Create a producer for each task, in the factory: lambda: FlowControlSpout({kind}(...)).",
            )
        self.producer.context = self.context

    async def close(self) -> None:
        """Write the last position, and close the producer."""
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            if self._keeper is not None:
                async with asyncio.timeout(_LAST_WRITE_SECS):
                    await self._keeper.write_position()
        except (TimeoutError, FatalError) as error:
            why = error.message if isinstance(error, FatalError) else f"no answer in {_LAST_WRITE_SECS:g} s"
            text = f"the last position could not be recorded: {why}; the next start repeats the records after the recorded position"
            self.collector.report_error(EngineError(text))
        finally:
            if self._reader is not None:
                await self._reader.close()
            await maybe_await(self.producer.close())

    # Emitting

    def next_tuple(self) -> None:
        """Emit the next pack to the task that the controller chooses."""
        controller, reader = self._controller, self._reader
        assert controller is not None
        assert reader is not None
        now = self.context.clock.now()
        wanted = controller.records_wanted(now)
        try:
            if wanted:
                if reader.pull_records(wanted):
                    self.context.wake()
                controller.source_ended = reader.has_ended
                if reader.backward_positions and not self._has_reported_backward:
                    self._report_backward()
        finally:  # a producer that raises, perhaps each time, must not hold back the records that it yielded before
            delivery = controller.next_delivery(now)
            if delivery is not None:
                records = delivery.payload = Records([entry[1] for entry in delivery.pack.entries])
                self.collector.emit_direct(delivery.window.task_id, (records,), delivery)
                if self._exact is not None and not self._exact.note_sent(delivery.pack.position):
                    controller.note_tree_ack(delivery, now)  # the engine has left it out, because it was given up
            else:
                self._wake_at(controller.next_wake(now), now)
                if not wanted:
                    self.port.wait_for_wake()
        if delivery is None and reader.has_ended and not controller.has_work:
            raise SpoutExhausted

    def _wake_at(self, at: float | None, now: float) -> None:
        """Schedule a poll of the spout at a time or earlier."""
        # An alarm for an earlier time stays, because the poll at that time sets the next alarm.
        if at is None or (self._alarm is not None and self._alarm_at <= at):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = asyncio.get_running_loop().call_later(at - now, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        self.port.poll_again()  # an exhausted spout is not polled, and would not notice a stalled task
        self.context.wake()

    def _report_backward(self) -> None:
        self._has_reported_backward = True
        text = f"{type(self.producer).__name__}.records() yielded a position that is less than the one before it"
        hint = "A restart continues after the last position up to which all records are done, in yield order. Is this order intended?"
        self.collector.report_error(EngineError(text, hint=hint))

    # Acks and failures

    def _on_task_ack(self, message_id: Any, task_id: int, secs: float) -> None:
        delivery: PackDelivery = message_id if self._exact is None else message_id[2]
        assert self._controller is not None
        self._controller.note_task_ack(delivery, delivery.sent_at + secs)

    def ack(self, message_id: Any) -> None:
        """Count a pack as done, because its records and all tuples emitted for them are processed."""
        assert self._controller is not None
        if self._controller.note_tree_ack(message_id, self.context.clock.now()) and self._keeper is not None:
            self._keeper.note_progress()

    def fail(self, message_id: Any) -> None:
        """Queue a pack for another task, or give its record up."""
        assert self._controller is not None
        assert self._keeper is not None
        failure = self.context.failure or Failure(FAILED)
        fatal: FatalError | None = None
        for position, record, *_ in self._controller.note_tree_failure(message_id, failure, self.context.clock.now()):
            self._keeper.note_progress()
            try:
                self.producer.give_up(position, record, failure)
            except FatalError as error:
                fatal = error
            except CALL_ERRORS as error:  # the user's error; give up the other records too
                self._given_up += 1
                self.collector.report_error(error)
        if fatal is not None:
            raise fatal

    @property
    def is_busy(self) -> bool:
        """True until the last position is recorded. The engine asks when nothing else is left, so the write begins at once."""
        if self._keeper is None or not self._keeper.is_behind:
            return False
        self._keeper.hurry()
        return True

    def undone(self, open_trees: int) -> Undone:
        """Return the packs that are in flight or wait to be sent again, and the records that no `give_up` of the producer has taken."""
        return Undone(open_trees + (0 if self._controller is None else len(self._controller.resend_queue)), self._given_up)

    @property
    def progress(self) -> int | None:
        """Return the number of done records, over all instances. A death without newly done records counts as a failed restart."""
        return None if self._keeper is None else self._keeper.done_records

    # Snapshot

    def _note_store_error(self, text: str | None) -> None:
        self._store_error = text

    def _flow_snapshot(self, controller: FlowController) -> FlowSnapshot:
        stored = self._exact or self._keeper
        position, recorded = (None, 0) if stored is None else (stored.recorded_position, stored.recorded)
        return FlowSnapshot(
            component_id=self.context.component_id,
            task_id=self.context.task_id,
            task_index=self.context.task_index,
            tasks=tuple(_task_snapshot(window) for window in controller.chooser.windows),
            buffered_records=controller.buffered_records + (0 if self._reader is None else self._reader.read_ahead),
            pending_records=controller.pending_records,
            done_records=controller.prefix.done,
            records_since_checkpoint=controller.sent_records - recorded,
            position=None if position is None else repr(position),
            holds=self._holds(controller),
        )

    def _holds(self, controller: FlowController) -> str | None:
        if self._store_error is not None:
            return self._store_error
        if controller.is_full:
            return f"{controller.pending_records:,} records wait for the one behind position {safe_repr(controller.prefix.position)}"
        if all(window.state == "BUSY" for window in controller.chooser.windows):
            return "every task is BUSY"
        return None


def _size_function(producer: FlowProducer) -> Callable[[Any], int]:
    """Return the `size_of` of a producer, without the detour of the default method."""
    size_of = producer.size_of
    return record_bytes if getattr(size_of, "__func__", None) is FlowProducer.size_of else size_of


def _task_snapshot(window: TaskWindow) -> FlowTaskSnapshot:
    service, p99 = window.service_secs, window.service.percentile(99)
    return FlowTaskSnapshot(
        task_id=window.task_id,
        state=window.state,
        window=window.size,
        in_flight=window.in_flight,
        in_flight_records=window.in_flight_records,
        pack_records=window.last_records,
        service_ms=None if service is None else service * 1000,
        service_p99_ms=None if p99 is None else p99 * 1000,
        settled=window.acked_packs,
        records=window.acked_records,
        resends=window.resends,
    )
