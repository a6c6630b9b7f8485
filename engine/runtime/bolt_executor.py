"""Executor of a bolt: runs calls in bursts, or one by one if they take time."""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterable, Callable, Iterator
from typing import Any, Final

from engine.api import BasicBolt, FailTuple, Reply
from engine.backoff import Backoff
from engine.cancellation import CALL_ERRORS, was_cancelled
from engine.errors import FAILED, FORGOTTEN, TIMEOUT, Failure, FatalError
from engine.event_time import NO_WATERMARK, Mark, TaskWatermark
from engine.event_time.holder import TaskView
from engine.kernel import (
    BoltCollector,
    BoltCore,
    BoltOutcome,
    Burst,
    EdgeIds,
    Mailbox,
    SignalRing,
    Tuple,
    emit_mark,
    failed_calls,
    keep_mark,
    note_failed_call,
    put_back_marks,
    requeue_marks,
    take_due_marks,
)
from engine.names import FAILED_STREAM, MARK_STREAM
from engine.runtime.basic_collector import ExecutorBasicCollector
from engine.runtime.bolt_calls import BoltCalls
from engine.runtime.diversion import Diversion
from engine.runtime.error_report import failure_text
from engine.runtime.executor import Executor
from engine.runtime.held_calls import HoldingCollector
from engine.runtime.orders import Order, Orders, Work
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.runtime.settle_warnings import SettleWarnings
from engine.runtime.task_ports import ExecutorBoltPort
from engine.runtime.usage_errors import UsageErrors
from engine.topology import ComponentSpec
from engine.topology.marks import timed_spouts_behind
from engine.topology.task_port import BoltPortUser, ControlHandler

PAUSED_PERIOD_SECS: Final = 0.05
"""Minimum time between two turns of a task without an instance. Otherwise a spout that replays at once would keep the loop busy."""
RETRY_PAUSES: Final = Backoff(0.1, 10.0)
"""Pauses before a call that raised runs again (SV-13)."""


class BoltExecutor(Executor):
    """The actor of one bolt task."""

    core: BoltCore

    def __init__(self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, ackers: list[SignalRing]) -> None:
        super().__init__(info, spec, run_context)
        config = run_context.config
        self.core = BoltCore(
            info.task_id,
            mailbox=Mailbox(config.executor_receive_buffer_size, self.wakeup.set),
            ids=EdgeIds(run_context.random.uint64("edges", info.task_id)),
            ackers=ackers,
            now=run_context.clock.now,
            misuse=UsageErrors(spec),
            backlog=run_context.backlog,
            slow_call_secs=config.slow_call_warn_ms / 1000,
            failed_reason=Failure(FAILED, info.component_id, info.task_id),
            forgotten_reason=Failure(FORGOTTEN, info.component_id, info.task_id),
            fails_forgotten=config.forgotten_ack == "fail",
            on_forgotten=self._note_forgotten,
        )
        self.core.backpressure.set_on_resume(self.note_resumed)
        self.port = ExecutorBoltPort(self)
        self.calls = BoltCalls(self.core, spec, run_context, self.reporter, wake=self.wakeup.set, on_slow_step=self.slow_calls.warn_of_step)
        self.settle_warnings = SettleWarnings(self.core, info.component_id, self.reporter, fails_forgotten=config.forgotten_ack == "fail")
        self.diversion = Diversion(self.core, info, spec, self.reporter)
        self.calls.fail_input = self.fail_input
        self.retries = self.given_up = 0
        """Calls that raised and were made again, and rows that the target of the committer has refused."""
        self.committed_acks = 0
        """Inputs that the task had acked at the last commit of its state."""
        self.lost_inputs: list[Tuple] = []
        """Inputs that a fault has lost. Nobody will settle them, so a checkpoint waits for them until their rows have timed out (EO-3)."""
        self._died_before = self._waits_for_calls = False
        self._burst_error: tuple[BaseException, int] | None = None
        """Error of a burst whose tuples run again one by one, and their number. None after one of them has raised."""
        self._handle_control: Callable[[Tuple], Any] | None = None
        self._open_controls: list[Tuple] = []
        """Control tuples that the instance has not settled. If the instance dies, these tuples fail."""
        self._handler: ControlHandler | None = None
        self.orders = Orders(run_context.loop, self.wake)
        self.watermark = _watermark(spec, run_context)
        """The watermark of the task. Nothing moves it if no source in front of the bolt has event times."""
        self._pass_watermark: Callable[[int], Iterator[None]] | None = None
        """The method of an instance that acts on watermarks, such as a bolt with windows."""
        self._told = NO_WATERMARK
        """The last watermark that the instance has acted on."""
        self._marks_in_pause: list[Tuple] = []
        self._passed_on = self.watermark.mark
        """The last mark that has been sent to the tasks behind."""

    # The instance

    async def _make_instance(self) -> None:
        bolt: Any = self.spec.factory.create()
        self._background = self._new_background()
        collector = bolt.collector = self._collector = self._new_collector()
        bolt.context = self._new_context(self._background)
        is_basic = isinstance(bolt, BasicBolt)
        if is_basic:
            bolt.collector = ExecutorBasicCollector(collector, self.core, self.info.component_id, self._report_on_loop)
        if isinstance(bolt, Reply):
            bolt.calls = self.run_context.calls
            bolt.calls.has_reply = True
        await self._connect_port(bolt)
        self.component = bolt
        self._pass_watermark = getattr(bolt, "pass_watermark", None)
        self._told = NO_WATERMARK
        holding = collector if isinstance(collector, HoldingCollector) else None
        self.calls.use_instance(bolt, holding)
        self._burst_error = None
        execute = bolt.execute_many if self.calls.takes_bursts else bolt.execute
        if holding is not None:
            execute = holding.holding(execute, basic=is_basic)
        if self.calls.takes_bursts:
            self.core.bind(execute, basic=False, burst_rows=bolt.burst_rows, settler=collector)
        else:
            self.core.bind(execute, basic=is_basic)
        await self.call_hook(bolt.prepare)

    def _new_collector(self) -> BoltCollector | HoldingCollector:
        direct = BoltCollector(self.core, ready=self.ready, report_error=self._report_on_loop)
        if not self.spec.settings.holds_calls:
            return direct
        return HoldingCollector(direct, self.core, Failure(FAILED, self.info.component_id, self.info.task_id), self.fail_input)

    async def _connect_port(self, bolt: Any) -> None:
        """Give the port to the handler of control tuples, which is the topology's control handler or the bolt itself."""
        self._handle_control = self._handler = None
        self.orders.cancel()  # they are for the handler of an earlier instance
        if self.spec.control_handler is not None:
            handler = self.spec.control_handler(bolt, bolt.context, self.port, self.run_context.task_ids)
            await handler.begin(restarted=self._died_before and self._rollback is None)
            self._handle_control, self._handler = handler.on_control, handler
        elif isinstance(bolt, BoltPortUser):
            bolt.port = self.port
            if self._died_before:
                bolt.on_restart()
            self._handle_control = bolt.on_control

    async def _stop_calls(self) -> None:
        self._report_cancelled_work(*await self.calls.cancel_all())

    def _close_method(self, component: Any) -> Callable[[], Any]:
        return component.cleanup  # type: ignore[no-any-return]

    async def close(self) -> None:
        """End the coroutine, close the instance, and drop the waiting tuples."""
        await super().close()
        # Values may refer to the run. The garbage collector does not look into a mailbox, so such a cycle would never be freed.
        self.core.forget_current()
        self.core.requeue_singly()
        self.core.held_tuples.clear()
        self._burst_error = None
        while self.core.mailbox.take() is not None:
            pass

    def _progress_count(self) -> int:
        """Count the acks of a stateful bolt only at a commit. So a task that always dies before one makes no progress."""
        return self.committed_acks if self.spec.keeps_state else super()._progress_count()

    async def _renew(self, failure: Failure) -> None:
        requeue_marks(self.core)
        self.calls.requeue_waiting()
        self.core.requeue_singly()  # the renewal is not their fault, so the next instance takes them (SV-1)
        await super()._renew(failure)

    def _fail_instance(self, failure: Failure) -> None:
        self._died_before = True
        self.orders.cancel()
        self.core.leave_burst()
        if self._rollback is not None:  # the spouts fail all trees, when every task has stopped
            self.core.drop_taken(failure)
            return
        requeue_marks(self.core)
        self.calls.requeue_waiting()
        self.core.fail_taken(failure)
        self._fail_open_controls(failure)

    def _fail_open_controls(self, failure: Failure) -> None:
        for tup in self._open_controls:
            self.core.settle_control(tup, failure)
        self._open_controls.clear()

    # Rollback

    def drop_inputs(self, failure: Failure) -> None:
        """Drop all inputs, because their trees fail at the spouts (EO-5)."""
        self.core.drop_inputs(failure)
        self.watermark.go_back()
        self._passed_on, self._told = self.watermark.mark, NO_WATERMARK
        self.lost_inputs.clear()
        self._open_controls.clear()
        self._burst_error = None

    async def _begin_after_rollback(self) -> None:
        if not self._is_open or self._replace_for is not None or self._handler is None or not self._handler.survives_rollback:
            await super()._begin_after_rollback()
            return
        assert self._rollback is not None
        self.streak.length = 0
        self.core.drop_taken(self._rollback.failure)
        try:
            has_forgotten = await self._forget_rows(self._handler)
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            await self._replace(error)
            return
        if not has_forgotten:
            await super()._begin_after_rollback()
            return
        await self._rollback.stopped(self)
        self.orders.cancel()  # they were for the time before, those of background work that has gone on meanwhile, too
        self._handler.go_back()
        self.calls.use_instance(self.component, self._collector if isinstance(self._collector, HoldingCollector) else None)
        self._note_ready()

    async def _forget_rows(self, handler: ControlHandler) -> bool:
        """Cancel the running calls, and let the instance forget its rows. Raises the errors of its hook.

        Return False if a call has not ended. It may still emit, and only the collector of an instance that has ended refuses that.
        """
        self._goes_back = True
        try:
            errors, still_running = await self.calls.cancel_all()
            self._report_cancelled_work(errors, still_running)
            if not still_running:
                await handler.forget_rows()
            return not still_running
        finally:
            self._goes_back = False

    # Turns

    async def _carry_out(self, order: Order) -> None:
        """Carry out an order when all running calls have returned. An error of it kills the instance."""
        instance = self.component
        try:
            await self.calls.wait_until_returned()
            while (failed := self.calls.take_failure()) is not None:
                await self._handle_call_error(*failed)
            if self.component is not instance:  # one of these calls has ended it, and the order was for it
                order.done.cancel()
                return
            await self._other_steps(_call_work(order.work))
        except BaseException as error:
            order.done.cancel()
            if was_cancelled(error) or not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
            await self._replace(error)
        else:
            if not order.done.done():
                order.done.set_result(None)

    async def _serve(self) -> None:
        variables, has_marks = self.variables, bool(self.watermark.marks)
        while self._is_serving and self.variables is variables:
            if self.orders:
                await self._carry_out(self.orders.take())
            elif has_marks and self.core.marks and (due := await self._take_due_marks()):
                for mark in due:
                    self._note_mark(mark)
            elif has_marks and self._owes_mark and not self.core.is_gated:
                await self._pass_mark_on(self.watermark.mark)
            elif self.calls.one_by_one:
                await self._turn_by_calls()
            else:
                await self._turn_by_burst()

    async def _turn_by_burst(self) -> None:
        """Run one burst of plain calls, and handle its outcome."""
        core = self.core
        if self.calls.has_no_room:
            await self.wakeup.wait()
            return
        try:
            outcome = core.run_burst(self.run_context.config.burst)
        except CALL_ERRORS as error:  # no await, so a cancellation is the component's own
            given = core.burst or core.current
            core.forget_current()
            await self._handle_burst_error(error, given)
            outcome = None
        if outcome is None:
            await self.calls.yield_in_time()  # else a mailbox of bad inputs would hold the loop (BP-4)
            return
        if self._burst_error is not None and not core.retrying and outcome != BoltOutcome.RETURNED:  # else the last one may still raise
            self._report_unrepeated(*self._burst_error)
        if core.slowest_call:
            self.slow_calls.check_core(core)
        if core.forgotten_tuples or core.settled_twice:
            self.settle_warnings.check()
        if outcome == BoltOutcome.MORE:
            await asyncio.sleep(0)
        elif outcome == BoltOutcome.EMPTY:
            await self._park()
        elif outcome == BoltOutcome.STOPPED:
            await self.wakeup.wait()
        elif outcome == BoltOutcome.CONTROL:
            tup = core.current
            core.forget_current()
            await self._take_control(tup)
        else:
            given, returned = core.burst or core.current, core.returned
            core.forget_current()
            if given is not None:
                raised = await self.calls.await_call(given, returned)
                if raised is not None:
                    has_awaited = inspect.isawaitable(returned) or isinstance(returned, AsyncIterable)
                    await self._handle_burst_error(raised, given, awaited=has_awaited)
                await self.calls.yield_in_time()

    async def _turn_by_calls(self) -> None:
        """Begin one call that takes time, if there is room for it."""
        core, calls = self.core, self.calls
        if core.forgotten_tuples or core.settled_twice:
            self.settle_warnings.check()
        failed = calls.take_failure()
        if failed is not None:
            await self._handle_call_error(*failed)
            return
        if core.backpressure.stopped_by or calls.has_no_room:
            await self.wakeup.wait()
            return
        tup = core.take_next()
        if tup is None:
            await self._park()
        elif tup.is_control:
            await self._take_control(tup)
        else:
            raised = await calls.begin_call(tup)
            if raised is not None:
                await self._handle_call_error(raised, tup)
            await calls.yield_in_time()

    async def _park(self) -> None:
        self.core.leave_burst()
        if self.core.mailbox.park():
            await self.wakeup.wait()
            self.core.mailbox.unpark()

    async def _take_control(self, tup: Tuple | None) -> None:
        if tup is None or not tup.is_mark:
            await self._serve_control(tup)
        elif self._has_earlier_inputs:
            keep_mark(self.core, tup)
        else:
            self._note_mark(tup)

    @property
    def _has_earlier_inputs(self) -> bool:
        """True while the task may still emit something for an input that it has taken."""
        return bool(self.core.oldest_taken(1))

    async def _take_due_marks(self) -> list[Tuple]:
        """Return the marks whose earlier inputs are all settled."""
        return take_due_marks(self.core)

    def _note_mark(self, tup: Tuple) -> None:
        """Note a mark, behind everything that the task emits for earlier inputs (ET-1)."""
        self.watermark.note(tup.source_task, Mark(*tup.values))

    @property
    def _owes_mark(self) -> bool:
        """True if the watermark of the task has changed, or the instance is new and does not know it."""
        mark = self.watermark.mark
        return mark != self._passed_on or (self._told < mark.watermark and self._pass_watermark is not None)

    @property
    def sent_mark(self) -> Mark:
        """The last mark that has been sent to the tasks behind."""
        return self._passed_on

    def mark_view(self, name: str, age_secs: float | None) -> TaskView:
        """Return what is known of the watermark of the task. age_secs: of its oldest input that is not settled."""
        core = self.core
        if core.is_gated:
            why = "a checkpoint or a recovery holds its inputs"
        elif age_secs is not None:
            why = f"it has not settled an input that it took {age_secs:.0f} s ago"
        elif self._owes_mark:
            why = "it acts on the watermark, and has not passed it on"
        else:
            why = f"the watermark is on its way, behind {len(core.mailbox):,} inputs in its mailbox"
        return TaskView(name, self._passed_on, why, dict(self.watermark.marks), self._owes_mark)

    async def _pass_mark_on(self, mark: Mark) -> None:
        """Let the instance act on the watermark of the task, and send it to the tasks behind, after what the instance emits."""
        if self._pass_watermark is not None and self._told < mark.watermark:
            try:
                await self._other_steps(self._pass_in_slices(self._pass_watermark, mark.watermark))
            except (Exception, asyncio.CancelledError) as error:
                if was_cancelled(error):
                    raise
                await self._replace(error)
                return
        self._told = mark.watermark
        if mark != self._passed_on:
            self._passed_on = mark
            emit_mark(self.core, MARK_STREAM, (*mark,))

    async def _pass_in_slices(self, pass_watermark: Callable[[int], Iterator[None]], watermark: int) -> None:
        """Let the instance act on a watermark. Between two slices of its work the loop runs, and full mailboxes drain."""
        for _ in pass_watermark(watermark):
            while self.core.backpressure.stopped_by and self._is_serving:
                await self.wakeup.wait()
            await asyncio.sleep(0)

    async def _serve_control(self, tup: Tuple | None) -> None:
        """Pass a control tuple to its handler, after all earlier inputs have returned."""
        if tup is None:
            return
        try:
            self.calls.control = tup
            await self._let_retries_return()
        except BaseException as error:
            self.core.settle_control(tup, self._death_failure(error))
            raise
        finally:
            self.calls.control = None
        handle = self._handle_control
        if handle is None:
            self.core.settle_control(tup)
            return
        self._open_controls = [each for each in self._open_controls if not each.is_settled]
        self._open_controls.append(tup)
        try:
            await self._other_steps(_call_handler(handle, tup))
        except (Exception, asyncio.CancelledError) as error:
            if was_cancelled(error):
                raise
            self.core.settle_control(tup, self.failure_of(error))
            await self._replace(error)

    # Errors

    async def _handle_burst_error(self, error: BaseException, given: Tuple | Burst | None, *, awaited: bool = False) -> None:
        """Handle the error of a call. If it had several tuples, run them again one by one, so that only the guilty ones fail (BU-1)."""
        if not isinstance(given, Burst):
            await self._handle_call_error(error, given)
        elif len(given) == 1:
            self._burst_error = None
            await self._handle_call_error(error, given[0])
        elif self._runs_singly(error):
            again = self.core.retry_singly(given, self.failure_of(error), awaited=awaited)
            if isinstance(error, FailTuple) and not error.report:
                return  # it says nothing to a person, as for a single input
            if again:
                self._burst_error = error, again
            else:
                self.reporter.report(error, next_step="the bolt had settled all inputs of the call, and continues")
        else:
            await self._handle_call_error(error, None)

    def _runs_singly(self, error: BaseException) -> bool:
        """Tell whether the tuples of a burst that raised run again one by one. With retries they do so whatever `on_error` says."""
        has_retries = self.spec.settings.retries > 0 and not isinstance(error, FatalError)
        return has_retries or isinstance(error, FailTuple) or self.error_mode(error) == "fail"

    def _report_unrepeated(self, error: BaseException, again: int) -> None:
        """Report the error of a burst, because none of its tuples has raised alone."""
        self._burst_error = None
        self.reporter.report(error, next_step=f"its {again} inputs have run again one by one, and none of them raised")

    async def _handle_call_error(self, error: BaseException, tup: Tuple | None) -> None:
        """Try the call that raised again, or fail its input. Keep or replace the instance, as `on_error` says."""
        if tup is not None and self._may_try_again(error, tup):
            await self._try_again(error, tup)
        elif isinstance(error, FailTuple):
            if error.report:
                self.reporter.report(error, tup=tup, next_step="the input fails")
            self._fail_call(tup, Failure(FAILED, self.info.component_id, self.info.task_id, failure_text(error)))
        elif self.error_mode(error) == "fail":
            if self._fail_and_count(error, tup) and not self._waits_for_calls:
                await self._let_calls_return()
                await self._replace_after_streak(error)
        else:
            is_diverting = self.spec.settings.diverts  # by a FatalError, whose input has not failed for good
            self._fail_call(tup, self._death_failure(error) if is_diverting else self.failure_of(error))
            await self._replace(error, tup)

    def _may_try_again(self, error: BaseException, tup: Tuple) -> bool:
        """Tell whether a call has a retry left. A FailTuple is a decision of the bolt, and a FatalError ends the run (SV-13)."""
        most = self.spec.settings.retries
        if most == 0 or tup.is_tick or tup.is_settled or isinstance(error, (FailTuple, FatalError)):
            return False
        return failed_calls(tup) < most

    async def _try_again(self, error: BaseException, tup: Tuple) -> None:
        """Let a call that raised run again after a pause. Calls that run one at a time wait with it, others go on."""
        core = self.core
        core.undo_call(self.failure_of(error))
        pause_secs = RETRY_PAUSES.pause_secs(note_failed_call(tup))
        self.retries += 1
        most = self.spec.settings.retries
        self.reporter.report(error, tup=tup, next_step=f"the call runs again, at most {most:,} time{'s' * (most > 1)}")
        runs_at_once = self.calls.try_again(tup, pause_secs)
        if self.streak.note_failure(self.run_context.clock.now(), self.processed) and not self._waits_for_calls:
            await self._let_calls_return()
            await self._replace_after_streak(error)
        elif not runs_at_once:
            core.leave_burst()
            due = self.run_context.clock.now() + pause_secs
            while self._is_serving and (left := due - self.run_context.clock.now()) > 0:
                await self.wakeup.wait(left)

    async def _let_retries_return(self) -> None:
        """Wait until all calls have returned, and those that run again too, and handle their errors."""
        await self.calls.wait_until_returned()
        while (failed := self.calls.take_failure()) is not None:
            await self._handle_call_error(*failed)
            await self.calls.wait_until_returned()

    def _fail_and_count(self, error: BaseException, tup: Tuple | None) -> bool:
        """Fail the input of an error, and report it. Return True if the instance is to be renewed (SV-1)."""
        failed, diverted = self.core.failed, self.diversion.diverted
        failure = self.failure_of(error)
        self._fail_call(tup, failure)
        fate = "only this input fails" if self.core.failed > failed else "no input fails"  # a tick, or an input that the call had settled
        if self.diversion.diverted > diverted:
            fate = f"the input leaves on stream {FAILED_STREAM!r}"
        self.reporter.report(error, tup=tup, next_step=f"{fate}; the bolt continues", text=failure.error)
        return self.streak.note_failure(self.run_context.clock.now(), self.processed)

    @property
    def processed(self) -> int:
        """Number of inputs that the bolt itself has processed. The diverted ones are acked too."""
        return self.core.acked - self.diversion.diverted

    async def _let_calls_return(self) -> None:
        """Wait for the running calls, at most `message_timeout_secs`, and handle their errors.

        The renewal cancels the calls that have not returned by then.
        """
        self._waits_for_calls = True
        try:
            with contextlib.suppress(TimeoutError):
                self.calls.requeue_waiting()
                async with asyncio.timeout(self.run_context.config.message_timeout_secs):
                    await self.calls.wait_until_returned()
            while (failed := self.calls.take_failure()) is not None:
                await self._handle_call_error(*failed)
        finally:
            self._waits_for_calls = False

    def _fail_call(self, tup: Tuple | None, failure: Failure) -> None:
        """Fail the input of a call, and undo its changes to the state of the task (SV-2)."""
        self.core.undo_call(failure)
        if tup is not None and not tup.is_tick and not tup.is_settled:
            self.fail_input(tup, failure)

    def fail_input(self, tup: Tuple, failure: Failure) -> None:
        """Fail an input of the task, or divert it (SV-14)."""
        if not self.diversion.divert(tup, failure):
            self.core.fail(tup, failure)

    async def _wait_to_restart(self, secs: float, failure: Failure) -> None:
        """Wait until the next instance may begin. All inputs that come meanwhile fail with this failure (SV-3)."""
        try:
            await self._fail_inputs_until(self.run_context.clock.now() + secs, failure)
        finally:
            put_back_marks(self.core, self._marks_in_pause)  # the next instance acts on them
            self._marks_in_pause.clear()
        # The next instance does not know these barriers. So the checkpoint round fails, and the recovery starts again.
        self._fail_open_controls(failure)

    async def _fail_inputs_until(self, until: float, failure: Failure) -> None:
        """Fail the inputs that come until this time, and keep the marks among them."""
        core, now = self.core, self.run_context.clock.now
        while (left := until - now()) > 0 and self._is_serving:
            core.release_all()
            for _ in range(self.run_context.config.burst):
                tup = core.take_next()
                if tup is None:
                    break
                if tup.is_mark:
                    self._marks_in_pause.append(tup)
                elif tup.is_control:
                    await self._serve_control_in_pause(tup, failure)
                elif not tup.is_tick:
                    core.fail(tup, failure)
            else:
                await asyncio.sleep(0)
                continue
            if core.mailbox.park():
                await self.wakeup.wait(left)
                core.mailbox.unpark()
                await asyncio.sleep(min(left, PAUSED_PERIOD_SECS))

    async def _serve_control_in_pause(self, tup: Tuple, failure: Failure) -> None:
        """Handle a control tuple while the task has no instance. If its handler needs an instance, the tuple fails."""
        handle = self._handle_control  # the handler of a bolt without state only forwards barriers, so it needs no instance
        if self.spec.control_handler is None or self.spec.keeps_state or handle is None:
            self.core.settle_control(tup, failure)
            return
        self._open_controls.append(tup)
        handled = handle(tup)
        if handled is not None:
            await handled

    def fail_overdue(self) -> None:
        """Fail the inputs of no tree that the instance has had for longer than T, because no acker has a timeout for them (EO-3)."""
        config, core, now = self.run_context.config, self.core, self.run_context.clock.now()
        if not config.enable_message_timeouts:
            return
        secs = config.message_timeout_secs
        failure = Failure(TIMEOUT, self.info.component_id, self.info.task_id, f"the bolt has neither acked nor failed it for {secs:g} s")
        core.fail_overdue(failure, secs, list(self.calls.waiting()))
        for tup in [each for each in self.lost_inputs if not each.roots and core.taken_age_ms(each, now) >= secs * 1000]:
            self.lost_inputs.remove(tup)
            if core.on_rootless_failure is not None:
                core.on_rootless_failure(tup, failure)

    def _report_on_loop(self, error: BaseException) -> None:
        """Report an error for `collector.report_error`. Threads of the pool may call this too."""
        if self.calls.is_in_thread():
            self.run_context.loop.call_soon_threadsafe(self.report_from_component, error)
        else:
            self.report_from_component(error)

    def _note_forgotten(self) -> None:
        """Settle a forgotten tuple on the loop's thread, because its deallocation may happen on any thread."""
        run_context = getattr(self, "run_context", None)  # the garbage collector may have cleared a run that was never closed
        if run_context is not None and not run_context.loop.is_closed():
            with contextlib.suppress(RuntimeError):  # another thread has closed the loop meanwhile
                run_context.loop.call_soon_threadsafe(self._flush_forgotten)

    def _flush_forgotten(self) -> None:
        self.core.flush_forgotten()
        if self.core.marks:
            self.wake()
        self.settle_warnings.check()

    @property
    def loop_secs(self) -> float:
        """Time that the component held the loop, without its lifecycle methods."""
        return super().loop_secs + self.calls.step_secs

    @property
    def failures(self) -> dict[str, int]:
        """Number of failed inputs by reason."""
        core = self.core
        fails = self.run_context.config.forgotten_ack == "fail"
        forgotten = {FORGOTTEN: core.forgotten_tuples} if core.forgotten_tuples and fails else {}
        return {**core.failures, **forgotten}

    @property
    def has_settled_all(self) -> bool:
        """True while the instance serves, and has no open input. Tuples that are held behind a barrier do not count."""
        core, calls = self.core, self.calls
        if not self._is_serving or self._is_retiring or self._is_pausing or not self.is_idle:
            return False
        return not (len(core.mailbox) or core.retrying or calls.in_flight or core.oldest_taken(1))

    @property
    def is_empty(self) -> bool:
        """True while no tuple is in the mailbox, held back, or in a call."""
        core = self.core
        waiting = len(core.mailbox) + core.retrying + len(core.held_tuples)
        has_marks = core.marks or self._marks_in_pause or self._owes_mark
        return self.is_idle and not waiting and not has_marks and self.calls.in_flight == 0


def _watermark(spec: ComponentSpec, run_context: RunContext) -> TaskWatermark:
    """Return the watermark of a task, which knows the sources behind each bolt that sends to it."""
    senders = [each.source for each in spec.subscriptions if each.stream == MARK_STREAM]
    sources: dict[int, frozenset[int]] = {}
    for sender in senders:
        if run_context.topology.components[sender].kind == "bolt":
            spouts = timed_spouts_behind(run_context.topology, sender)
            behind = frozenset(task for spout in spouts for task in run_context.task_ids[spout])
            sources |= dict.fromkeys(run_context.task_ids[sender], behind)
    return TaskWatermark((task for sender in senders for task in run_context.task_ids[sender]), sources)


async def _call_work(work: Work) -> None:
    await work()


async def _call_handler(handle: Callable[[Tuple], Any], tup: Tuple) -> None:
    handled = handle(tup)
    if handled is not None:
        await handled
