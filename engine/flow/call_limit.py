"""Limits the time of one call of `process` (FC-9), and runs calls in threads that can be abandoned."""

import asyncio
import inspect
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from operator import length_hint
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from engine.api import TaskContext
from engine.errors import FatalError
from engine.flow.records import PackCall
from engine.kernel import StepTimer
from engine.log import EngineLogger
from engine.raised import without_exits
from engine.safe_text import safe_repr

CHECKS_PER_LIMIT: Final = 8
"""Number of checks of a running call within its limit. The delay until an overdue call is found is at most an eighth of the limit."""
GRACE_SECS: Final = 1.0
"""Time that a cancelled coroutine has to end, before it is abandoned."""
MAX_ABANDONED: Final = 16
"""Maximum number of abandoned calls of one task.

At this number the next call ends the run, because only the end of the process stops abandoned calls.
"""
WARNING_PAUSE_SECS: Final = 60.0
SHOWN_CHARACTERS: Final = 200
IDLE_THREAD_SECS: Final = 10.0
"""Time without work after which a thread ends."""
_ROUNDING_SECS: Final = 1e-6
LOGGER: Final = EngineLogger("engine.flow")
_P = ParamSpec("_P")
_T = TypeVar("_T")

_ABANDONED: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], set[asyncio.Future[Any]]]]] = WeakKeyDictionary()
"""Abandoned calls by loop, topology and task. The bolt does not store them, because an abandoned call may run longer than the instance."""


class CallLimit:
    """Enforces the time limit for the calls of one instance of a bolt."""

    def __init__(self, context: TaskContext, secs: float | None) -> None:
        """secs: the bolt's own limit. None: the limit of the config."""
        config = context.config
        if secs is None:
            secs = config.call_timeout_secs
        if secs is None:
            secs = config.message_timeout_secs if config.enable_message_timeouts else math.inf
        self.secs: Final = secs
        self._where = f"bolt {context.component_id!r}"
        self._now = context.clock.now
        self._logger = LOGGER.for_task(context.component_id, context.task_id)
        self._timer = StepTimer(self._now, config.slow_call_warn_ms / 1000, self._warn_of_slow_call)
        self._next_warning = -math.inf
        by_task = _ABANDONED.setdefault(asyncio.get_running_loop(), {})
        self._abandoned = by_task.setdefault((context.topology_name, context.task_id), set())

    async def run_coroutine(self, call: PackCall, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine of a call within the limit. Raises TimeoutError, or the error of the coroutine."""
        if math.isinf(self.secs):
            await work
            return
        try:
            self.check_abandoned()
            await self._wait_for(call, asyncio.get_running_loop().create_task(self._timed(work)), cancels=True)
        except BaseException:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # the instance has ended before the coroutine began
                work.close()
            raise

    async def wait_for_thread(self, call: PackCall, working: asyncio.Future[None]) -> None:
        """Wait for a call in a thread within the limit. An overdue thread is abandoned at once, because Python cannot cancel a thread."""
        await self._wait_for(call, working, cancels=False)

    def check_abandoned(self) -> None:
        """Raise FatalError if the task has too many abandoned calls."""
        if len(self._abandoned) >= MAX_ABANDONED:
            raise FatalError(
                f"{self._where}: {len(self._abandoned)} calls of process() still run after their limit of {self.secs:g} s "
                "(call_timeout_secs). Only a restart of the program ends them",
                hint="Let asyncio.CancelledError pass, and give blocking calls a timeout of their own. Or raise call_timeout_secs.",
            )

    async def _timed(self, work: Coroutine[Any, Any, None]) -> None:
        await self._timer(without_exits(work))

    async def _wait_for(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> None:
        check_secs = None if math.isinf(self.secs) else self.secs / CHECKS_PER_LIMIT
        seen, since = call.progress, self._now()
        try:
            while not working.done():
                await asyncio.wait((working,), timeout=check_secs)
                progress, now = call.progress, self._now()
                if progress != seen:
                    seen, since = progress, now
                elif not working.done() and now - since >= self.secs - _ROUNDING_SECS:
                    raise await self._end_overdue(call, working, cancels=cancels)
        except asyncio.CancelledError:  # this instance of the bolt ends
            if not await self._end(call, working, cancels=cancels):
                self._logger.warning("%s: a call of process() still runs although its instance has ended.", self._where)
            raise
        if working.cancelled():
            raise asyncio.CancelledError("process() cancelled the asyncio task that runs it")
        working.result()

    async def _end_overdue(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> TimeoutError:
        """End an overdue call, and return its error."""
        record = call.records[max(len(call.records) - length_hint(call.left) - 1, 0)]
        call.mark_failed()
        has_ended = await self._end(call, working, cancels=cancels)
        what = "was cancelled"
        if not has_ended:
            state = f"still runs {GRACE_SECS:g} s after it was cancelled" if cancels else "still runs in its thread, which was replaced"
            what = f"{state} (calls of this task that still run: {len(self._abandoned)}, at most {MAX_ABANDONED})"
        shown = safe_repr(record, SHOWN_CHARACTERS)
        return TimeoutError(f"process() did not return within {self.secs:g} s (call_timeout_secs), and {what}. Record: {shown}")

    async def _end(self, call: PackCall, working: asyncio.Future[None], *, cancels: bool) -> bool:
        """End a call. With `cancels`, cancel the call and wait at most GRACE_SECS. If the call still runs, abandon it and return False."""
        call.is_over = True
        try:
            if cancels and not working.done():
                working.cancel()
                await asyncio.wait((working,), timeout=GRACE_SECS)
        finally:
            if not working.done():
                self._abandoned.add(working)
            working.add_done_callback(self._forget)
        return working.done()

    def _forget(self, working: asyncio.Future[None]) -> None:
        """Drop an abandoned call that has ended after all."""
        self._abandoned.discard(working)
        if not working.cancelled():
            working.exception()  # else asyncio logs that the exception was never retrieved

    def _warn_of_slow_call(self, secs: float) -> None:
        now = self._now()
        if now >= self._next_warning:
            self._next_warning = now + WARNING_PAUSE_SECS
            self._logger.warning(
                "one call of %s held the event loop for %.0f ms: nothing else ran meanwhile. Await slow operations, use threads=n for "
                "blocking code, or do less in one call.",
                self._where,
                secs * 1000,
            )


class DaemonThreads(Executor):
    """Thread pool without a queue. Each job gets an idle thread or a new thread. The callers bound the number of jobs.

    The threads of `concurrent.futures` are joined when the interpreter exits, so a thread that hangs would keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: deque[_Thread] = deque()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run a function in a thread."""
        future: Future[_T] = Future()
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._name, self._idle)
            thread.start()
        thread.jobs.put((future, lambda: fn(*args, **kwargs)))
        return future


class _Thread(threading.Thread):
    def __init__(self, name: str, idle: "deque[_Thread]") -> None:
        self._names = f"idle {name}", f"{name}_0"
        """Names while it waits and while it works. By the latter, that of a ThreadPoolExecutor, `engine run` finds a call that hangs."""
        super().__init__(name=self._names[0], daemon=True)
        self.jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = idle

    def run(self) -> None:
        while True:
            try:
                future, work = self.jobs.get(timeout=IDLE_THREAD_SECS)
            except Empty:
                try:
                    self._idle.remove(self)
                except ValueError:  # submit() has just removed this thread from `_idle`, so a job follows
                    continue
                return
            if future.set_running_or_notify_cancel():
                self._do(future, work)
            del future, work
            self._idle.append(self)

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        idle_name, self.name = self._names
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self.name = idle_name
            future.set_exception(error)
        else:
            self.name = idle_name
            future.set_result(result)
