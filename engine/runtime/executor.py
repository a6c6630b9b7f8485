"""Base class of the executors of spouts and bolts. Runs one instance at a time, and replaces an instance that dies."""

import asyncio
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

from engine.cancellation import (
    CLOSE_TIMEOUT_SECS,
    OWN_CANCELLATION,
    absorb_last_cancel_request,
    aio_task_error,
    await_or_cancel,
    cancel_and_wait,
    cancel_requests,
    take_back_cancel_requests,
    was_cancelled,
)
from engine.clock import Clock
from engine.coroutine_steps import in_context, instance_context
from engine.errors import ERROR, TASK_DIED, ComponentError, Failure, FatalError, UsageError
from engine.kernel import StepTimer, TaskCore, Tuple
from engine.raised import PROGRAMS_END_HINT, add_note, raised_text, without_exits
from engine.runtime.actor import CLOSER, Actor
from engine.runtime.error_report import ErrorReporter, error_text
from engine.runtime.plan import TaskInfo
from engine.runtime.restart_policy import FailureStreak, RestartPolicy
from engine.runtime.rollback import Rollback
from engine.runtime.run_context import RunContext
from engine.runtime.task_context import BackgroundTasks, ExecutorContext
from engine.safe_text import safe_repr
from engine.topology import ComponentSpec
from engine.topology.task_port import BoltPortUser, SpoutPortUser
from engine.waiters import Waiters

SLOW_CALL_WARNING_PERIOD_SECS: Final = 60.0

ErrorMode: TypeAlias = Literal["fail", "replace", "restart", "stop"]
"""Values of `on_error`, and "replace", which is like "fail", but replaces the instance at each error.

"replace" is for components that cannot continue after an error.
"""


class RetirableCollector(Protocol):
    """The collector of an instance."""

    def retire(self) -> None:
        """Raise at every later use, because the instance is gone."""


class TaskKilled(Exception):
    """An instance was killed from outside, by a test or by background work that raised."""


class RestartRequested(Exception):
    """An operator asked for a fresh instance. The old one has not died, so nothing counts as a death (SV-9)."""


class RolledBack(Exception):
    """The run goes back to its last commit, and this instance with it. The instance has not died (EO-5)."""


class TooManyFailures(Exception):
    """Many calls of an instance failed in a row, so it is renewed (SV-1)."""


class SlowCallWarnings:
    """Warns of calls that hold the event loop longer than `slow_call_warn_ms`, at most once a minute."""

    def __init__(self, component: str, reporter: ErrorReporter, clock: Clock) -> None:
        """component: kind and id, for the text."""
        self._component = component
        self._reporter = reporter
        self._clock = clock
        self._next_warning = 0.0

    def check_core(self, core: TaskCore) -> None:
        """Warn of the slowest call since the last check, if it was too slow."""
        secs = core.take_slow_call()
        if secs:
            self.warn_of_step(secs)

    def warn_of_step(self, secs: float) -> None:
        """Warn of a call, or of one step of a coroutine, that held the loop too long."""
        if self.is_due():
            self._reporter.warn(
                f"one call of {self._component} held the event loop for {secs * 1000:.0f} ms: nothing else ran "
                "meanwhile. Await slow operations, give a BasicBolt threads=n for blocking code, or do less in one call."
            )

    def is_due(self) -> bool:
        """Return True at most once a minute. The caller warns then."""
        now = self._clock.now()
        if now < self._next_warning:
            return False
        self._next_warning = now + SLOW_CALL_WARNING_PERIOD_SECS
        return True


class Executor(Actor):
    """The actor of one task of a spout or bolt.

    `begin` makes the first instance, `start` starts the coroutine, `close` ends both. In between, `_serve` runs bursts. A call that
    raises fails its own input. `on_error` decides whether the instance continues or is replaced (ACK-12, SV-1).
    """

    core: TaskCore
    paces_restarts: ClassVar[bool] = False
    """True if a restart is expensive for the source. Then on_error="restart" also pauses between two instances."""

    def __init__(self, info: TaskInfo, spec: ComponentSpec, run_context: RunContext) -> None:
        super().__init__(info, run_context)
        config = run_context.config
        self.spec = spec
        self.policy = RestartPolicy(config.max_task_restarts, config.restart_window_secs)
        self.streak = FailureStreak(config.renew_after_failures)
        self.slow_calls = SlowCallWarnings(f"{spec.kind} {info.component_id!r}", self.reporter, run_context.clock)
        self.has_been_ready = False
        """True once the first instance is ready. Later failures do not end the run, unless `on_error` says so (SV-3)."""
        self.component: Any = None
        self._has_begun = False
        self._killed_by: BaseException | None = None
        """Error that kills the instance as soon as the coroutine runs."""
        self._replace_for: BaseException | None = None
        """Error of background work. When the running calls have returned, the instance is replaced because of this error."""
        self._is_open = self._is_retiring = self._is_pausing = False
        self._goes_back = False
        """True while the instance forgets its rows for a rollback."""
        self._skips_pause = False
        """True if an operator asked for a restart while the instance was being replaced."""
        self._background: BackgroundTasks | None = None
        self._other_steps = StepTimer(run_context.clock.now, math.inf, lambda secs: None)
        """Times the steps of background tasks, and the handlers of control tuples."""
        self._collector: RetirableCollector | None = None
        self._progress_at_death = 0
        self._run_variables: Context | None = None
        """Context variables of the caller of the first `begin`. Each instance begins with a copy of them."""
        self._ready_waiters = Waiters()
        self._rollback: Rollback | None = None
        """The rollback in progress, until this task serves again."""

    # Start and stop

    async def begin(self) -> None:
        """Create and prepare an instance, and retry after each failure. Raises the ComponentError that ends the run."""
        while not self.core.closing:
            if self._rollback is not None:
                await self._rollback.stopped(self)
            if self._run_variables is None:
                self._run_variables = copy_context()
            self.variables = instance_context(self._run_variables)
            try:
                await in_context(self.variables, self._make_instance())
                self._is_open = True
                error = self._take_kill()
            except (Exception, asyncio.CancelledError) as raised:
                if was_cancelled(raised):
                    raise
                error = raised
            except BaseException as raised:
                raise self._program_end_error(raised) from raised
            if error is None:
                self._note_ready()
                return
            await self._retire_instance(call_close=True)
            if isinstance(error, RolledBack):
                continue
            if isinstance(error, RestartRequested):
                self._skips_pause = False
                self.policy.note_restart()
                await asyncio.sleep(0)
                continue
            pause_secs = self._decide_after_death(error, counts=True)
            await self._pause_before_restart(pause_secs, self._death_failure(error))

    def start(self) -> None:
        """Start the coroutine, with the context variables of the instance (ACK-17)."""
        self.has_been_ready = self.has_been_ready or not self.spec.keeps_state  # else set when the gate opens
        self._has_begun = False
        super().start()

    async def close(self) -> None:
        """End the coroutine, then close the instance."""
        self.core.closing = True
        aio_task, self._aio_task = self._aio_task, None
        if aio_task is not None:
            if self._is_retiring:  # the dead instance needs time to close
                await asyncio.wait([aio_task], timeout=CLOSE_TIMEOUT_SECS)
            self._report_cancelled_work(*await cancel_and_wait([aio_task]))
        await self._retire_instance(call_close=True)
        self.reporter.close()

    def abandon(self) -> None:
        """Cancel the coroutine and the background work of the instance at once. The instance is not closed."""
        super().abandon()
        if self._background is not None:
            self._background.cancel()

    def kill(self, error: BaseException | None = None) -> None:
        """Make the instance die as if it had raised `error`. For background work and fault injection."""
        if self.core.closing:
            if error is not None:
                self.reporter.report(error, next_step="nothing: the task is closing")
            return
        before, self._killed_by = self._killed_by, error or TaskKilled(f"task {self.info.task_id} was killed")
        if isinstance(before, RolledBack):  # the rollback waits for this task
            before, self._killed_by = self._killed_by, before
        if isinstance(self._killed_by, RolledBack) and before is not None and not isinstance(before, RolledBack):
            self._note_error_in_rollback(before)
        if self._aio_task is not None and self._has_begun:
            # An asyncio task that is cancelled before its first step ends without running `_main`. `_main` itself checks for kills.
            self._aio_task.cancel()

    def _note_error_in_rollback(self, error: BaseException) -> None:
        """Keep an error that has killed the instance at the same time as a rollback, so that it is handled as a death."""
        if self._replace_for is None:
            self._replace_for = error
        elif self._replace_for is not error:
            self.reporter.report(error, next_step="the task is replaced by a fresh instance anyway")

    def restart(self) -> None:
        """Replace the instance by a fresh one, for an operator (SV-9). Has no effect on a task that is closing."""
        # A callback of the loop never runs inside the coroutine of the task. A component may restart its own task.
        self.run_context.loop.call_soon(self._restart_soon)

    def _restart_soon(self) -> None:
        if self.core.closing:
            return
        self._skips_pause = True
        if not self._is_retiring:  # else the instance is being replaced already
            # A second request cancels again, because a call may swallow the first cancellation.
            self.kill(self._killed_by or RestartRequested("restarted by request"))

    def roll_back(self, rollback: Rollback) -> None:
        """Cancel the running calls, and wait for the rollback with a fresh instance or, if it survives rollbacks, with this one (EO-5)."""
        if self.core.closing:
            rollback.note_gone(self)
            return
        self._rollback = rollback
        if not (self._is_retiring or self._is_pausing or self._goes_back):  # else it stops by itself, and a pause keeps its length (SV-3)
            self.kill(RolledBack("the run goes back to its last commit"))

    def _note_ready(self) -> None:
        rollback, self._rollback = self._rollback, None
        if rollback is not None:
            rollback.note_ready(self)

    async def _main(self) -> None:
        """Serve, and replace the instance when it dies. Any error that is left ends the run.

        The next instance has context variables of its own, which an asyncio task cannot change. So another one goes on with it.
        """
        self._has_begun = True
        variables = self.variables
        try:
            while not self.core.closing:
                if self.variables is not variables:
                    self.start()
                    return
                try:
                    error = self._take_kill()
                    if error is None and self._replace_for is not None:
                        await self._let_calls_return()
                        error = self._replace_for
                    if error is None:
                        await self._serve()
                        if self._killed_by is not None:
                            await asyncio.sleep(0)  # raises the cancellation of a kill in this task, which the close would get otherwise
                    else:
                        await self._replace(error)
                except asyncio.CancelledError as raised:
                    self._note_cancellation(raised)
        except ComponentError as error:
            self.run_context.end_run(error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.run_context.end_run(self._program_end_error(error))
        except Exception as error:  # noqa: BLE001 - raised again by the run
            self.run_context.end_run(self._engine_failure(error))

    def _note_end(self, aio_task: "asyncio.Task[None]") -> None:
        error = aio_task_error(aio_task)
        if error is not None and not isinstance(error, KeyboardInterrupt):  # asyncio raises KeyboardInterrupt out of the loop
            self.run_context.end_run(self._program_end_error(error))

    def _program_end_error(self, error: BaseException) -> ComponentError:
        """Return the ComponentError for a BaseException of user code. Raise KeyboardInterrupt again, because it may be a Ctrl-C."""
        if isinstance(error, KeyboardInterrupt):
            add_note(error, f"raised in {self.spec.kind} {self.info.component_id!r} (task {self.info.task_id})")
            raise error
        message = f"raised {raised_text(error)}, which is not an Exception"
        return ComponentError(self.info.component_id, self.info.task_id, error, message=message, hint=PROGRAMS_END_HINT)

    def _note_cancellation(self, raised: asyncio.CancelledError) -> None:
        """Raise a cancellation that ends the coroutine. Any other cancellation only kills the instance.

        Only `close`, `kill` and the end of the event loop cancel this asyncio task. Other cancellations come from the component.
        """
        if self.core.closing or (self._killed_by is None and self.run_context.is_abandoned()):
            raise raised
        if self._killed_by is None:
            self._killed_by = asyncio.CancelledError(OWN_CANCELLATION) if was_cancelled(raised) else raised

    def _take_kill(self) -> BaseException | None:
        """Return the error that killed the instance, or None. Undoes the cancellation by `kill`."""
        error, self._killed_by = self._killed_by, None
        if error is not None:
            take_back_cancel_requests()
        return error

    @property
    def _is_serving(self) -> bool:
        """True while the instance continues."""
        return not self.core.closing and self._killed_by is None and self._replace_for is None

    @property
    def is_ending(self) -> bool:
        """True while the instance is being closed."""
        return self.core.closing or self._is_retiring or self.run_context.is_abandoned()

    @abstractmethod
    async def _serve(self) -> None:
        """Run bursts while `_is_serving`, and handle the errors of the component."""

    @abstractmethod
    async def _make_instance(self) -> None:
        """Create a component, set its context and collector, bind it to the core, and call prepare or open."""

    @abstractmethod
    async def _stop_calls(self) -> None:
        """Cancel the running calls of the instance, and begin no more."""

    @abstractmethod
    def _close_method(self, component: Any) -> Callable[[], Any]:
        """Return the method that closes a component: `close` or `cleanup`."""

    @abstractmethod
    def _fail_instance(self, failure: Failure) -> None:
        """Fail or drop the open work of a dead instance."""

    @abstractmethod
    async def _let_calls_return(self) -> None:
        """Wait for the running calls of a working instance before it is replaced."""

    @abstractmethod
    async def _wait_to_restart(self, secs: float, failure: Failure) -> None:
        """Wait before the next instance begins. Meanwhile every input fails with this failure."""

    # Death
    #
    # Two ways lead to a replacement. An error of a call arrives through `_serve`, in the `_handle_call_error` of the subclass. A kill and
    # an error of background work interrupt the coroutine, and `_main` finds them by `_take_kill` and `_replace_for`. Both call `_replace`,
    # which asks `RestartPolicy`, ends the instance by the hooks of the subclass, and begins the next one.

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        """Report the death of the instance, fail its open inputs, and begin another one (ACK-12, ACK-15)."""
        if isinstance(error, RolledBack):
            await self._begin_after_rollback()
            return
        if isinstance(error, RestartRequested):
            await self._replace_by_request(error)
            return
        self._take_kill()
        self._replace_for = None
        progress = self._progress_count() - self._progress_at_death - (1 if tup is not None and not tup.is_tick else 0)
        pause_secs = 0.0
        try:
            pause_secs = self._decide_after_death(error, tup=tup, counts=progress <= 0)
        except ComponentError as end:
            self.run_context.end_run(end)  # before the instance is closed, because closing may take long (SV-4)
            raise
        finally:
            await self._end_instance(self._death_failure(error), call_close=not isinstance(error, TaskKilled))
        await self._begin_next(pause_secs, self._death_failure(error))

    async def _begin_after_rollback(self) -> None:
        """End the instance, and begin a fresh one when all queues are empty. This counts as a death only if another error has killed it."""
        assert self._rollback is not None
        if self._replace_for is not None:
            await self._replace(self._replace_for)
            return
        self.streak.length = 0
        await self._end_instance(self._rollback.failure, call_close=True)
        await self.begin()

    async def _replace_after_streak(self, error: BaseException) -> None:
        """Replace an instance after many failed calls in a row (SV-1). This does not count as a death."""
        reason = TooManyFailures(f"{self.streak.length:,} calls in a row failed, the last one with {error_text(error)}")
        self.reporter.report(reason, next_step="the task gets a fresh instance, which may repair a broken connection")
        await self._renew(self._death_failure(reason))

    async def _replace_by_request(self, request: RestartRequested) -> None:
        """Replace an instance because an operator asked for it (SV-9). This does not count as a death."""
        self.reporter.warn(f"{self.spec.kind} {self.info.component_id!r} (task {self.info.task_id}) is {request}")
        if self._replace_for is not None:
            self.reporter.report(self._replace_for, next_step="the task is replaced by a fresh instance")
        self.streak.length = 0
        await self._renew(Failure(TASK_DIED, self.info.component_id, self.info.task_id, str(request)))

    async def _renew(self, failure: Failure) -> None:
        self.policy.note_restart()
        self._replace_for = None
        await self._end_instance(failure, call_close=True)
        if self.streak.length:
            self.streak.note_renewal(self.run_context.clock.now())
        await self._begin_next(0.0, failure)

    async def _end_instance(self, failure: Failure, *, call_close: bool) -> None:
        """Fail the open inputs of the instance, and close it."""
        self._fail_instance(failure)
        self._progress_at_death = self._progress_count()
        self._is_retiring = True
        try:
            await self._retire_instance(call_close=call_close)
        finally:
            self._is_retiring = False

    async def _begin_next(self, pause_secs: float, failure: Failure) -> None:
        if self.core.closing:
            return
        await self._pause_before_restart(pause_secs, failure)
        await self.begin()

    async def _pause_before_restart(self, secs: float, failure: Failure) -> None:
        self._is_pausing = True
        try:
            await asyncio.sleep(0)  # instances that die at once must not starve other tasks
            skips_pause, self._skips_pause = self._skips_pause, False
            await self._wait_to_restart(0.0 if skips_pause else secs, failure)
        finally:
            self._is_pausing = False

    async def _retire_instance(self, *, call_close: bool) -> None:
        """End calls and background work of the instance, and close it. Does nothing without an instance."""
        component, self.component = self.component, None
        is_open, self._is_open = self._is_open, False
        await self._stop_calls()
        if self._background is not None:
            self._report_cancelled_work(*await self._background.end())
        try:
            if component is not None and is_open and call_close:
                await self._close_component(self._close_method(component))
            elif isinstance(component, (BoltPortUser, SpoutPortUser)):
                await self._close_component(component.on_drop)
        finally:
            if self._collector is not None:
                self._collector.retire()
                self._collector = None

    async def _close_component(self, close: Callable[[], Any]) -> None:
        try:
            closing = self._call_close(close, CLOSER.get())
            if not await await_or_cancel(closing, CLOSE_TIMEOUT_SECS, self.variables):
                self._report_cancelled_work((), 1)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if was_cancelled(error):
                raise
            is_timeout = type(error) is TimeoutError and not error.args
            told = TimeoutError(self._overdue_close_text(close)) if is_timeout else error
            self.reporter.report(told, next_step="nothing: the instance is closed")

    def _overdue_close_text(self, close: Callable[[], Any]) -> str:
        """Return the text for a close that took too long."""
        return f"{close.__name__}() did not return within {CLOSE_TIMEOUT_SECS:g} s and was cancelled"

    async def _call_close(self, close: Callable[[], Any], closer: object) -> None:
        CLOSER.set(closer)  # in the context of the instance, which does not have it
        # The coroutine of the hook is created here: a task that is cancelled before its first step would never await it.
        await without_exits(self.call_hook(close))

    def _report_cancelled_work(self, errors: Sequence[BaseException], still_running: int) -> None:
        """Report the results of `cancel_and_wait`."""
        for error in errors:
            if not isinstance(error, KeyboardInterrupt):  # asyncio has raised it out of the loop
                self.reporter.report(error, next_step="nothing: the instance is closed")
        if still_running:
            self.reporter.warn(
                f"{still_running} coroutine{'s' * (still_running > 1)} of {self.spec.kind} {self.info.component_id!r} did not end within "
                f"{CLOSE_TIMEOUT_SECS:g} s after being cancelled, and run on. Let asyncio.CancelledError pass."
            )

    def _decide_after_death(self, error: BaseException, *, tup: object = None, counts: bool) -> float:
        """Report a death, and return the pause in seconds before the next instance. Raises the ComponentError that ends the run (SV-3)."""
        where, mode = (self.info.component_id, self.info.task_id), self.error_mode(error)
        if isinstance(error, FatalError):
            raise ComponentError(*where, error, message=error.message, hint=error.hint)
        if mode == "stop":
            self.reporter.report(error, tup=tup, next_step="the run ends: on_error is 'stop'")
            hint = 'Fix the cause of the error, or set on_error="fail" to fail only the input.'
            raise ComponentError(*where, error, message=f"raised {error_text(error)}, and on_error is 'stop'", hint=hint)
        now = self.run_context.clock.now()
        if self.has_been_ready and mode != "restart":
            self.policy.note_restart()
            pause_secs = self.policy.next_pause_secs(now)
            when = f" in {pause_secs:g} s{'; until then its inputs fail' * (self.spec.kind == 'bolt')}" if pause_secs else ""
            self.reporter.report(error, tup=tup, next_step=f"the task is replaced by a fresh instance{when}")
            return pause_secs
        if self.policy.note_death(now, counts=counts):
            self.reporter.report(error, tup=tup, next_step="the task is replaced by a fresh instance")
            return self.policy.next_pause_secs(now) if self.has_been_ready and self.paces_restarts else 0.0
        config = self.run_context.config
        rate = f"more than {config.max_task_restarts} times in {config.restart_window_secs:g} s"
        if self.has_been_ready:
            limit = f"{rate} without {self.spec.progress} in between"
            hint = 'Fix the cause of the error, set on_error="fail" to fail only the input, or raise max_task_restarts.'
        else:
            limit = f"{rate} before it was ready"
            hint = "Fix the cause of the error, or raise max_task_restarts."
        self.reporter.report(error, tup=tup, next_step=f"the run ends: the task died {limit}")
        raise ComponentError(
            *where,
            error,
            message=f"died {limit}, the last time of {error_text(error)}",
            hint=hint,
        )

    def _death_failure(self, error: BaseException) -> Failure:
        """Return the Failure of the open inputs of an instance that died of this error."""
        return Failure(TASK_DIED, self.info.component_id, self.info.task_id, error_text(error))

    def _progress_count(self) -> int:
        """Return a count that grows while the task makes progress. A death after progress does not count as a failed restart."""
        return self.core.acked + self.core.failed

    def error_mode(self, error: BaseException) -> ErrorMode:
        """Return the reaction to an error of the component, besides the failure of its input (ACK-12, SV-1)."""
        if isinstance(error, FatalError):
            return "stop"
        mode = self.spec.settings.on_error or self.run_context.config.on_error
        return "replace" if mode == "fail" and self.spec.replaced_at_each_error else mode

    def failure_of(self, error: BaseException) -> Failure:
        """Return the Failure of an input whose call raised."""
        return Failure(ERROR, self.info.component_id, self.info.task_id, error_text(error))

    # For spouts and bolts

    def _new_context(self, background: BackgroundTasks) -> ExecutorContext:
        return ExecutorContext(self.info, self.spec, self.run_context, wake=self.wake, background=background)

    def _new_background(self) -> BackgroundTasks:
        name = f"{self.run_context.topology.name}/{self.info.component_id}[{self.info.task_id}] background"
        return BackgroundTasks(self.run_context.loop, name, self._other_steps, self._note_background_error)

    def _note_background_error(self, error: BaseException) -> None:
        """Replace the instance, because it is not complete without its background work (ACK-12).

        With on_error="fail", the running calls of a bolt return first. A call that waits for this work would never return, so the instance
        is killed after `message_timeout_secs`.
        """
        if self.core.closing or self.error_mode(error) != "fail" or self.spec.kind == "spout":
            self.kill(error)
        elif self._replace_for is None:
            self._replace_for = error
            self.wake()
            self.run_context.loop.call_later(self.run_context.config.message_timeout_secs, self._kill_if_not_replaced, error)
        else:
            self.reporter.report(error, next_step="the task is replaced by a fresh instance anyway")

    def _kill_if_not_replaced(self, error: BaseException) -> None:
        if self._replace_for is error and not self.core.closing:
            self.kill(error)

    def wake(self) -> None:
        """Wake the coroutine."""
        self.wakeup.set()

    def note_resumed(self) -> None:
        """Wake the coroutine and the waiters of `ready`, because no full mailbox stops the task any more."""
        self.wake()
        self._ready_waiters.wake_all()

    async def ready(self) -> None:
        """Wait until the task may emit."""
        while self.core.backpressure.stopped_by:
            await self._ready_waiters.wait()

    @property
    def loop_secs(self) -> float:
        """Time that the component held the loop, without its lifecycle methods."""
        return self.core.plain_secs + self._other_steps.total_secs

    def report_from_component(self, error: BaseException) -> None:
        """Report an error for `collector.report_error`."""
        self.reporter.report(error, next_step="nothing: the component continues", verb="reported")

    async def call_hook(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a lifecycle method of the component, plain or async."""
        requests = cancel_requests()
        result = function(*args)
        if cancel_requests() > requests:
            if inspect.iscoroutine(result):
                result.close()
            await absorb_last_cancel_request()
            raise asyncio.CancelledError(f"{function.__name__}() cancelled the asyncio task that runs it")
        if result is None:
            return
        if inspect.isawaitable(result):
            await result
        else:
            raise UsageError(
                f"{self.spec.kind} {self.info.component_id!r}: {function.__name__}() returned {safe_repr(result)}",
                hint="It must return None, or be async def.",
            )
