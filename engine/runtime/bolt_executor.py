"""A bolt's executor: takes tuples up in bursts, or, where a call takes time, one by one."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from engine.errors import FAILED, FORGOTTEN, TASK_DIED, Failure, UsageError
from engine.kernel import BoltCore, BoltOutcome, EdgeIds, Mailbox, SignalRing, Tuple
from engine.runtime.bolt_calls import BoltCalls
from engine.runtime.bolt_collector import ExecutorBasicCollector, ExecutorBoltCollector
from engine.runtime.bolt_port import ExecutorBoltPort
from engine.runtime.ending import is_cancelled_from_outside
from engine.runtime.error_report import error_text, failure_text
from engine.runtime.executor import Executor
from engine.runtime.misuse import Misuse
from engine.runtime.surroundings import RunSurroundings, TaskPlace
from engine.topology import BasicBolt, ComponentSpec, FailTuple
from engine.topology.task_port import BoltPortUser

DOWN_PACE_SECS: Final = 0.05
"""Without an instance, inputs that come one after the other fail no faster than this."""


class BoltExecutor(Executor):
    """The actor of one bolt task."""

    core: BoltCore

    def __init__(self, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings, ackers: list[SignalRing]) -> None:
        super().__init__(place, spec, around)
        config = around.config
        self.core = BoltCore(
            place.task_id,
            mailbox=Mailbox(config.executor_receive_buffer_size, self.doorbell.ring),
            ids=EdgeIds(around.random.uint64("edges", place.task_id)),
            ackers=ackers,
            now=around.clock.now,
            misuse=Misuse(spec),
            pulse=around.pulse,
            slow_call_secs=config.slow_call_warn_ms / 1000,
            failed_reason=Failure(FAILED, place.component_id, place.task_id),
            forgotten_reason=Failure(FORGOTTEN, place.component_id, place.task_id),
            fails_forgotten=config.forgotten_ack == "fail",
            on_lost=self._lost_from_anywhere,
        )
        self.core.emitter.set_on_resume(self.resumed)
        self.port = ExecutorBoltPort(self)
        self.calls = BoltCalls(self)
        self._warned_of_forgotten = self._warned_of_double = False
        self._died_before = self._is_renewing = False
        self._handles_control: Callable[[Tuple], Any] | None = None
        self._controls: list[Tuple] = []
        """Control tuples that the instance was handed and has not settled; they fail with it."""

    # The instance

    async def _make_instance(self) -> None:
        bolt: Any = self.spec.factory.create()
        self._background = self._new_background()
        self._collector = bolt.collector = ExecutorBoltCollector(self.core, ready=self.ready, report_error=self._report_from_anywhere)
        bolt.context = self._new_context(self._background)
        is_basic = isinstance(bolt, BasicBolt)
        if is_basic:
            bolt.collector = ExecutorBasicCollector(self._collector, self.core, self.place.component_id, self._report_from_anywhere)
        await self._attend(bolt)
        self.component = bolt
        self.calls.serve(bolt, self.spec.settings)
        self.core.bind(bolt.execute, basic=is_basic)
        await self.call(bolt.prepare)

    async def _attend(self, bolt: Any) -> None:
        """Give the port to whoever handles control tuples: the control handler of the topology, or the bolt itself."""
        self._handles_control = None
        if self.spec.control_handler is not None:
            handler = self.spec.control_handler(bolt, bolt.context, self.port, self.around.task_ids)
            await handler.begin(restarted=self._died_before)
            self._handles_control = handler.on_control
        elif isinstance(bolt, BoltPortUser):
            bolt.port = self.port
            if self._died_before:
                bolt.on_restart()
            self._handles_control = bolt.on_control

    async def _halt(self) -> None:
        self._tell_of_ends(*await self.calls.end())

    def _closes_by(self, component: Any) -> Callable[[], Any]:
        return component.cleanup  # type: ignore[no-any-return]

    async def close(self) -> None:
        """End the coroutine, close the instance, and let go of what waits."""
        await super().close()
        # Values may lead back to the run, and no garbage collector sees what is in a mailbox.
        self.core.forget_current()
        self.core.aside.clear()
        while self.core.mailbox.take() is not None:
            pass

    def _settled(self) -> int:
        """Count the settled inputs. A deferred ack counts once it is released: a task that dies before each release makes no progress."""
        return self.core.kept.released if self.spec.defers_acks else super()._settled()

    def _fail_instance(self, failure: Failure) -> None:
        self._died_before = True
        self.core.leave_burst()
        self.core.fail_taken(failure)
        for tup in self._controls:
            self.core.settle_control(tup, failure)
        self._controls.clear()

    # The turns

    async def _serve(self) -> None:
        """Run bursts while the instance is to go on."""
        while self._serves:
            if self.calls.one_by_one:
                await self._turn_by_calls()
            else:
                await self._turn_by_burst()

    async def _turn_by_burst(self) -> None:
        core = self.core
        if self.calls.takes_none:
            await self.rest()
            return
        try:
            outcome = core.run_burst(self.around.config.burst)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the component's own: nothing was awaited
            tup = core.current
            core.forget_current()
            await self.survive_call(error, tup)
            return
        if core.slowest_call:
            self.slow_calls.look(core)
        if core.forgotten_tuples or core.settled_twice:
            self._warn_of_settles()
        if outcome == BoltOutcome.MORE:
            await asyncio.sleep(0)
        elif outcome == BoltOutcome.EMPTY:
            await self._park()
        elif outcome == BoltOutcome.STOPPED:
            await self.rest()
        elif outcome == BoltOutcome.CONTROL:
            tup = core.current
            core.forget_current()
            await self._control(tup)
        else:
            tup, returned = core.current, core.returned
            core.forget_current()
            if tup is not None:
                await self.calls.run_alone(tup, returned)
                await self.calls.yield_in_time()

    async def _turn_by_calls(self) -> None:
        """Take one tuple up for a call that takes time, as soon as there is room for one."""
        core, calls = self.core, self.calls
        if core.forgotten_tuples or core.settled_twice:
            self._warn_of_settles()
        failure = calls.take_failure()
        if failure is not None:
            await self.survive_call(*failure)
            return
        if core.emitter.stopped_by or calls.takes_none:
            await self.rest()
            return
        tup = core.take_next()
        if tup is None:
            await self._park()
        elif tup.is_control:
            await self._control(tup)
        else:
            await calls.begin(tup)

    async def _park(self) -> None:
        self.core.leave_burst()
        if self.core.mailbox.park():
            await self.rest()
            self.core.mailbox.unpark()

    async def _control(self, tup: Tuple | None) -> None:
        """Hand a control tuple to the component, once every input taken before it has returned."""
        if tup is None:
            return
        try:
            await self.calls.returned()
            while (failure := self.calls.take_failure()) is not None:
                await self.survive_call(*failure)
        except BaseException as error:
            self.core.settle_control(tup, Failure(TASK_DIED, self.place.component_id, self.place.task_id, error_text(error)))
            raise
        handle = self._handles_control
        if handle is None:
            self.core.settle_control(tup)
            return
        self._controls = [each for each in self._controls if not each.is_settled]
        self._controls.append(tup)
        try:
            handled = handle(tup)
            if handled is not None:
                await handled
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled_from_outside():
                raise
            self.core.settle_control(tup, self.failure_of(error))
            await self._replace(error)

    # Errors

    async def survive_call(self, error: BaseException, tup: Tuple | None) -> None:
        """A call raised: fail its input, and have the instance go on, or another one begin, as `on_error` says."""
        if isinstance(error, FailTuple):
            if error.report:
                self.reporter.report(error, tup=tup, next_step="the input fails")
            self._fail_input(tup, Failure(FAILED, self.place.component_id, self.place.task_id, failure_text(error)))
        elif self.error_mode(error) == "fail":
            if self._fail_alone(error, tup) and not self._is_renewing:
                await self._renew_when_returned(error)
        else:
            self._fail_input(tup, self.failure_of(error))
            await self._replace(error, tup)

    def _fail_alone(self, error: BaseException, tup: Tuple | None) -> bool:
        """Fail the input of a call that raised, and nothing else; True when the instance is to be renewed (SV-1)."""
        self.reporter.report(error, tup=tup, next_step="the input fails; the instance goes on")
        self._fail_input(tup, self.failure_of(error))
        return self.streak.note_failure(self.around.clock.now(), self.core.acked)

    async def _renew_when_returned(self, error: BaseException) -> None:
        """Renew the instance once its running calls have returned."""
        await self._let_calls_return()
        await self._renew(error)

    async def _let_calls_return(self) -> None:
        """Wait for the calls that are running, and deal with what they raise. Those that take longer than a tree may are left to run."""
        self._is_renewing = True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.around.config.message_timeout_secs):
                    await self.calls.returned()
            while (failed := self.calls.take_failure()) is not None:
                await self.survive_call(*failed)
        finally:
            self._is_renewing = False

    def _fail_input(self, tup: Tuple | None, failure: Failure) -> None:
        """Fail the input of a call, and undo what the call did to the state of its task (SV-2)."""
        self.core.take_call_back(failure)
        if tup is not None and not tup.is_tick and not tup.is_settled:
            self.core.fail(tup, failure)

    async def _stay_down(self, secs: float, failure: Failure) -> None:
        """Wait for the next try of an instance; meanwhile every input fails with this failure (SV-3)."""
        core, now = self.core, self.around.clock.now
        until = now() + secs
        while (left := until - now()) > 0 and self._serves:
            core.let_all_in()
            for _ in range(self.around.config.burst):
                tup = core.take_next()
                if tup is None:
                    break
                if tup.is_control:
                    await self._pass_control(tup, failure)
                elif not tup.is_tick:
                    core.fail(tup, failure)
            else:
                await asyncio.sleep(0)
                continue
            if core.mailbox.park():
                await self.rest(left)
                core.mailbox.unpark()
                await asyncio.sleep(min(left, DOWN_PACE_SECS))  # a source that replays at once must not spin
        for tup in self._controls:  # barriers that the next instance would not know of: their round fails, and recovery goes on
            core.settle_control(tup, failure)
        self._controls.clear()

    async def _pass_control(self, tup: Tuple, failure: Failure) -> None:
        """Handle a control tuple without an instance. A handler that defers no acks needs none; for any other one the tuple fails."""
        handle = self._handles_control
        if self.spec.control_handler is None or self.spec.defers_acks or handle is None:
            self.core.settle_control(tup, failure)
            return
        self._controls.append(tup)
        handled = handle(tup)
        if handled is not None:
            await handled

    def _report_from_anywhere(self, error: BaseException) -> None:
        """`collector.report_error`, from a pool's thread too."""
        if self.calls.in_thread():
            self.around.loop.call_soon_threadsafe(self.report_own, error)
        else:
            self.report_own(error)

    def _lost_from_anywhere(self) -> None:
        """A deallocation outside of a burst queued a forgotten tuple, on any thread."""
        around = getattr(self, "around", None)  # the garbage collector may have cleared a run that nobody left
        if around is not None and not around.loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed by another thread just now
                around.loop.call_soon_threadsafe(self._flush_lost)

    def _flush_lost(self) -> None:
        self.core.flush_lost()
        self._warn_of_settles()

    def _warn_of_settles(self) -> None:
        """Name a bolt that forgot an ack, or settled twice, once per task (ACK-5, ACK-15)."""
        if self.core.forgotten_tuples and not self._warned_of_forgotten:
            self._warned_of_forgotten = True
            what = "its trees failed at once" if self.around.config.forgotten_ack == "fail" else "its trees wait for their timeout"
            self.reporter.warn(
                f"bolt {self.place.component_id!r} let go of a tuple without ack or fail; {what}. Call self.collector.ack(tup) or "
                "fail(tup) on every path, or derive from BasicBolt, which does it for you."
            )
        if self.core.settled_twice and not self._warned_of_double:
            self._warned_of_double = True
            self.reporter.warn(
                f"bolt {self.place.component_id!r} settled a tuple twice; the second ack or fail was ignored. Settle each input once."
            )

    @property
    def failures(self) -> dict[str, int]:
        """How many inputs failed, by reason."""
        core = self.core
        forgotten = {FORGOTTEN: core.forgotten_tuples} if core.forgotten_tuples and self.around.config.forgotten_ack == "fail" else {}
        return {**core.failures, **forgotten}

    @property
    def is_empty(self) -> bool:
        """True when nothing is in the mailbox, put aside, or in a call."""
        return self.at_rest and not len(self.core.mailbox) and not len(self.core.aside) and self.calls.in_flight == 0

    def check_returned(self, result: object) -> UsageError:
        """The error for a call that returned what it should not."""
        return UsageError(
            f"bolt {self.place.component_id!r}: execute() returned {result!r} ({type(result).__name__})",
            hint="A Bolt emits by self.collector.emit(...) and returns None; a BasicBolt yields or returns tuples of values.",
        )
