"""Executor of a spout: calls ack and fail for verdicts, polls next_tuple, and waits in between."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from engine.api import BurstSpout, FromGenerator, GeneratorBroken, Inlet, InletHandle, Spout, SpoutExhausted
from engine.backoff import Backoff
from engine.cancellation import CALL_ERRORS, was_cancelled
from engine.errors import ENDS_OF_ITERATION, TASK_DIED, ComponentError, EngineError, Failure, FatalError, UsageError
from engine.event_time import NO_WATERMARK, Mark
from engine.kernel import EdgeIds, SignalRing, SpoutCollector, SpoutCore, SpoutOutcome, StepTimer
from engine.names import ACKER_COMPONENT, FAILED_STREAM
from engine.runtime.executor import Executor
from engine.runtime.orders import Order, Orders
from engine.runtime.pending_rows import PendingRows
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.runtime.source_marks import SourceMarks
from engine.runtime.task_context import ExecutorContext
from engine.runtime.task_ports import ExecutorSpoutPort
from engine.runtime.usage_errors import UsageErrors
from engine.safe_text import safe_repr
from engine.topology import ComponentSpec
from engine.topology.task_port import SourceHandler, SpoutPortUser, SpoutStatus

BACKOFF: Final = Backoff(0.001, 0.064)
"""Pauses after polls that emitted nothing, and after calls that raised."""
SourceRow: TypeAlias = tuple[Any, str, Any, Any]
"""(values, stream, message id of the user or None, mark of the handler)."""
FLUSH_BACKOFF: Final = Backoff(0.0002, 0.02)
"""Pauses between two looks whether all verdicts have arrived."""


class IteratorEnded(EngineError):
    """Raised in place of a StopIteration that leaves a poll, such as that of `next(rows)` at the end of the source. The cause is chained.

    The spout cannot go on, and a fresh instance would read the whole source again. So the run drains, and ends with a ComponentError.
    """


class TreeWatch(Protocol):
    """Follows single trees of a spout task. The core calls its other methods."""

    def note_failed(self, task: int, message_id: object, failure: Failure) -> None: ...


class PendingWindow(Protocol):
    """Limit of open trees that adapts after each burst, for `max_spout_pending="auto"` (FC-8). All tasks of a spout share one window."""

    @property
    def max_pending(self) -> int:
        """The current limit."""

    def after_burst(self, task_index: int, now: float, acked: int, failed: int, open_trees: int, limited: bool | None) -> int:
        """Return the new limit.

        limited: True if the limit stopped the polls, False if something else did, None if the task is polled.
        """


class SpoutExecutor(Executor):
    """The actor of one spout task."""

    core: SpoutCore
    paces_restarts = True  # each instance reads its source from the start, and may write a new epoch to a store

    def __init__(
        self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, ackers: list[SignalRing], window: PendingWindow | None = None
    ) -> None:
        super().__init__(info, spec, run_context)
        self.verdicts = SignalRing(self.wakeup.set)
        self.core = self._make_core(ackers, window)
        self.core.backpressure.set_on_resume(self.note_resumed)
        self.port = ExecutorSpoutPort(self)
        self.failures: Counter[str] = Counter()
        """Number of failed trees by reason."""
        make_source = spec.source_handler
        self.source: SourceHandler | None = None if make_source is None else make_source(info.task_index, self.port)
        """Handler of a spout whose positions are in the checkpoint. None for any other spout."""
        self.core.keep_rows(self.source is not None)
        self.core.row_mark = 0
        self.core.hold_acks(spec.holds_acks)
        event_time = spec.settings.event_time
        self.marks = None if event_time is None else SourceMarks(spec, event_time, self.core, run_context.clock, self.reporter)
        """Sends the watermarks of a source with event times."""
        self.core.on_refused = self._refuse_row
        self.orders = Orders(run_context.loop, self.wake)
        self.inlet: InletHandle | None = None
        self.exhausted = False
        self.active = False
        self.waits_for_wake = False
        """True if the spout asked for no further polls until the next wake."""
        self.watch: TreeWatch | None = None
        """The traces of message ids, while one of them needs this task."""
        self.given_up = self.letters = 0
        """Messages that earlier instances have given up for good, or that a checkpoint has passed; those of them that have a letter."""
        self._progress: int | None = None
        """Progress that the last instance reported at its death. None if the progress is the number of verdicts."""
        self._window = window
        self._empty_polls = 0
        """Number of consecutive polls that emitted nothing. A wake or a verdict resets the number."""
        self._context: ExecutorContext | None = None
        self._switches: list[tuple[bool, asyncio.Future[None]]] = []
        self._in_call = self._held_back = self._lets_rows_out = False
        self._is_finishing = False
        """True during a drain, while the instance has rows of a list that its generator has yielded (BU-4)."""
        self._call_began = 0.0
        self._timed = StepTimer(run_context.clock.now, self.core.slow_call_secs, self.slow_calls.warn_of_step)
        self._rows = PendingRows(self, run_context.loop, run_context.clock.now)

    def _make_core(self, ackers: list[SignalRing], window: PendingWindow | None) -> SpoutCore:
        """Return the compiled part of the task."""
        context, bound = self.run_context, self.spec.pending_bound(self.run_context.config)
        return SpoutCore(
            self.info.task_id,
            verdicts=self.verdicts,
            max_pending=window.max_pending if window is not None else bound if isinstance(bound, int) else 0,
            acker_failure=Failure(TASK_DIED, ACKER_COMPONENT, None, "the acker of the tree died"),
            ids=EdgeIds(context.random.uint64("edges", self.info.task_id)),
            ackers=ackers,
            now=context.clock.now,
            misuse=UsageErrors(self.spec),
            backlog=context.backlog,
            slow_call_secs=context.config.slow_call_warn_ms / 1000,
        )

    @property
    def sent_mark(self) -> Mark:
        """The last mark that has been sent to the tasks behind. The first one if the rows have no times."""
        return Mark(NO_WATERMARK, True) if self.marks is None else self.marks.clock.sent

    # The instance

    async def _make_instance(self) -> None:
        spout: Any = self.spec.factory.create()
        self.orders.cancel()  # they are for an earlier instance
        self._background = self._new_background()
        self._context = spout.context = self._new_context(self._background)
        self._collector = spout.collector = SpoutCollector(self.core, self._rows, ready=self.ready, report_error=self.report_from_component)
        if isinstance(spout, SpoutPortUser):
            spout.port = self.port
        if isinstance(spout, Inlet):
            if self.inlet is None:
                self.run_context.calls.add_inlet(self.core.message_of)
            self.inlet = self.run_context.inlets.setdefault(self.info.component_id, spout.handle)
            self.inlet.use_calls(self.run_context.calls)
            spout.use_handle(self.inlet)
            self.core.hold_acks(self.spec.holds_acks and spout.answers == "committed")
            self.core.on_held = self.inlet.note_held
        self.component = spout
        self._bind(spout)
        self.exhausted = False
        if self.marks is not None:
            self.marks.use_instance(spout)
        await self.call_hook(spout.open)
        if self.source is not None:
            await self.source.begin(spout)
        elif spout.rewinds is True:
            await self.call_hook(spout.seek, None)
        if self.marks is not None:
            self.marks.note_open()
        if self.active:
            await self.call_hook(spout.activate)
        self._set_polling()

    def _bind(self, spout: Any) -> None:
        """Let the core call the methods of an instance that it has."""
        polls_bursts = isinstance(spout, BurstSpout) and "next_tuple" not in vars(spout)  # else a fault injector has wrapped `next_tuple`
        takes_lists = isinstance(spout, BurstSpout) and type(spout).ack_many is not BurstSpout.ack_many and "ack" not in vars(spout)
        listens = type(spout).ack not in (Spout.ack, BurstSpout.ack) or "ack" in vars(spout)
        on_ack, on_acks = spout.ack if listens else None, spout.ack_many if takes_lists else None
        on_fail: Any = self._fail_message
        if self.source is not None:
            on_fail = self._fail_row
            if isinstance(spout, FromGenerator):
                spout.let_engine_track_rows(self._give_up_row)
                on_ack = on_acks = None
            elif isinstance(spout, SpoutPortUser):
                spout.let_engine_track_rows()
                if not spout.needs_acks:
                    on_ack = on_acks = None
            on_ack, on_acks = on_ack and _ack_of_row(on_ack), on_acks and _acks_of_rows(on_acks)
        poll = spout.next_tuples if polls_bursts else spout.next_tuple
        listener = self.port.listener if self.source is None else None
        self.core.bind(poll, on_ack, on_fail, listener, on_acks=on_acks, polls_bursts=polls_bursts)

    def _fail_row(self, row: SourceRow, failure: Failure, had_no_effect: bool) -> None:
        """Note a failed row for the handler of positions, which decides about it (EO-6)."""
        assert self.source is not None
        self.failures[failure.reason] += 1
        self.run_context.failures.note(self.info, row[2], failure)
        if isinstance(self.component, SpoutPortUser):
            self.component.note_failed_row(row[2], failure)
        self.source.note_failed(row, failure, had_no_effect=had_no_effect)

    def _refuse_row(self, values: tuple[Any, ...], row_id: Any, error: Exception) -> Failure | None:
        """Report a row that has no time, or of which no row can be made. Return the failure of its tree. None: it has left as diverted."""
        failure = self.failure_of(error)
        if isinstance(error, FatalError):
            self.kill(error)
            return failure
        if FAILED_STREAM in self.spec.streams:
            fields = self.spec.given_fields or ()
            diverted = (self.info.component_id, self.info.task_id, failure.error, 1, dict(zip(fields, values, strict=False)))
            self.core.emit(diverted, row_id[2] if self.source is not None else row_id, FAILED_STREAM)
            return None
        fate = "only this row fails" if row_id is not None else "the row is dropped"
        if self.source is not None:
            fate = "the row becomes a dead letter, because it would be refused again"
        self.reporter.report(error, next_step=f"{fate}; the spout continues", text=f"{failure.error}: {safe_repr(values, 200)}")
        if self.source is None:
            return failure
        self.source.give_up(values, failure)
        return None

    def _give_up_row(self, values: tuple[Any, ...], error: Exception) -> None:
        """Give up a row that cannot be emitted."""
        assert self.source is not None
        self.source.give_up(values, self.failure_of(error))

    @property
    def may_emit_again(self) -> bool:
        """True while rows that have failed may be emitted again. During a drain they wait for the next run."""
        return self.active and self.may_emit_rows()

    async def _begin_after_rollback(self) -> None:
        if not self._is_open or self._replace_for is not None or self.component.survives_rollback is not True:
            await super()._begin_after_rollback()
            return
        assert self.source is not None
        assert self._rollback is not None
        self.streak.length = 0
        await self._stop_calls()
        self.core.drop_instance()  # its open trees; the instance stays
        await self._rollback.stopped(self)
        self.orders.cancel()
        self.exhausted = self._is_finishing = False
        self._bind(self.component)
        if self.marks is not None:
            self.marks.use_instance(self.component)
        try:
            await self.source.begin(self.component)
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            await self._replace(error)
            return
        if self.marks is not None:
            self.marks.note_open()
        self._set_polling()
        self._note_ready()

    async def rows_emitted(self) -> None:
        """Wait until no row of an `emit_many` is left to emit. They are emitted even if the spout is held back, because a barrier waits."""
        self._lets_rows_out = True
        self._rows.schedule()
        try:
            while self._rows:
                await self._rows.wait_until_empty()
        finally:
            self._lets_rows_out = False

    async def verdicts_arrived(self) -> None:
        """Wait until all failures that have been sent by now are handled. This does not wait for a poll that is awaited."""
        self.core.begin_flush()
        for pause_secs in FLUSH_BACKOFF.pauses():
            self.core.take_failures()
            if not self.core.is_flushing:
                return
            await asyncio.sleep(pause_secs)

    def drop_inputs(self, failure: Failure) -> None:
        """Nothing to do: the trees of the instance are dropped with it."""

    def set_watch(self, watch: TreeWatch | None) -> None:
        """Let `watch` follow trees of this task. None ends it."""
        self.watch = watch
        self.core.set_watch(watch)

    async def _stop_calls(self) -> None:
        self._rows.discard()
        self.core.polling = False

    def _close_method(self, component: Any) -> Callable[[], Any]:
        return component.close  # type: ignore[no-any-return]

    async def close(self) -> None:
        """End the coroutine, then close the instance."""
        if self.marks is not None:
            self.marks.close()
        await super().close()
        while self._switches:
            self._switches.pop()[1].set_result(None)
        self.core.drop_instance()  # message ids may refer to the run, and the garbage collector does not look into the core

    def _progress_count(self) -> int:
        """Return the progress of a `SpoutPortUser`, else the verdicts that the spout has handled without an error."""
        if isinstance(self.component, SpoutPortUser):
            self._progress = self.component.progress
        return self.core.handed_out if self._progress is None else self._progress

    def _fail_instance(self, failure: Failure) -> None:
        """Drop the trees of a dead instance, because its source replays them (ACK-13)."""
        self.orders.cancel()
        if self.source is not None and self._rollback is None:
            self.source.note_died()
        self._rows.discard()
        self.core.drop_instance()
        if self.marks is not None:
            self.marks.drop_instance()
        if isinstance(self.component, (FromGenerator, SpoutPortUser)) and self.source is None:
            self.given_up += self.component.undone(0).failed
        if isinstance(self.component, Inlet):
            self.component.fail_in_flight(failure)
        self.exhausted = self._is_finishing = False  # the next instance reads its source again, so the run is not complete

    def _fail_message(self, message_id: object, failure: Failure) -> Awaitable[None] | None:
        """Call the spout's fail with `context.failure` set, and poll the spout again (RUN-2)."""
        context = self._context
        assert context is not None
        self.poll_again()
        self.failures[failure.reason] += 1
        self.run_context.failures.note(self.info, message_id, failure)
        if self.watch is not None:
            self.watch.note_failed(self.info.task_id, message_id, failure)
        context.failure = failure
        result: Awaitable[None] | None = None
        if self.marks is not None:
            self.marks.note_failed(message_id)  # before `fail`, which may send the row again
        try:
            result = self.component.fail(message_id)
        finally:
            if result is None:
                context.failure = None
        if self.marks is not None and result is None and not self.component.sends_again(message_id):
            self.marks.forget_failed(message_id)
        return result

    def poll_again(self) -> None:
        """Poll an exhausted spout until it raises SpoutExhausted again."""
        self.exhausted = False
        if self.marks is not None:
            self.marks.clock.forget_end()
        self._set_polling()

    def hurry_commits(self, *, on: bool) -> None:
        """Request a commit now, and whenever an ack begins to wait for one."""
        request = self.run_context.port.request_commit
        self.core.on_held = (lambda _: request()) if on else None
        if on:
            request()

    def fail_open_trees(self, failure: Failure) -> None:
        """Fail all trees that have no verdict, because the run goes back to its last commit (EO-5)."""
        self.core.fail_open_trees(failure)
        if self.marks is not None:
            self.marks.go_back()
            if self.source is not None:
                self.marks.wait_until_open()

    def _set_polling(self) -> None:
        self.core.polling = (self.active or self._is_finishing) and not self.exhausted and not self._held_back and not self._rows
        if self.source is not None:
            self.source.emit_due()

    # Pending rows of emit_many (`RowsOwner`)

    def may_emit_rows(self) -> bool:
        return self._is_serving and (self._lets_rows_out or not self._held_back) and not self.core.backpressure.stopped_by

    def note_rows_changed(self) -> None:
        if isinstance(self._collector, SpoutCollector):
            self._collector.divert(bool(self._rows))
        self._set_polling()
        self.wake()

    def note_row_error(self, error: BaseException) -> None:
        if not isinstance(error, CALL_ERRORS):
            self.run_context.end_run(self._program_end_error(error))
        elif self.error_mode(error) != "fail":
            self._note_background_error(error)
        else:  # the same as for an error of the call itself
            self.reporter.report(error, next_step="the later rows are not emitted; the spout continues")
            if self.streak.note_failure(self.run_context.clock.now(), self.core.emitted + self.core.handed_out):
                self._note_background_error(error)

    def note_row_time(self, secs: float) -> None:
        self.core.add_plain_secs(secs)

    def note_resumed(self) -> None:
        """Wake the coroutine and the waiters of `ready`, and emit pending rows."""
        super().note_resumed()
        self._rows.schedule()
        if self.source is not None:
            self.source.emit_due()

    async def ready(self) -> None:
        """Wait until the task may emit, and no rows are pending."""
        await super().ready()
        while self._rows:
            await self._rows.wait_until_empty()
            await super().ready()

    # Activity

    async def switch_activity(self, *, active: bool) -> None:
        """Call activate or deactivate between two other calls of the spout, and start or stop its polls."""
        if self.core.closing:
            return
        done: asyncio.Future[None] = self.run_context.loop.create_future()
        self._switches.append((active, done))
        self.wake()
        await done

    def hold_back(self, *, on: bool) -> None:
        """Stop the polls, or allow them again, even for an active spout. Used while state recovers."""
        self._held_back = on
        self._set_polling()
        self._rows.schedule()
        self.wake()

    def stop_polling(self) -> None:
        """Stop the polls at once, for a drain. If a generator has yielded a list of rows, poll until they are emitted (BU-4)."""
        self.active = False
        if self.marks is not None:
            self.marks.forbid_end()
        self._is_finishing = isinstance(self.component, FromGenerator) and self.component.begin_finish()
        self._set_polling()

    async def _apply_switches(self) -> None:
        while self._switches:
            active, done = self._switches.pop(0)
            try:
                if active != self.active:
                    self.active = active
                    self._set_polling()
                    await self.call_hook(self.component.activate if active else self.component.deactivate)
            finally:
                if not done.done():
                    done.set_result(None)

    # Turns

    async def _serve(self) -> None:
        variables = self.variables
        while self._is_serving and self.variables is variables:
            try:
                if self._switches:
                    await self._apply_switches()
                if self.orders:
                    await self._carry_out(self.orders.take())
                await self._turn()
            except SpoutExhausted:
                self._note_exhausted()
            except (GeneratorBroken, IteratorEnded) as error:
                await self._note_broken_source(error)
            except (Exception, asyncio.CancelledError) as error:
                if was_cancelled(error):
                    raise
                await self._handle_error(error)

    async def _carry_out(self, order: Order) -> None:
        try:
            await order.work()
        finally:
            order.done.cancel()

    async def _turn(self) -> None:
        core, self.waits_for_wake = self.core, False
        try:
            outcome = core.run_burst(self.run_context.config.burst)
        except ENDS_OF_ITERATION as error:
            raise self._error_of_end(error) from error
        if self._window is not None:
            self._adapt_max_pending(self._window, outcome)
        if core.slowest_call:
            self.slow_calls.check_core(core)
        if self.source is not None and core.at_limit:
            self.source.note_limit()
        if outcome in (SpoutOutcome.POLL_AGAIN, SpoutOutcome.GAVE_WAY):
            self._empty_polls = 0
            await asyncio.sleep(0)
        elif outcome == SpoutOutcome.AWAITABLE:
            await self._await_call(core.returned)
        elif outcome == SpoutOutcome.NOTHING_NEW:
            await self._pause()
        else:
            await self._park(None)

    def _adapt_max_pending(self, window: PendingWindow, outcome: int) -> None:
        core, limited = self.core, None
        if core.polling and core.pending >= core.max_pending:
            limited = True
        elif outcome not in (SpoutOutcome.POLL_AGAIN, SpoutOutcome.GAVE_WAY):
            limited = False
        now = self.run_context.clock.now()
        core.max_pending = window.after_burst(self.info.task_index, now, core.acked, core.failed, core.pending, limited)

    async def _await_call(self, returned: object) -> None:
        """Await an async method. Warn if it takes long, because verdicts wait, too."""
        core, now = self.core, self.run_context.clock.now
        self.core.forget_returned()
        if not inspect.isawaitable(returned):
            raise UsageError(
                f"spout {self.info.component_id!r}: a method returned {safe_repr(returned)} ({type(returned).__name__})",
                hint="next_tuple, ack and fail return None; tuples are emitted by self.collector.emit(...).",
            )
        started = self._call_began = now()
        timer = self.run_context.loop.call_later(self.run_context.config.slow_call_warn_ms / 1000, self._warn_of_wait)
        self._in_call = True
        try:
            await self._timed(_awaited(returned))
            core.note_returned()
        except StopAsyncIteration as error:
            raise self._error_of_end(error) from error
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration) and str(error) == "coroutine raised StopIteration":
                raise self._error_of_end(error.__cause__) from error
            raise
        finally:
            self._in_call = False
            timer.cancel()
            core.add_awaited_secs(now() - started)
            if self._context is not None:
                self._context.failure = None
        if core.polled_in_vain():
            await self._pause()
        else:
            self._empty_polls = 0
            if now() - started < BACKOFF.first_secs:
                await asyncio.sleep(0)

    def _warn_of_wait(self) -> None:
        if not self.slow_calls.is_due():
            return
        limit_ms = self.run_context.config.slow_call_warn_ms
        self.reporter.warn(
            f"an async method of spout {self.info.component_id!r} has been waiting for {limit_ms:g} ms; its acks and fails wait too. "
            "Wait in self.context.create_task(...) and call self.context.wake(), or use an async-generator @spout."
        )

    async def _pause(self) -> None:
        """Wait before the next poll after an empty poll. The pause doubles after each empty poll. A wake or a verdict ends the pause."""
        if self.waits_for_wake:
            await self._park(None)
            return
        self._empty_polls += 1
        if await self._park(BACKOFF.pause_secs(self._empty_polls)):
            self._empty_polls = 0

    async def _park(self, timeout_secs: float | None) -> bool:
        """Wait for a verdict, a wake, room to emit, or a switch. Return False if the timeout came first."""
        if self.marks is not None and self.exhausted and not self.rows_to_retry:
            self.marks.end_if_settled()
        if self._switches or self.orders or not self.verdicts.park():
            return True
        try:
            return await self.wakeup.wait(timeout_secs)
        finally:
            self.verdicts.unpark()

    # Ends and errors

    def _note_exhausted(self) -> None:
        self.exhausted, self._is_finishing = True, False
        self._set_polling()

    def _error_of_end(self, error: BaseException) -> EngineError | RuntimeError:
        """Return the error for a call that raised StopIteration or the like, which must not leave a coroutine."""
        if not self.core.in_poll or isinstance(error, GeneratorExit):
            return RuntimeError(f"the call raised {type(error).__name__}")
        hint = "At the end of the source, raise SpoutExhausted. To find the end, write next(rows, None), or catch the error around next()."
        return IteratorEnded(f"it was polled and raised {type(error).__name__}, which does not end a spout", hint=hint)

    async def _note_broken_source(self, error: GeneratorBroken | IteratorEnded) -> None:
        """Report the error of a source that cannot go on. The run drains and ends with this error (ACK-13)."""
        if isinstance(error, IteratorEnded) and self.error_mode(error) == "stop":
            await self._replace(error)
            return
        cause: BaseException = error
        why = "a fresh instance would read the whole source again"
        if isinstance(error, GeneratorBroken):
            cause, why = error.__cause__ or error, "a generator that raised cannot resume"
        self.reporter.report(cause, next_step=f"the run drains and ends: {why}")
        ended = ComponentError(self.info.component_id, self.info.task_id, cause, message=error.message, hint=error.hint)
        self.run_context.generator_errors.append(ended)
        if self.marks is not None:
            self.marks.forbid_end()
        self._note_exhausted()

    async def _handle_error(self, error: BaseException) -> None:
        """Handle an error of a call. Keep or replace the instance, as `on_error` says."""
        if self.error_mode(error) != "fail":
            await self._replace(error)
            return
        self.reporter.report(error, next_step="the spout continues")
        if self.streak.note_failure(self.run_context.clock.now(), self.core.emitted + self.core.handed_out):
            await self._replace_after_streak(error)
        else:  # a wake does not end this pause: a spout that raises and wakes itself would spin
            await asyncio.sleep(BACKOFF.pause_secs(self.streak.length))

    async def _let_calls_return(self) -> None:
        """Return at once, because a spout has no running call between two turns."""

    async def _wait_to_restart(self, secs: float, failure: Failure) -> None:
        """Wait before the next instance begins. A switch in the meantime decides whether the next instance begins active."""
        now = self.run_context.clock.now
        until = now() + secs
        while (left := until - now()) > 0 and self._is_serving:
            while self._switches:
                self.active, done = self._switches.pop(0)
                if not done.done():
                    done.set_result(None)
            await self.wakeup.wait(left)

    @property
    def running_secs(self) -> float:
        """Time since the begin of the async method that runs. The core counts this time when the method ends."""
        return self.run_context.clock.now() - self._call_began if self._in_call else 0.0

    @property
    def loop_secs(self) -> float:
        """Time that the component held the loop, without its lifecycle methods."""
        return super().loop_secs + self._timed.total_secs

    @property
    def is_in_call(self) -> bool:
        """True while an async method runs."""
        return self._in_call

    @property
    def is_empty(self) -> bool:
        """True while no tree is open, no verdict waits, and no method runs."""
        core = self.core
        if not self.is_idle or core.pending or len(self.verdicts) or core.has_acks_to_flush or self._in_call or self.orders:
            return False
        return not self.is_busy

    @property
    def is_busy(self) -> bool:
        """True while more output follows without a poll, even if no tree is open."""
        return self._is_finishing or bool(self._rows) or (isinstance(self.component, SpoutPortUser) and self.component.is_busy)

    @property
    def is_done(self) -> bool:
        """True when the source is exhausted, every tree has its verdict, and no row waits to be retried (RUN-2)."""
        has_ended = self.marks is None or self.marks.has_ended
        return self.exhausted and self.is_empty and self.inlet_is_quiet and not self.rows_to_retry and has_ended

    @property
    def rows_to_retry(self) -> int:
        """Number of failed rows that wait until they are emitted again (EO-6)."""
        return 0 if self.source is None else self.source.waiting

    @property
    def inlet_is_quiet(self) -> bool:
        """True unless senders wait at the inlet of this spout."""
        return self.inlet is None or self.inlet.waiting == 0

    @property
    def waits_for_commit(self) -> bool:
        """True while nothing goes on before the next commit: acks wait for it and stop the spout or its senders, or there is no input."""
        core, status = self.core, self.status
        if status in ("full", "waited_for"):
            return core.held > 0 or core.at_limit
        return status in ("exhausted", "drained") or (status == "inactive" and core.held == core.pending)

    @property
    def status(self) -> SpoutStatus:
        """Current activity of the task."""
        core = self.core
        if not self.active:
            return "inactive" if core.pending else "drained"
        if self.exhausted:
            return "exhausted"
        if core.backpressure.stopped_by or (core.max_pending and core.pending >= core.max_pending) or core.at_limit:
            return "full"
        if self.inlet is not None and self.inlet.waiting:
            return "waited_for"
        return "polling"


def _ack_of_row(ack: Callable[[Any], Awaitable[None] | None]) -> Callable[[SourceRow], Awaitable[None] | None]:
    """Return an `ack` for a source whose trees have rows as message ids. The spout gets its own ids."""
    return lambda row: None if row[2] is None else ack(row[2])


def _acks_of_rows(ack_many: Callable[[list[Any]], Awaitable[None] | None]) -> Callable[[list[SourceRow]], Awaitable[None] | None]:
    """Return the same for lists of acks."""

    def acks(rows: list[SourceRow]) -> Awaitable[None] | None:
        ids = [row[2] for row in rows if row[2] is not None]
        return ack_many(ids) if ids else None

    return acks


async def _awaited(returned: Awaitable[None]) -> None:
    await returned
