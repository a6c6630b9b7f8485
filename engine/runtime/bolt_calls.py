"""Calls of execute that take time: awaited one after the other, several in flight, or in a pool of threads (ACK-10)."""

import asyncio
import contextvars
import functools
import inspect
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from concurrent import futures  # loads its thread pools when one is made
from contextlib import aclosing
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final

from engine.api import BasicBolt, call_kind
from engine.kernel import StepTimer, Tuple
from engine.names import DEFAULT_STREAM, POOL_NAME
from engine.raised import without_exits
from engine.runtime.bolt_collector import CURRENT_CALL, Call
from engine.runtime.ending import end_all, is_cancelled_from_outside
from engine.topology import ComponentSettings

if TYPE_CHECKING:
    from engine.runtime.bolt_executor import BoltExecutor

YIELD_AFTER_SECS: Final = 0.001


class BoltCalls:
    """The calls of one bolt task that are in flight."""

    def __init__(self, executor: "BoltExecutor") -> None:
        self._executor = executor
        self._bolt: Any = None
        self._is_basic = False
        self._width = 1
        self._pool: futures.ThreadPoolExecutor | None = None
        self._tasks: dict[asyncio.Task[None], Tuple] = {}
        self._failures: deque[tuple[BaseException, Tuple]] = deque()
        self._alone = 0
        self._timed = StepTimer(executor.around.clock.now, executor.core.slow_call_secs, executor.slow_calls.note)
        self._awaited_by = 0
        self._on_return: list[asyncio.Future[None]] = []
        self._loop_thread = threading.get_ident()
        self._turn_began = 0.0
        self._calls_of_turn = 0
        self.one_by_one = False
        """True where execute is async, or runs in threads: no bursts."""

    def serve(self, bolt: Any, settings: ComponentSettings) -> None:
        """Serve a new instance."""
        self._bolt = bolt
        self._is_basic = isinstance(bolt, BasicBolt)
        self._width = max(settings.concurrency, settings.threads, 1)
        threads_of_its_own = getattr(bolt, "execute_in_threads", None) if settings.threads > 0 else None
        if threads_of_its_own is not None:
            bolt.execute = threads_of_its_own
        self.one_by_one = call_kind(bolt.execute).is_async or settings.threads > 0
        self._failures.clear()
        if settings.threads > 0 and threads_of_its_own is None and self._pool is None:
            self._pool = futures.ThreadPoolExecutor(settings.threads, thread_name_prefix=f"{POOL_NAME} {self._executor.place.component_id}")

    @property
    def in_flight(self) -> int:
        """Calls that have not returned, or whose error is not dealt with."""
        return len(self._tasks) + len(self._failures) + self._alone

    @property
    def takes_none(self) -> bool:
        """True while no further call may begin."""
        return len(self._tasks) >= self._width or self._awaited_by > 0

    def in_thread(self) -> bool:
        """True on any thread but the loop's."""
        return threading.get_ident() != self._loop_thread

    async def begin(self, tup: Tuple) -> None:
        """Begin the call for tup; return at once where several may be in flight, else when it has returned."""
        if self._width == 1 and self._pool is None:
            await self.run_alone(tup)
        else:
            aio_task = self._executor.around.loop.create_task(self._without_exit(tup))
            self._tasks[aio_task] = tup
            aio_task.add_done_callback(self._ended)
        await self.yield_in_time()

    async def yield_in_time(self) -> None:
        """Give the loop its turn though no call suspends (BP-4)."""
        around, resumed_at = self._executor.around, self._timed.resumed_at
        if resumed_at > self._turn_began:  # a call that suspended has given it
            self._turn_began, self._calls_of_turn = resumed_at, 0
        self._calls_of_turn += 1
        if self._calls_of_turn >= around.config.burst or around.clock.now() - self._turn_began >= YIELD_AFTER_SECS:
            await asyncio.sleep(0)
            self._turn_began = around.clock.now()
            self._calls_of_turn = 0

    async def run_alone(self, tup: Tuple, *returned: object) -> None:
        """Make the one call that is in flight, or, where a burst has made it, wait for what it returned; survive what it raises."""
        executor = self._executor
        started = executor.around.clock.now()
        raised: BaseException | None = None
        self._alone += 1
        call = Call(tup)
        token = CURRENT_CALL.set(call)
        executor.core.guard_only(CURRENT_CALL, call)
        try:
            await self._timed(self._consume(tup, returned[0] if returned else self._bolt.execute(tup)))
            executor.core.end_call(started, tup)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled_from_outside():
                raise
            raised = error
        finally:
            CURRENT_CALL.reset(token)
            self._alone -= 1
            self._came_back()
        if raised is not None:
            await executor.survive_call(raised, tup)
            del raised

    async def _without_exit(self, tup: Tuple) -> None:
        await without_exits(self._one(tup))

    async def _one(self, tup: Tuple) -> None:
        """One call among several in flight."""
        executor = self._executor
        started = executor.around.clock.now()
        call = Call(tup, [] if self._pool is not None else None)
        CURRENT_CALL.set(call)
        if self._pool is None:
            await self._timed(self._consume(tup, self._bolt.execute(tup)))
        else:
            await executor.around.loop.run_in_executor(self._pool, contextvars.copy_context().run, functools.partial(self._in_pool, call))
            recorded, call.recorded = call.recorded or [], None
            for values, stream, task in recorded:
                if task is None:
                    executor.core.emit(values, tup, stream)
                else:
                    executor.core.emit_direct(task, values, tup, stream)
        executor.core.end_call(started, tup)

    def _in_pool(self, call: Call) -> None:
        """On a thread: run execute to its end, recording what it emits."""
        result = self._bolt.execute(call.tup)
        assert call.recorded is not None
        if isinstance(result, tuple):
            call.recorded.append((result, DEFAULT_STREAM, None))
        elif isinstance(result, GeneratorType):
            call.recorded.extend((values, DEFAULT_STREAM, None) for values in result)
        elif result is not None:
            raise self._executor.check_returned(result)

    async def _consume(self, tup: Tuple | None, result: object) -> None:
        """Await a coroutine, emit what a BasicBolt returned or yields."""
        if inspect.isawaitable(result):
            result = await result
        if result is None:
            return
        emit = self._executor.core.emit
        if not self._is_basic or isinstance(result, (str, bytes)):
            raise self._executor.check_returned(result)
        if isinstance(result, tuple):
            emit(result, tup, DEFAULT_STREAM)
        elif isinstance(result, AsyncGenerator):
            async with aclosing(result):
                async for values in result:
                    emit(values, tup, DEFAULT_STREAM)
        elif isinstance(result, AsyncIterable):
            async for values in result:
                emit(values, tup, DEFAULT_STREAM)
        elif isinstance(result, Iterable):
            for values in result:
                emit(values, tup, DEFAULT_STREAM)
        else:
            raise self._executor.check_returned(result)

    def _ended(self, aio_task: asyncio.Task[None]) -> None:
        tup = self._tasks.pop(aio_task, None)
        if tup is None:  # its instance died in the same turn, and `end` has dealt with it
            return
        own = "the call cancelled the asyncio task that runs it"  # not by `end`: the component's own
        error = asyncio.CancelledError(own) if aio_task.cancelled() else aio_task.exception()
        if error is not None:
            self._failures.append((error, tup))
        self._came_back()
        self._executor.doorbell.ring()

    def take_failure(self) -> tuple[BaseException, Tuple] | None:
        """What a call that ended has raised, and its input; the oldest first."""
        return self._failures.popleft() if self._failures else None

    async def returned(self) -> None:
        """Wait until every call has returned; none begins meanwhile. Not from within a call."""
        if not self._tasks and not self._alone:
            return
        self._awaited_by += 1
        try:
            while self._tasks or self._alone:
                came_back = self._executor.around.loop.create_future()
                self._on_return.append(came_back)
                await came_back
        finally:
            self._awaited_by -= 1
            self._executor.doorbell.ring()

    def _came_back(self) -> None:
        """A call has returned, one way or another."""
        waiting, self._on_return = self._on_return, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def end(self) -> tuple[list[BaseException], int]:
        """Cancel every call, and wait for it, as `end_all`; a thread's call runs on, and what it recorded is dropped."""
        running = list(self._tasks)
        for aio_task in running:
            aio_task.remove_done_callback(self._ended)
        self._tasks.clear()
        while self._failures:
            error, tup = self._failures.popleft()
            self._executor.reporter.report(error, tup=tup, next_step="the input fails with the instance")
        try:
            return await end_all(running)
        finally:
            self._came_back()
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
