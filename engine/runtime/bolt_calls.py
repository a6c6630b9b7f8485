"""Makes the calls of `execute` that take time, one by one, several at once, or in threads (ACK-10)."""

import asyncio
import functools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures  # imports its thread pools on first use
from typing import Any, Final, cast

from engine.api import BasicBolt, BurstBolt, FailTuple, call_kind
from engine.api.basic_results import emit_result, record_result
from engine.cancellation import CancelledWork, was_cancelled
from engine.errors import Failure, UsageError
from engine.in_thread import begin_in_thread
from engine.kernel import BoltCore, Burst, StepTimer, Tuple, requeue
from engine.names import BEFORE_CALL, DEFAULT_STREAM, POOL_NAME
from engine.raised import without_exits
from engine.runtime.basic_collector import CURRENT_CALL, Call
from engine.runtime.error_report import ErrorReporter
from engine.runtime.held_calls import HoldingCollector
from engine.runtime.run_context import RunContext
from engine.safe_text import safe_repr
from engine.topology import ComponentSpec
from engine.waiters import Waiters

YIELD_AFTER_SECS: Final = 0.001


def slots_of(spec: ComponentSpec) -> int:
    """Return the number of calls that one task may run at once."""
    return max(spec.settings.concurrency, spec.settings.threads, 1)


class BoltCalls:
    """The running calls of one bolt task.

    wake: wakes the executor after a call has returned. on_slow_step: called with the seconds of a step that held the loop.
    """

    def __init__(
        self,
        core: BoltCore,
        spec: ComponentSpec,
        run_context: RunContext,
        reporter: ErrorReporter,
        *,
        wake: Callable[[], None],
        on_slow_step: Callable[[float], None],
    ) -> None:
        self._core = core
        self._spec = spec
        self._run_context = run_context
        self._reporter = reporter
        self._wake = wake
        self._bolt: Any = None
        self._emit: Callable[..., object] | None = None
        """Emits values that execute returns. None for a Bolt, because it returns no values."""
        self._holding: HoldingCollector | None = None
        """Collector of an instance with retries, which holds back what its calls emit."""
        self.fail_input: Callable[[Tuple, Failure], object] = core.fail
        """Fails an input whose values cannot go to the instance."""
        self.control: Tuple | None = None
        """Control tuple for which the executor waits until all calls have returned."""
        self._max_calls = 1
        self._before_call: Callable[[Tuple], None] | None = None
        self._pool: futures.ThreadPoolExecutor | None = None
        self._concurrent: dict[asyncio.Task[None], Call] = {}
        self._cancelled = CancelledWork()
        self._failures: deque[tuple[BaseException, Tuple]] = deque()
        self._awaited = 0
        """Calls that the executor itself awaits: 0 or 1."""
        self._awaited_since = 0.0
        self._timed = StepTimer(run_context.clock.now, core.slow_call_secs, on_slow_step)
        self._holders = 0
        """Coroutines in `wait_until_returned`. No call begins while there is one."""
        self._return_waiters = Waiters()
        self._loop_thread = threading.get_ident()
        self._turn_began = 0.0
        self._calls_of_turn = 0
        self.one_by_one = False
        """True if execute is async or runs in threads, so that the core cannot make several calls in a row."""
        self.takes_bursts = False
        """True if the instance takes many tuples in one call."""
        self.forgotten = self.settled_twice = 0
        """Numbers of dropped inputs and of second settles in other processes. The core counts those of this process."""

    def use_instance(self, bolt: Any, holding: HoldingCollector | None) -> None:
        """Call this instance from now on. holding: its collector, if it has retries."""
        settings = self._spec.settings
        self._bolt, self._holding = bolt, holding
        self._emit = self._core.emit if isinstance(bolt, BasicBolt) else None
        self._max_calls = slots_of(self._spec)
        self._before_call = getattr(bolt, BEFORE_CALL, None)
        threads_of_its_own = getattr(bolt, "execute_in_threads", None) if settings.threads > 0 else None
        if threads_of_its_own is not None:
            bolt.execute = threads_of_its_own
        self.takes_bursts = isinstance(bolt, BurstBolt) and "execute" not in vars(bolt)  # else a fault injector has wrapped `execute`
        self.one_by_one = not self.takes_bursts and (call_kind(bolt.execute).is_async or settings.threads > 0)
        self._failures.clear()
        if settings.threads > 0 and threads_of_its_own is None and self._pool is None:
            self._pool = futures.ThreadPoolExecutor(settings.threads, thread_name_prefix=f"{POOL_NAME} {self._spec.component_id}")

    def waiting(self) -> Sequence[Tuple]:
        """Return the inputs whose calls have not begun: in another process, or until they are tried again."""
        waiting = [call.tup for call in self._concurrent.values() if call.pause_secs and isinstance(call.tup, Tuple)]
        return [*waiting, self.control] if waiting and self.control is not None else waiting

    @property
    def in_flight(self) -> int:
        """Calls that have not returned, or whose error is not handled yet."""
        return len(self._concurrent) + len(self._failures) + self._awaited

    @property
    def running_secs(self) -> float:
        """Time since the begin of each running call, summed up. The core counts this time when the call ends."""
        now = self._run_context.clock.now()
        awaited = now - self._awaited_since if self._awaited else 0.0
        return awaited + sum(now - call.began for call in self._concurrent.values() if call.began is not None)

    @property
    def step_secs(self) -> float:
        """Time that the steps of async calls held the loop, since the task began."""
        return self._timed.total_secs

    @property
    def has_no_room(self) -> bool:
        """True while no further call may begin."""
        return len(self._concurrent) >= self._max_calls or self._holders > 0

    def is_in_thread(self) -> bool:
        """Return True on any thread but the loop's."""
        return threading.get_ident() != self._loop_thread

    async def begin_call(self, tup: Tuple) -> BaseException | None:
        """Begin the call for `tup`. If only one call may run at once, await it and return its error."""
        if self._max_calls == 1 and self._pool is None:
            return await self.await_call(tup)
        self._begin_concurrent(Call(tup, [] if self._pool is not None else None))
        return None

    def try_again(self, tup: Tuple, pause_secs: float) -> bool:
        """Make a call again that has raised, after a pause, and keep its place among the calls that run at once.

        Return False if calls run one at a time. Then the input waits before all others, and the executor pauses.
        """
        if not self.one_by_one or (self._max_calls == 1 and self._pool is None):
            requeue(self._core, tup)
            return False
        self._begin_concurrent(Call(tup, [] if self._pool is not None else None, pause_secs=pause_secs))
        return True

    def requeue_waiting(self) -> None:
        """Let the next instance take the inputs that wait until they are tried again."""
        waiting = [(aio_task, call.tup) for aio_task, call in self._concurrent.items() if call.pause_secs]
        for aio_task, tup in reversed(waiting):
            del self._concurrent[aio_task]
            aio_task.remove_done_callback(self._note_end)
            aio_task.cancel()
            requeue(self._core, cast(Tuple, tup))
        if waiting:
            self._return_waiters.wake_all()

    def _begin_concurrent(self, call: Call) -> None:
        if self._before_call is not None:
            self._before_call(cast(Tuple, call.tup))
        aio_task = self._run_context.loop.create_task(self._without_exit(call))
        self._concurrent[aio_task] = call
        aio_task.add_done_callback(self._note_end)

    async def yield_in_time(self) -> None:
        """Yield to the event loop after 1 ms or a burst of calls, even if no call suspends (BP-4)."""
        clock, resumed_at = self._run_context.clock, self._timed.resumed_at
        if resumed_at > self._turn_began:  # a call that suspended has let others run
            self._turn_began, self._calls_of_turn = resumed_at, 0
        self._calls_of_turn += 1
        if self._calls_of_turn >= self._run_context.config.burst or clock.now() - self._turn_began >= YIELD_AFTER_SECS:
            await asyncio.sleep(0)
            self._turn_began = clock.now()
            self._calls_of_turn = 0

    async def await_call(self, tup: Tuple | Burst, *returned: object) -> BaseException | None:
        """Make a call and await it. If the core has made the call, only await its result. Return the error that it raised."""
        core, now = self._core, self._run_context.clock.now
        self._awaited_since = now()
        raised: BaseException | None = None
        self._awaited += 1
        call = Call(tup, held=None if self._holding is None else self._holding.begin())
        token = CURRENT_CALL.set(call)
        core.guard_only(CURRENT_CALL, call)
        try:
            made = returned[0] if returned else self._bolt.execute(tup)
            await self._timed(emit_result(made, self._emit_of(call), (tup, DEFAULT_STREAM), self.wrong_result))
            self._send_held(call)
            core.end_call(now() - self._awaited_since, tup)
        except (Exception, asyncio.CancelledError) as error:
            core.add_awaited_secs(now() - self._awaited_since)
            if call.held is not None:
                call.held.drop()
            if was_cancelled(error):
                raise
            raised = error
        finally:
            CURRENT_CALL.reset(token)
            self._awaited -= 1
            self._return_waiters.wake_all()
        try:
            return raised
        finally:
            del raised  # else its traceback would keep this frame and its tuple alive (ACK-15)

    async def _without_exit(self, call: Call) -> None:
        await without_exits(self._run_concurrent(call))

    async def _run_concurrent(self, call: Call) -> None:
        """Make one of several calls that run at once."""
        core, tup, now = self._core, call.tup, self._run_context.clock.now
        if call.pause_secs:
            await asyncio.sleep(call.pause_secs)
            call.pause_secs = 0.0
        CURRENT_CALL.set(call)
        call.began = now()
        call.held = None if self._holding is None else self._holding.begin()
        try:
            if self._pool is None:
                emit = self._emit_of(call)
                await self._timed(emit_result(self._bolt.execute(tup), emit, (tup, DEFAULT_STREAM), self.wrong_result))
            else:
                await begin_in_thread(self._pool, functools.partial(self._run_in_thread, call))
                recorded, call.recorded = call.recorded or [], None
                emits = core if call.held is None else call.held
                for values, stream, task in recorded:
                    if task is None:
                        emits.emit(values, tup, stream)
                    else:
                        emits.emit_direct(task, values, tup, stream)
            self._send_held(call)
            core.end_call(call.end(now()), tup)
        except BaseException:
            self._count_failed(call)
            if call.held is not None:
                call.held.drop()
            raise

    def _emit_of(self, call: Call) -> Callable[..., object] | None:
        return self._emit if self._emit is None or call.held is None else call.held.emit

    def _send_held(self, call: Call) -> None:
        """Let the emits and settles of a call leave that has returned."""
        if call.held is not None and self._holding is not None:
            self._holding.end(call.held)

    def _count_failed(self, *calls: Call) -> None:
        """Count the time of calls that have raised, or whose instance is dead."""
        now = self._run_context.clock.now()
        for call in calls:
            self._core.add_awaited_secs(call.end(now))

    def _run_in_thread(self, call: Call) -> None:
        """Run execute on a thread, and record the values that it emits."""
        assert call.recorded is not None
        record_result(self._bolt.execute(call.tup), call.recorded, self.wrong_result)

    def wrong_result(self, result: object) -> UsageError:
        """Return the error for a result of execute that is not allowed."""
        if self.takes_bursts:
            return UsageError(
                f"bolt {self._spec.component_id!r}: execute_many() returned {safe_repr(result)} ({type(result).__name__})"[:300],
                hint="A BurstBolt emits by self.collector.emit(values, tup) and returns None. A @bolt(burst=True) may yield pairs.",
            )
        return UsageError(
            f"bolt {self._spec.component_id!r}: execute() returned {safe_repr(result)} ({type(result).__name__})",
            hint="A Bolt emits by self.collector.emit(...) and returns None. A BasicBolt yields or returns tuples of values.",
        )

    def _note_end(self, aio_task: asyncio.Task[None]) -> None:
        call = self._concurrent.pop(aio_task, None)
        if call is None:  # its instance died in the same turn, and `cancel_all` has handled it
            return
        own = "the call cancelled the asyncio task that runs it"  # `cancel_all` has not cancelled this call, so the call cancelled itself
        error = asyncio.CancelledError(own) if aio_task.cancelled() else aio_task.exception()
        if error is not None:
            self._failures.append((error, cast(Tuple, call.tup)))  # calls with a burst never run at once
        self._return_waiters.wake_all()
        self._wake()

    def take_failure(self) -> tuple[BaseException, Tuple] | None:
        """Remove and return the oldest error of a concurrent call, with its input."""
        return self._failures.popleft() if self._failures else None

    async def wait_until_returned(self) -> None:
        """Wait until all calls have returned.

        No call begins meanwhile. A running call must not await this method, because it would wait for itself.
        """
        if not self._concurrent and not self._awaited:
            return
        self._holders += 1
        try:
            while self._concurrent or self._awaited:
                await self._return_waiters.wait()
        finally:
            self._holders -= 1
            self._wake()

    async def cancel_all(self) -> tuple[list[BaseException], int]:
        """Cancel all calls, and return the result of `cancel_and_wait`. A call in a thread runs on, and its emits are dropped."""
        running = list(self._concurrent)
        self._count_failed(*self._concurrent.values())
        for aio_task in running:
            aio_task.remove_done_callback(self._note_end)
        self._concurrent.clear()
        while self._failures:
            error, tup = self._failures.popleft()
            if not _is_quiet(error):
                self._reporter.report(error, tup=tup, next_step="the input fails with the instance")
        try:
            errors, still_running = await self._cancelled.cancel(running)
            return [error for error in errors if not _is_quiet(error)], still_running
        finally:
            self._return_waiters.wake_all()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None


def _is_quiet(error: BaseException) -> bool:
    """Tell whether an error only fails its input, without a report (ACK-11)."""
    return isinstance(error, FailTuple) and not error.report
