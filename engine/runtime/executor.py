"""What spouts' and bolts' executors have in common: one coroutine, one instance at a time, its death and its replacement."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from engine.errors import ERROR, TASK_DIED, ComponentError, Failure, FatalError, UsageError
from engine.kernel import TaskCore, Tuple
from engine.raised import PROGRAMS_END_HINT, raised_text
from engine.runtime.doorbell import Doorbell
from engine.runtime.ending import (
    CLOSE_TIMEOUT_SECS,
    cancellations_of_task,
    end_all,
    end_in_time,
    is_cancelled_from_outside,
    take_cancellations_back,
    take_own_cancellation_back,
)
from engine.runtime.error_report import error_text
from engine.runtime.restart_policy import FailureStreak, RestartPolicy
from engine.runtime.slow_calls import SlowCalls
from engine.runtime.surroundings import RunSurroundings, TaskPlace
from engine.runtime.task_context import BackgroundTasks, ExecutorContext
from engine.topology import ComponentSpec

ErrorMode: TypeAlias = Literal["fail", "renew", "restart", "stop"]
"""The choices of `on_error`. "renew" is "fail" for components of the engine that cannot go on after an exception: it is replaced."""


class RetiredWithInstance(Protocol):
    """The collector of an instance."""

    def retire(self) -> None:
        """The instance is gone."""


class TaskKilled(Exception):
    """An instance was killed from outside, by a test or by background work that raised."""


class FailedInARow(Exception):
    """Every call of an instance failed for a while: the instance is renewed (SV-1)."""


class Executor(ABC):
    """The actor of one task.

    `begin` makes the first instance, `start` sets the coroutine off, `close` ends both. In between, `_serve` runs bursts. A call
    that raises fails its own input; the instance goes on, or is replaced, as `on_error` says (ACK-12, SV-1).
    """

    core: TaskCore
    paces_restarts: ClassVar[bool] = False
    """True where a fresh instance costs the source something, so that one follows another after a pause under "restart", too."""

    def __init__(self, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings) -> None:
        self.place = place
        self.spec = spec
        self.around = around
        self.doorbell = Doorbell(around.loop)
        self.reporter = around.reporter_of(place)
        self.policy = RestartPolicy(around.config.max_task_restarts, around.config.restart_window_secs)
        self.streak = FailureStreak(around.config.renew_after_failures)
        self.has_worked = False
        """True once the first instance is ready: from then on failures end no run, unless `on_error` says so (SV-3)."""
        self.component: Any = None
        self.at_rest = False
        """True while the coroutine waits and nothing is in a call."""
        self._aio_task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._killed: BaseException | None = None
        self._ailing: BaseException | None = None
        """Raised by background work: the instance is replaced as soon as its running calls have returned."""
        self._is_open = self._is_retiring = False
        self._background: BackgroundTasks | None = None
        self._collector: RetiredWithInstance | None = None
        self._settled_at_death = 0
        self._resumed: list[asyncio.Future[None]] = []
        self.slow_calls = SlowCalls(f"{spec.kind} {place.component_id!r}", self.reporter, around.clock)

    # Life

    async def begin(self) -> None:
        """Make an instance and get it ready; try again where that fails. Raises ComponentError where `_survive` ends the run."""
        while not self.core.closing:
            try:
                await self._make_instance()
                self._is_open = True
                error = self._take_kill()
            except (Exception, asyncio.CancelledError) as raised:
                if isinstance(raised, asyncio.CancelledError) and is_cancelled_from_outside():
                    raise
                error = raised
            except BaseException as raised:
                raise self._unsurvivable(raised) from raised
            if error is None:
                return
            await self._retire_instance(call_close=True)
            pause_secs = self._survive(error, counts=True)
            await self._stay_down(pause_secs, self._death(error))

    def start(self) -> None:
        """Set the coroutine off."""
        self.has_worked = self.has_worked or not self.spec.defers_acks  # else once its control handler opens the gate
        name = f"{self.around.topology.name}/{self.place.component_id}[{self.place.task_id}]"
        self._aio_task = self.around.loop.create_task(self._main(), name=name)
        self._aio_task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End the coroutine, then close the instance."""
        self.core.closing = True
        aio_task, self._aio_task = self._aio_task, None
        if aio_task is not None:
            if self._is_retiring:  # let it close the dead instance to its end
                await asyncio.wait([aio_task], timeout=CLOSE_TIMEOUT_SECS)
            self._tell_of_ends(*await end_all([aio_task]))
        await self._retire_instance(call_close=True)
        self.reporter.close()

    def kill(self, error: BaseException | None = None) -> None:
        """Have the instance die as if it had raised; for background work and fault injection."""
        if self.core.closing:
            if error is not None:
                self.reporter.report(error, next_step="nothing: the task is closing")
            return
        self._killed = error or TaskKilled(f"task {self.place.task_id} was killed")
        if self._aio_task is not None and self._has_begun:
            self._aio_task.cancel()  # before its first step it would end without a trace; then it looks for itself

    async def _main(self) -> None:
        """Serve, and replace the instance when it dies, until closed; whatever else ends it ends the run."""
        self._has_begun = True
        try:
            while not self.core.closing:
                try:
                    error = self._take_kill()
                    if error is None and self._ailing is not None:
                        await self._let_calls_return()
                        error = self._ailing
                    if error is not None:
                        await self._replace(error)
                    await self._serve()
                except asyncio.CancelledError as raised:
                    self._judge(raised)
        except ComponentError as error:
            self.around.give_up(error)
        except (KeyboardInterrupt, SystemExit) as error:
            self.around.give_up(self._unsurvivable(error))
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the run
            message = f"its executor failed: {error_text(error)}"
            hint = "This is a bug in the engine. Please report this text."
            self.around.give_up(ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint=hint))

    def _ended(self, aio_task: "asyncio.Task[None]") -> None:
        """The component raised what is not to be survived: SystemExit, or a BaseException of somebody's own. The run ends of it."""
        error = None if aio_task.cancelled() else aio_task.exception()
        if error is not None and not isinstance(error, KeyboardInterrupt):  # that one asyncio raises in the loop's host
            self.around.give_up(self._unsurvivable(error))

    def _unsurvivable(self, error: BaseException) -> ComponentError:
        """Return what ends the run for what is no Exception. Raise KeyboardInterrupt again: somebody may have pressed Ctrl-C."""
        if isinstance(error, KeyboardInterrupt):
            error.add_note(f"raised in {self.spec.kind} {self.place.component_id!r} (task {self.place.task_id})")
            raise error
        message = f"raised {raised_text(error)}, which is not an Exception"
        return ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint=PROGRAMS_END_HINT)

    def _judge(self, raised: asyncio.CancelledError) -> None:
        """Raise what ends the coroutine; a kill, or a CancelledError that is the component's own, ends its instance only.

        Only `close`, `kill` and the end of the host's loop cancel this task. Any other cancellation came from the component itself.
        """
        if self.core.closing or (self._killed is None and self.around.is_abandoned()):
            raise raised
        if self._killed is None:
            own = "the component cancelled the asyncio task that runs it"
            self._killed = asyncio.CancelledError(own) if is_cancelled_from_outside() else raised

    def _take_kill(self) -> BaseException | None:
        """What the instance was killed by since it began, if it was."""
        error, self._killed = self._killed, None
        if error is not None:
            take_cancellations_back()
        return error

    @property
    def _serves(self) -> bool:
        """True while the instance is to go on."""
        return not self.core.closing and self._killed is None and self._ailing is None

    @property
    def is_ending(self) -> bool:
        """True while the instance is being taken out of service."""
        return self.core.closing or self._is_retiring or self.around.is_abandoned()

    @abstractmethod
    async def _serve(self) -> None:
        """Run bursts while `_serves`; what the component raises is dealt with inside."""

    @abstractmethod
    async def _make_instance(self) -> None:
        """Create a component, hand it context and collector, call prepare or open, and bind it to the core."""

    @abstractmethod
    async def _halt(self) -> None:
        """Have the instance called no more."""

    @abstractmethod
    def _closes_by(self, component: Any) -> Callable[[], Any]:
        """The method that closes a component: `close` or `cleanup`."""

    @abstractmethod
    def _fail_instance(self, failure: Failure) -> None:
        """Fail or drop what a dead instance leaves behind."""

    @abstractmethod
    async def _let_calls_return(self) -> None:
        """Wait for the calls that are running, before an instance is replaced that could go on."""

    @abstractmethod
    async def _stay_down(self, secs: float, failure: Failure) -> None:
        """Wait before the next try of an instance; meanwhile every input fails with this failure."""

    # Death

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        """The instance died of error: report, fail what it took up, and begin another (ACK-12, ACK-15)."""
        self._take_kill()
        self._ailing = None
        settled = self._settled() - self._settled_at_death - (1 if tup is not None and not tup.is_tick else 0)
        pause_secs = 0.0
        try:
            pause_secs = self._survive(error, tup=tup, counts=settled <= 0)
        except ComponentError as ended:
            self.around.give_up(ended)  # before this instance is closed, which may take long (SV-4)
            raise
        finally:
            await self._end_instance(self._death(error), call_close=not isinstance(error, TaskKilled))
        await self._begin_another(pause_secs, self._death(error))

    async def _renew(self, error: BaseException) -> None:
        """Exchange an instance whose every call has failed of late, the last one with error (SV-1). This is no death."""
        reason = FailedInARow(f"{self.streak.length:,} calls in a row failed, the last one with {error_text(error)}")
        self.reporter.report(reason, next_step="the task gets a fresh instance, so that a broken connection heals")
        self.policy.note_restart()
        self._ailing = None
        await self._end_instance(self._death(reason), call_close=True)
        self.streak.note_renewal(self.around.clock.now())
        await self._begin_another(0.0, self._death(reason))

    async def _end_instance(self, failure: Failure, *, call_close: bool) -> None:
        """Fail what the instance took up, and take it out of service."""
        self._fail_instance(failure)
        self._settled_at_death = self._settled()
        self._is_retiring = True
        try:
            await self._retire_instance(call_close=call_close)
        finally:
            self._is_retiring = False

    async def _begin_another(self, pause_secs: float, failure: Failure) -> None:
        if self.core.closing:
            return
        await asyncio.sleep(0)  # an instance that dies at once must not keep others from their turn
        await self._stay_down(pause_secs, failure)
        await self.begin()

    async def _retire_instance(self, *, call_close: bool) -> None:
        """Take the instance out of service; without effect where there is none."""
        component, self.component = self.component, None
        is_open, self._is_open = self._is_open, False
        await self._halt()
        if self._background is not None:
            self._tell_of_ends(*await self._background.end())
        try:
            if component is not None and is_open and call_close:
                await self._close_component(self._closes_by(component))
        finally:
            if self._collector is not None:
                self._collector.retire()
                self._collector = None

    async def _close_component(self, close: Callable[[], Any]) -> None:
        try:
            if not await end_in_time(self.call(close), CLOSE_TIMEOUT_SECS):
                self._tell_of_ends((), 1)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled_from_outside():
                raise
            too_long = f"{close.__name__}() did not return within {CLOSE_TIMEOUT_SECS:g} s and was cancelled"
            late = type(error) is TimeoutError and not error.args
            self.reporter.report(TimeoutError(too_long) if late else error, next_step="nothing: the instance is closed")

    def _tell_of_ends(self, errors: Sequence[BaseException], resisting: int) -> None:
        """Report how the cancelled work of an instance ended."""
        for error in errors:
            if not isinstance(error, KeyboardInterrupt):  # it has gone through the loop to whoever runs it
                self.reporter.report(error, next_step="nothing: the instance is closed")
        if resisting:
            self.reporter.warn(
                f"{resisting} coroutine{'s' * (resisting > 1)} of {self.spec.kind} {self.place.component_id!r} did not end within "
                f"{CLOSE_TIMEOUT_SECS:g} s after being cancelled, and run on. Let asyncio.CancelledError pass."
            )

    def _survive(self, error: BaseException, *, tup: object = None, counts: bool) -> float:
        """Report a death; return the pause before the next instance, in seconds. Raises ComponentError where it ends the run (SV-3)."""
        where, mode = (self.place.component_id, self.place.task_id), self.error_mode(error)
        if isinstance(error, FatalError):
            raise ComponentError(*where, error, message=error.message, hint=error.hint)
        if mode == "stop":
            self.reporter.report(error, tup=tup, next_step="the run ends: on_error is 'stop'")
            hint = 'Mend what it raises; or fail single tuples by on_error="fail".'
            raise ComponentError(*where, error, message=f"raised {error_text(error)}, and on_error is 'stop'", hint=hint)
        now = self.around.clock.now()
        if self.has_worked and mode != "restart":
            self.policy.note_restart()
            pause_secs = self.policy.pause_secs(now)
            when = f" in {pause_secs:g} s{'; until then its inputs fail' * (self.spec.kind == 'bolt')}" if pause_secs else ""
            self.reporter.report(error, tup=tup, next_step=f"the task is replaced by a fresh instance{when}")
            return pause_secs
        if self.policy.may_restart(now, counts=counts):
            self.reporter.report(error, tup=tup, next_step="the task is replaced by a fresh instance")
            return self.policy.pause_secs(now) if self.has_worked and self.paces_restarts else 0.0
        config = self.around.config
        limit = f"more than {config.max_task_restarts} times in {config.restart_window_secs:g} s without {self.spec.progress} in between"
        self.reporter.report(error, tup=tup, next_step=f"the run ends: the task died {limit}")
        raise ComponentError(
            *where,
            error,
            message=f"died {limit}, the last time of {error_text(error)}",
            hint='Mend what it raises; or let it fail single tuples by on_error="fail"; or raise max_task_restarts.',
        )

    def _death(self, error: BaseException) -> Failure:
        """The Failure of what an instance leaves behind that dies of this error."""
        return Failure(TASK_DIED, self.place.component_id, self.place.task_id, error_text(error))

    def _settled(self) -> int:
        return self.core.acked + self.core.failed

    def error_mode(self, error: BaseException) -> ErrorMode:
        """What an exception of the component does beside failing its input (ACK-12, SV-1)."""
        if isinstance(error, FatalError):
            return "stop"
        mode = self.spec.settings.on_error or self.around.config.on_error
        return "renew" if mode == "fail" and self.spec.renewed_at_each_error else mode

    def failure_of(self, error: BaseException) -> Failure:
        """The Failure of an input whose call raised."""
        return Failure(ERROR, self.place.component_id, self.place.task_id, error_text(error))

    # Parts that both kinds need

    def _new_context(self, background: BackgroundTasks) -> ExecutorContext:
        return ExecutorContext(self.place, self.spec, self.around, wake=self._wake, background=background)

    def _new_background(self) -> BackgroundTasks:
        name = f"{self.around.topology.name}/{self.place.component_id}[{self.place.task_id}] background"
        return BackgroundTasks(self.around.loop, name, self._background_failed)

    def _background_failed(self, error: BaseException) -> None:
        """Replace the instance: without its background work it is not whole (ACK-12).

        Under on_error="fail" the running calls of a bolt return first. One that waits for this very work never does: it is cut short
        after the time that a tree has.
        """
        if self.core.closing or self.error_mode(error) != "fail" or self.spec.kind == "spout":
            self.kill(error)
        elif self._ailing is None:
            self._ailing = error
            self.doorbell.ring()
            self.around.loop.call_later(self.around.config.message_timeout_secs, self._end_ailing, error)
        else:
            self.reporter.report(error, next_step="the task is replaced by a fresh instance anyway")

    def _end_ailing(self, error: BaseException) -> None:
        if self._ailing is error and not self.core.closing:
            self.kill(error)

    def _wake(self) -> None:
        self.doorbell.ring()

    def resumed(self) -> None:
        """The last stop was lifted; wakes the coroutine and whoever awaits `ready`."""
        self.doorbell.ring()
        waiting, self._resumed = self._resumed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def ready(self) -> None:
        """Wait until the task may emit."""
        while self.core.emitter.stopped_by:
            future: asyncio.Future[None] = self.around.loop.create_future()
            self._resumed.append(future)
            await future

    async def rest(self, timeout_secs: float | None = None) -> bool:
        """Wait for the doorbell, False where the timeout came first; the run may be complete."""
        self.at_rest = True
        self.around.came_to_rest()
        try:
            return await self.doorbell.wait(timeout_secs)
        finally:
            self.at_rest = False

    def report_own(self, error: BaseException) -> None:
        """`collector.report_error`."""
        self.reporter.report(error, tup=None, next_step="nothing: the component reported it and goes on")

    async def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a lifecycle method, plain or async."""
        cancellations = cancellations_of_task()
        result = function(*args)
        if cancellations_of_task() > cancellations:
            if inspect.iscoroutine(result):
                result.close()
            await take_own_cancellation_back()
            raise asyncio.CancelledError(f"{function.__name__}() cancelled the asyncio task that runs it")
        if result is None:
            return
        if inspect.isawaitable(result):
            await result
        else:
            raise UsageError(
                f"{self.spec.kind} {self.place.component_id!r}: {function.__name__}() returned {result!r}",
                hint="It must return None, or be async def.",
            )
