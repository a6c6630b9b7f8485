"""`FlowControlSpout`: sends each bolt task what it can take, and knows how far everything is done (FC-1 to FC-7)."""

import asyncio
import inspect
from functools import partial
from typing import Any, Final

from engine.errors import FAILED, EngineError, Failure, FatalError, UsageError
from engine.flow.controller import FlowController
from engine.flow.pack import records_of
from engine.flow.position_keeper import PositionKeeper, ledger_name
from engine.flow.producer import FlowProducer
from engine.flow.settings import FlowSettings
from engine.flow.source import Source, source_of
from engine.flow.status import FlowSnapshot, FlowTaskSnapshot
from engine.kernel import AdaptiveFlowConsumer, Sending
from engine.state import Patience
from engine.topology import Fields, Spout, SpoutExhausted, TaskContext, call_kind
from engine.topology.overrides import override_faults
from engine.topology.task_port import SpoutPortUser

_END_WRITE_SECS: Final = 4.0
"""What the last write gets, of the time to close: the producer is to have the rest. Without it some records are repeated, none is lost."""
_STALL_TIMEOUTS: Final = 1.5
"""A tuple that was taken up times out after 1 to 1.25 of them: that comes first, since it is a try of its records, and a stall is none."""


class FlowControlSpout(Spout, SpoutPortUser):
    """Reads a producer, and emits packs of its records to the tasks of one bolt, by direct grouping.

    `builder.set_spout("lines", lambda: FlowControlSpout(LogLines("logs")))`, then
    `builder.set_bolt("parse", Parse, parallelism=12).direct_grouping("lines")`. Each task makes a producer of its own.
    """

    output_fields = Fields("records", direct=True)
    keeps_position = True
    feeds_one_bolt = True

    def __init__(self, producer: FlowProducer, settings: FlowSettings | None = None) -> None:
        if not isinstance(producer, FlowProducer):
            raise UsageError(
                f"FlowControlSpout was given {producer!r}, which is no FlowProducer",
                hint="Derive from FlowProducer, and pass an instance: FlowControlSpout(LogLines()).",
            )
        if call_kind(producer.give_up).is_async:
            raise UsageError(
                f"{type(producer).__name__}.give_up() is async, and nobody would wait for it",
                hint="Make it a plain function; what has to wait goes into self.context.create_task(...).",
            )
        for fault in override_faults("FlowControlSpout(producer)", type(producer)):
            raise UsageError(fault)
        if settings is not None and not isinstance(settings, FlowSettings):
            raise UsageError(f"FlowControlSpout was given {settings!r} as settings", hint="Write FlowSettings(threshold_ms=50).")
        self.producer = producer
        self.settings = settings or FlowSettings()
        self._controller: FlowController | None = None
        self._source: Source | None = None
        self._keeper: PositionKeeper | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._trouble: str | None = None
        self._told_of_steps_back = False

    # Life

    async def open(self) -> None:
        """Find the bolt's tasks and the position, and begin to read behind it."""
        context, settings = self.context, self.settings
        self._take_producer()
        [target] = self.port.subscribers()
        config = context.config
        controller = self._controller = FlowController(
            settings,
            context.task_ids(target.component_id),
            width=max(target.settings.concurrency, target.settings.threads, 1),
            stall_secs=config.message_timeout_secs * _STALL_TIMEOUTS if config.enable_message_timeouts else float("inf"),
            size_of=self.producer.size_of,
        )
        ledger = self.port.run.ledger(ledger_name(context.component_id, context.task_index))
        patience = Patience(config.state_timeout_secs, self._note_trouble)
        keeper = self._keeper = PositionKeeper(ledger, controller.prefix, context, settings.checkpoint_interval_ms / 1000, patience)
        after = await keeper.open()
        opening = self.producer.open()
        if inspect.isawaitable(opening):
            await opening
        self._source = source_of(self.producer, after, context, controller.offer)
        self.port.on_settled(self._settled)
        self.port.run.show_flow(context.task_id, partial(self._flow_status, controller, keeper, self._source))
        context.create_task(keeper.keep())

    def _take_producer(self) -> None:
        before: TaskContext | None = getattr(self.producer, "context", None)
        if before is not None and before.task_id != self.context.task_id:  # it would read one task's share twice, and never the other's
            raise FatalError(
                f"spout {self.context.component_id!r}: task {before.task_id} of {before.component_id!r} has the same "
                f"{type(self.producer).__name__}",
                hint="Each task needs a producer of its own: make it in the factory, lambda: FlowControlSpout(LogLines()).",
            )
        self.producer.context = self.context

    async def close(self) -> None:
        """Record how far everything is done, and close the producer."""
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            if self._keeper is not None:
                async with asyncio.timeout(_END_WRITE_SECS):
                    await self._keeper.write()
        except (TimeoutError, FatalError) as error:
            why = error.message if isinstance(error, FatalError) else f"no answer in {_END_WRITE_SECS:g} s"
            text = f"the last position could not be recorded: {why}; what is done beyond it is repeated"
            self.collector.report_error(EngineError(text))
        finally:
            if self._source is not None:
                await self._source.close()
            closing = self.producer.close()
            if inspect.isawaitable(closing):
                await closing

    # Out

    def next_tuple(self) -> None:
        """Emit the next pack, to the task that begins with it first."""
        controller, source = self._controller, self._source
        assert controller is not None
        assert source is not None
        now = self.context.clock.now()
        wanted = controller.wanted(now)
        try:
            if wanted:
                if source.pull(wanted):
                    self.context.wake()
                controller.is_last = source.has_ended
                if source.steps_back and not self._told_of_steps_back:
                    self._tell_of_steps_back()
        finally:  # a producer that raises, perhaps for ever, keeps nothing back that it yielded before
            sending = controller.next_send(now)
            if sending is not None:
                records = sending.contents = records_of(sending.pack)
                self.collector.emit_direct(sending.consumer.task_id, (records,), sending)
            else:
                self._wake_at(controller.look_at(now), now)
                if not wanted:
                    self.port.wait_for_wake()
        if sending is None and source.has_ended and not controller.has_work:
            raise SpoutExhausted

    def _wake_at(self, at: float | None, now: float) -> None:
        """Have the spout be polled then, or before: an alarm that is set for earlier stays, and what it sees sets the next one."""
        if at is None or (self._alarm is not None and self._alarm_at <= at):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = asyncio.get_running_loop().call_later(at - now, self._ring), at

    def _ring(self) -> None:
        self._alarm = None
        self.port.poll_again()  # exhausted, it would not see that a task stands still
        self.context.wake()

    def _tell_of_steps_back(self) -> None:
        self._told_of_steps_back = True
        text = f"{type(self.producer).__name__}.records() yielded a position that is less than the one before it"
        hint = "Positions count in the order in which they are yielded; a restart goes on behind the last one that is done. Is that meant?"
        self.collector.report_error(EngineError(text, hint=hint))

    # Back

    def _settled(self, message_id: Any, task_id: int, secs: float) -> None:
        sending: Sending = message_id
        assert self._controller is not None
        self._controller.settled(sending, sending.sent_at + secs)

    def ack(self, message_id: Any) -> None:
        """All records of the pack are done, with all that came of them."""
        assert self._controller is not None
        assert self._keeper is not None
        if self._controller.acked(message_id, self.context.clock.now()):
            self._keeper.note_moved()

    def fail(self, message_id: Any) -> None:
        """Have the pack be sent to another task, or give its record up."""
        assert self._controller is not None
        assert self._keeper is not None
        failure = self.context.failure or Failure(FAILED)
        fatal: FatalError | None = None
        for position, record, *_ in self._controller.failed(message_id, failure, self.context.clock.now()):
            self._keeper.note_moved()
            try:
                self.producer.give_up(position, record, failure)
            except FatalError as error:
                fatal = error
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the user's own; the others of the pack go on
                self.collector.report_error(error)
        if fatal is not None:
            raise fatal

    @property
    def is_busy(self) -> bool:
        """True until what is done is recorded, too; asked when nothing else is left, so that is done at once."""
        if self._keeper is None or not self._keeper.is_due:
            return False
        self._keeper.hurry()
        return True

    @property
    def progress(self) -> int | None:
        """Return how many records are done, over all instances: without one more, a death counts."""
        return None if self._keeper is None else self._keeper.done

    # What it shows

    def _note_trouble(self, text: str | None) -> None:
        self._trouble = text

    def _flow_status(self, controller: FlowController, keeper: PositionKeeper, source: Source) -> FlowSnapshot:
        return FlowSnapshot(
            component_id=self.context.component_id,
            task_id=self.context.task_id,
            task_index=self.context.task_index,
            tasks=tuple(_task(consumer) for consumer in controller.tasks.consumers),
            buffered_records=controller.buffered + source.read_ahead,
            pending_records=controller.pending,
            done_records=controller.prefix.done,
            records_since_checkpoint=controller.sent - keeper.recorded,
            position=None if keeper.position is None else repr(keeper.position),
            holds=self._holds(controller),
        )

    def _holds(self, controller: FlowController) -> str | None:
        if self._trouble is not None:
            return self._trouble
        if controller.is_full:
            return f"{controller.pending:,} records wait for the one behind position {controller.prefix.position!r}"
        if all(consumer.state == "BUSY" for consumer in controller.tasks.consumers):
            return "every task is BUSY"
        return None


def _task(consumer: AdaptiveFlowConsumer) -> FlowTaskSnapshot:
    service, p99 = consumer.service_secs, consumer.service.percentile(99)
    return FlowTaskSnapshot(
        task_id=consumer.task_id,
        state=consumer.state,
        window=consumer.window,
        in_flight=consumer.in_flight,
        in_flight_records=consumer.in_flight_records,
        pack_records=consumer.last_records,
        service_ms=None if service is None else service * 1000,
        service_p99_ms=None if p99 is None else p99 * 1000,
        settled=consumer.settled_packs,
        records=consumer.settled_records,
        resends=consumer.resends,
    )
