"""A spout's executor: hands out verdicts, polls, and waits in between."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from engine.api import GeneratorBroken, Inlet, InletHandle, Spout, SpoutExhausted
from engine.errors import TASK_DIED, ComponentError, Failure, UsageError
from engine.kernel import EdgeIds, SignalRing, SpoutCore, SpoutOutcome, StepTimer
from engine.runtime.ending import is_cancelled_from_outside
from engine.runtime.error_report import error_text
from engine.runtime.executor import Executor
from engine.runtime.kept_rows import KeptRows
from engine.runtime.misuse import Misuse
from engine.runtime.spout_collector import ExecutorSpoutCollector
from engine.runtime.spout_port import ExecutorSpoutPort
from engine.runtime.surroundings import RunSurroundings, TaskPlace
from engine.runtime.task_context import ExecutorContext
from engine.topology import ComponentSpec
from engine.topology.task_port import SpoutPortUser, SpoutStatus

FIRST_PAUSE_SECS: Final = 0.001
LONGEST_PAUSE_SECS: Final = 0.064


class PendingWindow(Protocol):
    """Says, after each burst, how many trees the tasks of a spout may have open: `max_spout_pending="auto"` (FC-8)."""

    @property
    def max_pending(self) -> int:
        """The bound of the moment."""

    def after_burst(self, task_index: int, now: float, acked: int, failed: int, open_trees: int, limited: bool | None) -> int:
        """Return the bound from here; `limited`: whether it keeps the task from being polled, None where nothing does."""


class SpoutExecutor(Executor):
    """The actor of one spout task."""

    core: SpoutCore
    paces_restarts = True  # each instance reads its source again, and may claim a durable epoch

    def __init__(
        self, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings, ackers: list[SignalRing], window: PendingWindow | None = None
    ) -> None:
        super().__init__(place, spec, around)
        config, bound = around.config, spec.pending_bound(around.config)
        self.verdicts = SignalRing(self.doorbell.ring)
        self.core = SpoutCore(
            place.task_id,
            verdicts=self.verdicts,
            max_pending=window.max_pending if window is not None else bound if isinstance(bound, int) else 0,
            acker_failure=Failure(TASK_DIED, "__acker", None, "the acker of the tree died"),
            ids=EdgeIds(around.random.uint64("edges", place.task_id)),
            ackers=ackers,
            now=around.clock.now,
            misuse=Misuse(spec),
            backlog=around.backlog,
            slow_call_secs=config.slow_call_warn_ms / 1000,
        )
        self.core.backpressure.set_on_resume(self.resumed)
        self.port = ExecutorSpoutPort(self)
        self.failures: Counter[str] = Counter()
        """How many trees failed, by reason."""
        self.inlet: InletHandle | None = None
        self.exhausted = False
        self.active = False
        self.waits_for_wake = False
        """Said by the spout: a poll by time would find nothing to do."""
        self.broken: ComponentError | None = None
        """Set when a generator broke: the run drains and ends with it (ACK-13)."""
        self._progress: int | None = None
        """As the last instance said it at its death; None: it has none of its own."""
        self._window = window
        self._pause_secs = FIRST_PAUSE_SECS
        self._context: ExecutorContext | None = None
        self._switches: list[tuple[bool, asyncio.Future[None]]] = []
        self._in_call = self._held_back = False
        self._timed = StepTimer(around.clock.now, self.core.slow_call_secs, self.slow_calls.note)
        self._rows = KeptRows(self, around.loop, around.clock.now)

    # The instance

    async def _make_instance(self) -> None:
        spout: Any = self.spec.factory.create()
        self._background = self._new_background()
        self._context = spout.context = self._new_context(self._background)
        self._collector = spout.collector = ExecutorSpoutCollector(self.core, self._rows, ready=self.ready, report_error=self.report_own)
        if isinstance(spout, SpoutPortUser):
            spout.port = self.port
        if isinstance(spout, Inlet):
            self.inlet = self.around.inlets.setdefault(self.place.component_id, spout.handle)
            spout.use_handle(self.inlet)
        self.component = spout
        listens = type(spout).ack is not Spout.ack or "ack" in vars(spout)
        self.core.bind(spout.next_tuple, spout.ack if listens else None, self._fail, self.port.listener)
        self.exhausted = False
        await self.call(spout.open)
        if self.active:
            await self.call(spout.activate)
        self._set_polling()

    async def _halt(self) -> None:
        self._rows.drop()
        self.core.polling = False

    def _closes_by(self, component: Any) -> Callable[[], Any]:
        return component.close  # type: ignore[no-any-return]

    async def close(self) -> None:
        """End the coroutine, then close the instance."""
        await super().close()
        while self._switches:
            self._switches.pop()[1].set_result(None)
        self.core.drop_instance()  # its message ids may lead back to the run, which no garbage collector sees

    def _settled(self) -> int:
        """Count what an instance got done: a spout that dies of each verdict gets no further."""
        if isinstance(self.component, SpoutPortUser):
            self._progress = self.component.progress
        return self.core.handed_out if self._progress is None else self._progress

    def _fail_instance(self, failure: Failure) -> None:
        """The trees of a dead instance are dropped; its source replays them (ACK-13)."""
        self._rows.drop()
        self.core.drop_instance()
        self.exhausted = False  # the next instance reads its source again: the run is not complete before

    def _fail(self, message_id: object, failure: Failure) -> Awaitable[None] | None:
        """Hand one failed tree to the spout, which may ask why; it is polled again (RUN-2)."""
        context = self._context
        assert context is not None
        self.poll_again()
        self.failures[failure.reason] += 1
        context.failure = failure
        result: Awaitable[None] | None = None
        try:
            result = self.component.fail(message_id)
        finally:
            if result is None:
                context.failure = None
        return result

    def poll_again(self) -> None:
        """Poll it though it is exhausted, until it raises SpoutExhausted again."""
        self.exhausted = False
        self._set_polling()

    def _set_polling(self) -> None:
        self.core.polling = self.active and not self.exhausted and not self._held_back and not self._rows

    # Rows that an emit_many has yet to emit

    def may_emit_rows(self) -> bool:
        return self._serves and not self._held_back and not self.core.backpressure.stopped_by

    def rows_changed(self) -> None:
        if isinstance(self._collector, ExecutorSpoutCollector):
            self._collector.divert(bool(self._rows))
        self._set_polling()
        self.doorbell.ring()

    def rows_failed(self, error: BaseException) -> None:
        if not isinstance(error, (Exception, asyncio.CancelledError)):
            self.around.give_up(self._unsurvivable(error))
        elif self.error_mode(error) != "fail":
            self._background_failed(error)
        else:  # as if the call had raised it
            self.reporter.report(error, next_step="the rows behind it are not emitted; the instance goes on")
            if self.streak.note_failure(self.around.clock.now(), self.core.emitted + self.core.handed_out):
                self._background_failed(error)

    def rows_took(self, secs: float) -> None:
        self.core.end_await(secs)

    def resumed(self) -> None:
        super().resumed()
        self._rows.go_on()

    async def ready(self) -> None:
        """Wait until the task may emit, and nothing is kept before it."""
        await super().ready()
        while self._rows:
            await self._rows.emptied()
            await super().ready()

    # Activity

    async def switch(self, *, active: bool) -> None:
        """Call activate or deactivate between two other calls of the spout, and poll accordingly; return when that is done."""
        if self.core.closing:
            return
        done: asyncio.Future[None] = self.around.loop.create_future()
        self._switches.append((active, done))
        self.doorbell.ring()
        await done

    def hold_back(self, *, on: bool) -> None:
        """Poll not, or again, whatever the activity; for a recovery of the state."""
        self._held_back = on
        self._set_polling()
        self._rows.go_on()
        self.doorbell.ring()

    def stop_polling(self) -> None:
        """Poll no more, at once; for a drain."""
        self.active = False
        self._set_polling()

    async def _apply_switches(self) -> None:
        while self._switches:
            active, done = self._switches.pop(0)
            try:
                if active != self.active:
                    self.active = active
                    self._set_polling()
                    await self.call(self.component.activate if active else self.component.deactivate)
            finally:
                if not done.done():
                    done.set_result(None)

    # The turns

    async def _serve(self) -> None:
        """Run bursts while the instance is to go on."""
        while self._serves:
            try:
                if self._switches:
                    await self._apply_switches()
                await self._turn()
            except SpoutExhausted:
                self._note_exhausted()
            except GeneratorBroken as error:
                self._note_broken(error)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelled_from_outside():
                    raise
                await self._survive_error(error)

    async def _turn(self) -> None:
        core, self.waits_for_wake = self.core, False
        outcome = core.run_burst(self.around.config.burst)
        if self._window is not None:
            self._adapt(self._window, outcome)
        if core.slowest_call:
            self.slow_calls.look(core)
        if outcome in (SpoutOutcome.POLL_AGAIN, SpoutOutcome.GAVE_WAY):
            self._pause_secs = FIRST_PAUSE_SECS
            await asyncio.sleep(0)
        elif outcome == SpoutOutcome.AWAITABLE:
            await self._await_call(core.returned)
        elif outcome == SpoutOutcome.NOTHING_NEW:
            await self._pause()
        else:
            await self._park(None)

    def _adapt(self, window: PendingWindow, outcome: int) -> None:
        core, limited = self.core, None
        if core.polling and core.pending >= core.max_pending:
            limited = True
        elif outcome not in (SpoutOutcome.POLL_AGAIN, SpoutOutcome.GAVE_WAY):
            limited = False
        now = self.around.clock.now()
        core.max_pending = window.after_burst(self.place.task_index, now, core.acked, core.failed, core.pending, limited)

    async def _await_call(self, returned: object) -> None:
        """Wait for an async method; warn of one that takes long, since verdicts wait too."""
        core, now = self.core, self.around.clock.now
        self.core.forget_returned()
        if not inspect.isawaitable(returned):
            raise UsageError(
                f"spout {self.place.component_id!r}: a method returned {returned!r} ({type(returned).__name__})",
                hint="next_tuple, ack and fail return None; tuples are emitted by self.collector.emit(...).",
            )
        started = now()
        timer = self.around.loop.call_later(self.around.config.slow_call_warn_ms / 1000, self._warn_of_wait)
        self._in_call = True
        try:
            await self._timed(_awaited(returned))
            core.note_returned()
        finally:
            self._in_call = False
            timer.cancel()
            core.end_await(now() - started)
            if self._context is not None:
                self._context.failure = None
        if core.polled_in_vain():
            await self._pause()
        else:
            self._pause_secs = FIRST_PAUSE_SECS
            if now() - started < FIRST_PAUSE_SECS:
                await asyncio.sleep(0)

    def _warn_of_wait(self) -> None:
        if not self.slow_calls.may_warn():
            return
        limit_ms = self.around.config.slow_call_warn_ms
        self.reporter.warn(
            f"an async method of spout {self.place.component_id!r} has been waiting for {limit_ms:g} ms; its acks and fails wait too. "
            "Wait in self.context.create_task(...) and call self.context.wake(), or use an async-generator @spout."
        )

    async def _pause(self) -> None:
        """The spout had nothing: poll again after a pause that doubles, or at a wake, an ack or a fail."""
        if self.waits_for_wake:
            await self._park(None)
            return
        pause, self._pause_secs = self._pause_secs, min(2 * self._pause_secs, LONGEST_PAUSE_SECS)
        if await self._park(pause):
            self._pause_secs = FIRST_PAUSE_SECS

    async def _park(self, timeout_secs: float | None) -> bool:
        """Wait for a verdict, a wake, a resume or a switch; True when something came before the timeout."""
        if self._switches or not self.verdicts.park():
            return True
        try:
            return await self.rest(timeout_secs)
        finally:
            self.verdicts.unpark()

    # Ends

    def _note_exhausted(self) -> None:
        self.exhausted = True
        self._set_polling()

    def _note_broken(self, error: GeneratorBroken) -> None:
        """A generator cannot resume: report it; the run drains and ends with the error (ACK-13)."""
        cause = error.__cause__ or error
        self.reporter.report(cause, next_step="the run drains and ends: a generator that raised cannot resume")
        self.broken = ComponentError(self.place.component_id, self.place.task_id, cause, message=error.message, hint=error.hint)
        self._note_exhausted()

    async def _survive_error(self, error: BaseException) -> None:
        """A call raised: have the instance go on, or another one begin, as `on_error` says."""
        if self.error_mode(error) != "fail":
            await self._replace(error)
            return
        self.reporter.report(error, next_step="the instance goes on")
        if self.streak.note_failure(self.around.clock.now(), self.core.emitted + self.core.handed_out):
            await self._renew(error)
        else:  # a wake does not cut this pause short: a spout that raises and wakes itself would spin
            await asyncio.sleep(min(LONGEST_PAUSE_SECS, FIRST_PAUSE_SECS * 2 ** min(self.streak.length - 1, 10)))

    async def _let_calls_return(self) -> None:
        """Return at once: between two turns a spout has no call running."""

    async def _stay_down(self, secs: float, failure: Failure) -> None:
        """Wait for the next try of an instance; a switch of the activity is noted for it."""
        now = self.around.clock.now
        until = now() + secs
        while (left := until - now()) > 0 and self._serves:
            while self._switches:
                self.active, done = self._switches.pop(0)
                if not done.done():
                    done.set_result(None)
            await self.rest(left)

    @property
    def is_empty(self) -> bool:
        """True when no tree is open, nothing waits, and no method runs."""
        core = self.core
        if not self.at_rest or core.pending or len(self.verdicts) or core.has_acks_to_flush or self._in_call:
            return False
        return not self.is_busy

    @property
    def is_busy(self) -> bool:
        """True while more follows by itself, though no tree is open."""
        return bool(self._rows) or (isinstance(self.component, SpoutPortUser) and self.component.is_busy)

    @property
    def is_done(self) -> bool:
        """True when the source is exhausted and all that it emitted has its verdict (RUN-2)."""
        return self.exhausted and self.is_empty and self.inlet_is_quiet

    @property
    def inlet_is_quiet(self) -> bool:
        """True unless senders wait at this spout's inlet."""
        return self.inlet is None or self.inlet.waiting == 0

    @property
    def status(self) -> SpoutStatus:
        """What the task does just now."""
        core = self.core
        if not self.active:
            return "inactive" if core.pending else "drained"
        if self.exhausted:
            return "exhausted"
        if core.backpressure.stopped_by or (core.max_pending and core.pending >= core.max_pending):
            return "full"
        if self.inlet is not None and self.inlet.waiting:
            return "waited_for"
        return "polling"

    def task_failure(self, error: BaseException) -> Failure:
        """Why the sends of an inlet fail when the run dies."""
        return Failure(TASK_DIED, self.place.component_id, self.place.task_id, error_text(error))


async def _awaited(returned: Awaitable[None]) -> None:
    await returned
