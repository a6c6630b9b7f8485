"""What spouts' and bolts' executors have in common: one coroutine, one instance at a time, its death and its replacement."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from engine.errors import ERROR, TASK_DIED, ComponentError, Failure, FatalError, UsageError
from engine.executor.doorbell import Doorbell
from engine.executor.ending import CLOSE_TIMEOUT_SECS, end_all, is_cancelled_from_outside, take_cancellations_back
from engine.executor.error_report import ErrorReporter, error_text
from engine.executor.restart_policy import RestartPolicy
from engine.executor.surroundings import RunSurroundings, TaskPlace
from engine.executor.task_context import BackgroundTasks, ExecutorContext
from engine.kernel import TaskCore, Tuple
from engine.topology import ComponentSpec

SLOW_WARNING_PAUSE_SECS: Final = 60.0


class RetiredWithInstance(Protocol):
    """The collector of an instance."""

    def retire(self) -> None:
        """The instance is gone."""


class TaskKilled(Exception):
    """An instance was killed from outside, by a test or by background work that raised."""


class Executor(ABC):
    """The actor of one task.

    `begin` makes the first instance, `start` sets the coroutine off, `close` ends both. In between, `_serve` runs bursts until
    something raises; then the instance is replaced or kept, as `on_error` says (ACK-12).
    """

    core: TaskCore

    def __init__(self, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings) -> None:
        self.place = place
        self.spec = spec
        self.around = around
        self.doorbell = Doorbell(around.loop)
        self.reporter = ErrorReporter(place.component_id, place.task_id, around.clock, around.publish)
        self.policy = RestartPolicy(around.config.max_task_restarts, around.config.restart_window_secs)
        self.component: Any = None
        self.at_rest = False
        """True while the coroutine waits and nothing is in a call."""
        self._aio_task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._killed: BaseException | None = None
        self._is_open = self._is_retiring = False
        self._background: BackgroundTasks | None = None
        self._collector: RetiredWithInstance | None = None
        self._settled_at_death = 0
        self._resumed: list[asyncio.Future[None]] = []
        self._next_slow_warning = 0.0

    # Life

    async def begin(self) -> None:
        """Make an instance and get it ready; raise ComponentError when that fails too often."""
        while True:
            try:
                await self._make_instance()
                self._is_open = True
                error = self._take_kill()
            except (Exception, asyncio.CancelledError) as raised:
                if isinstance(raised, asyncio.CancelledError) and is_cancelled_from_outside():
                    raise
                error = raised
            if error is None:
                return
            await self._retire_instance(call_close=True)
            self._survive(error, counts=True, next_step="the task is replaced by a fresh instance")

    def start(self) -> None:
        """Set the coroutine off."""
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
                    if error is not None:
                        await self._replace(error)
                    await self._serve()
                except asyncio.CancelledError as raised:
                    self._judge(raised)
        except ComponentError as error:
            self.around.give_up(error)
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the run
            message = f"its executor failed: {error_text(error)}"
            hint = "This is a bug in the engine. Please report this text."
            self.around.give_up(ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint=hint))

    def _ended(self, aio_task: "asyncio.Task[None]") -> None:
        """The component raised what is not to be survived: GeneratorExit, or a BaseException of somebody's own. The run ends of it."""
        error = None if aio_task.cancelled() else aio_task.exception()
        if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):  # those two asyncio raises in the loop's host
            return
        message = f"raised {error_text(error)}, which is not an Exception"
        hint = "Components raise Exceptions; BaseException is for what ends a program."
        self.around.give_up(ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint=hint))

    def _judge(self, raised: asyncio.CancelledError) -> None:
        """Raise what ends the coroutine; a kill, or a CancelledError that is the component's own, ends its instance only."""
        if self.core.closing or (self._killed is None and is_cancelled_from_outside()):
            raise raised
        if self._killed is None:
            self._killed = raised

    def _take_kill(self) -> BaseException | None:
        """What the instance was killed by since it began, if it was."""
        error, self._killed = self._killed, None
        if error is not None:
            take_cancellations_back()
        return error

    @property
    def _serves(self) -> bool:
        """True while the instance is to go on."""
        return not self.core.closing and self._killed is None

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

    # Death

    async def _replace(self, error: BaseException, tup: Tuple | None = None) -> None:
        """The instance died of error: report, fail what it took up, and begin another (ACK-12, ACK-15)."""
        self._take_kill()
        settled = self._settled() - self._settled_at_death - (1 if tup is not None and not tup.is_tick else 0)
        try:
            self._survive(error, tup=tup, counts=settled <= 0, next_step="the task is replaced by a fresh instance")
        finally:
            self._fail_instance(Failure(TASK_DIED, self.place.component_id, self.place.task_id, error_text(error)))
            self._settled_at_death = self._settled()
            self._is_retiring = True
            try:
                await self._retire_instance(call_close=not isinstance(error, TaskKilled))
            finally:
                self._is_retiring = False
        if not self.core.closing:
            await asyncio.sleep(0)  # an instance that dies at once must not keep others from their turn
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
            async with asyncio.timeout(CLOSE_TIMEOUT_SECS) as scope:
                await self.call(close)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled_from_outside():
                raise
            too_long = f"{close.__name__}() did not return within {CLOSE_TIMEOUT_SECS:g} s and was cancelled"
            self.reporter.report(TimeoutError(too_long) if scope.expired() else error, next_step="nothing: the instance is closed")

    def _tell_of_ends(self, errors: Sequence[BaseException], resisting: int) -> None:
        """Report how the cancelled work of an instance ended."""
        for error in errors:
            self.reporter.report(error, next_step="nothing: the instance is closed")
        if resisting:
            self.reporter.warn(
                f"{resisting} coroutine{'s' * (resisting > 1)} of {self.spec.kind} {self.place.component_id!r} did not end within "
                f"{CLOSE_TIMEOUT_SECS:g} s after being cancelled, and run on. Let asyncio.CancelledError pass."
            )

    def _survive(self, error: BaseException, *, tup: object = None, counts: bool, next_step: str) -> None:
        """Report a death; raise ComponentError when it was one too many."""
        if isinstance(error, FatalError):
            raise ComponentError(self.place.component_id, self.place.task_id, error, message=error.message, hint=error.hint)
        if self.policy.may_restart(self.around.clock.now(), counts=counts):
            self.reporter.report(error, tup=tup, next_step=next_step)
            return
        config = self.around.config
        without = "a committed checkpoint" if self.spec.keeps_state else "settling a tuple"
        limit = f"more than {config.max_task_restarts} times in {config.restart_window_secs:g} s without {without} in between"
        self.reporter.report(error, tup=tup, next_step=f"the run ends: the task died {limit}")
        raise ComponentError(
            self.place.component_id,
            self.place.task_id,
            error,
            message=f"died {limit}, the last time of {error_text(error)}",
            hint='Mend what it raises; or let it fail single tuples by on_error="fail"; or raise max_task_restarts.',
        )

    def _settled(self) -> int:
        return self.core.acked + self.core.failed

    def outlives(self, error: BaseException) -> bool:
        """True where an exception fails its input alone, and the instance goes on."""
        return (self.spec.settings.on_error or self.around.config.on_error) == "fail" and not isinstance(error, FatalError)

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
        """What background work raises counts as raised by the component (ACK-12)."""
        if self.outlives(error):
            self.reporter.report(error, next_step="the instance goes on without this background work")
        else:
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

    def warn_if_slow(self) -> None:
        """Name the component when one of its calls held the loop for too long; once a minute at most."""
        secs = self.core.take_slow_call()
        if secs:
            self.note_slow(secs)

    def note_slow(self, secs: float) -> None:
        """One call, or one step of a coroutine, has held the loop for too long."""
        if self._may_warn_of_slowness():
            self.reporter.warn(
                f"one call of {self.spec.kind} {self.place.component_id!r} held the event loop for {secs * 1000:.0f} ms: nothing else ran "
                "meanwhile. Await what it waits for, give a BasicBolt threads=n for blocking code, or do less in one call."
            )

    def _may_warn_of_slowness(self) -> bool:
        now = self.around.clock.now()
        if now < self._next_slow_warning:
            return False
        self._next_slow_warning = now + SLOW_WARNING_PAUSE_SECS
        return True

    async def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a lifecycle method, plain or async."""
        result = function(*args)
        if result is None:
            return
        if inspect.isawaitable(result):
            await result
        else:
            raise UsageError(
                f"{self.spec.kind} {self.place.component_id!r}: {function.__name__}() returned {result!r}",
                hint="It must return None, or be async def.",
            )
