"""Runner of a batch bolt, with one instance for each attempt. Calls of different attempts are concurrent (TX-5, TX-6)."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, Final, cast

from engine.api import BoltBase, Tuple, call_kind
from engine.cancellation import CALL_ERRORS, cancel_requests, was_cancelled
from engine.coroutine_steps import instance_context
from engine.errors import FAILED, UsageError
from engine.kernel import Burst, TaskBatch
from engine.maybe_await import discard_awaitables
from engine.safe_text import safe_repr
from engine.transactional.batch_bolt import BURST_SETTLER, BatchBolt, BurstBolt
from engine.transactional.batch_collectors import BatchBoltCollector
from engine.transactional.batch_runner import BatchRunner, BoltWiring, OpenAttempt
from engine.transactional.resources import OpenResources

REFRESHES_PER_TIMEOUT: Final = 8
"""Largest number of timeout refreshes in `batch_timeout_secs`, while calls of a batch return."""
CALLS_PER_TURN: Final = 256
"""Calls for waiting tuples before the event loop runs other tasks (BP-4)."""


class BatchBoltRunner(BatchRunner):
    """Makes an instance for each attempt. If one of its methods is `async`, an aio_task for the attempt awaits it."""

    def __init__(self, wiring: BoltWiring) -> None:
        super().__init__(wiring)
        self._aio_tasks: dict[OpenAttempt, asyncio.Task[None]] = {}
        self._awaited: dict[OpenAttempt, Awaitable[object]] = {}
        """Result of the last call of an instance, which its aio_task will await."""
        self._ending: set[asyncio.Task[None]] = set()
        """Cancelled aio_tasks of old attempts. A committer calls finish_batch only after they have ended (TX-2)."""
        self._finishing: set[OpenAttempt] = set()
        self._cleanups: set[asyncio.Task[None]] = set()
        """Cleanups of old instances. The task ends after them."""
        self._all_aio_tasks: set[asyncio.Task[None]] = set()
        self._room: asyncio.Future[None] | None = None

    @property
    def execute(self) -> Callable[[Any], Any]:
        """The compiled function that the task calls for every tuple."""
        if not hasattr(self, "feed"):
            self.prepare_feed(emits_results=False)
            self._resources = OpenResources(self.context)
            self._cleanups = self._wiring.cleanups.setdefault(self.context.task_id, set())
            self._all_aio_tasks = self._wiring.aio_tasks.setdefault(self.context.task_id, set())
            for aio_task in self._all_aio_tasks:  # calls of a dead runner of this task
                self._note_ending(aio_task)
        return self.feed.execute

    @property
    def is_busy(self) -> bool:
        """True while results of calls are awaited."""
        return bool(self._all_aio_tasks)

    # An attempt's instance

    def _begin_instance(self, open_attempt: OpenAttempt) -> None:
        bolt: BatchBolt = self._wiring.spec.factory.create()
        bolt.attempt = open_attempt.attempt
        bolt.collector = BatchBoltCollector(open_attempt.batch, self.collector)
        bolt.context = self.context
        bolt.resources = self._resources
        bolt.replays_differ = self._wiring.replays_differ
        open_attempt.instance = bolt
        self._run_on(open_attempt, bolt.prepare(), "prepare")
        if isinstance(bolt, BurstBolt) and "execute" not in vars(bolt):  # else a fault injector has wrapped `execute`
            execute_many = bolt.execute_many if open_attempt.variables is None else self._in_variables(open_attempt, bolt.execute_many)
            open_attempt.batch.execute_many_by(_leaving_out_of_bursts(open_attempt, execute_many), BURST_SETTLER, bolt.burst_rows)
        else:
            execute = bolt.execute if open_attempt.variables is None else self._in_variables(open_attempt, bolt.execute)
            open_attempt.batch.execute_by(_leaving_out(open_attempt, execute))

    def _in_variables(self, open_attempt: OpenAttempt, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call with the context variables of the calls that the attempt has awaited (ACK-17)."""
        variables = open_attempt.variables
        assert variables is not None
        if call_kind(call).is_async:
            return call

        def with_variables(*given: Any) -> Any:
            if asyncio.current_task() is open_attempt.aio_task:  # it has them already
                return call(*given)
            return variables.run(call, *given)

        return with_variables

    def _end_instance(self, open_attempt: OpenAttempt) -> None:
        self._finishing.discard(open_attempt)
        self._discard_awaited(open_attempt)
        aio_task = self._aio_tasks.pop(open_attempt, None)
        if aio_task is not None and aio_task is not asyncio.current_task():
            aio_task.cancel()
            self._note_ending(aio_task)
        instance, open_attempt.instance = open_attempt.instance, None
        if instance is not None and type(instance).cleanup is not BoltBase.cleanup:
            cleanup = asyncio.get_running_loop().create_task(self._clean_up(instance, aio_task), context=open_attempt.variables)
            self._cleanups.add(cleanup)
            cleanup.add_done_callback(self._cleanups.discard)
        self._make_room()

    def _note_ending(self, aio_task: "asyncio.Task[None]") -> None:
        self._ending.add(aio_task)
        aio_task.add_done_callback(self._ending.discard)

    async def _clean_up(self, instance: BatchBolt, aio_task: "asyncio.Task[None] | None") -> None:
        if aio_task is not None and aio_task is not asyncio.current_task():
            await asyncio.wait([aio_task])
        try:
            result = instance.cleanup()
            if result is not None:
                await result
        except BaseException as error:  # user code after the end of its batch: even SystemExit must not end the program
            if isinstance(error, KeyboardInterrupt) or cancel_requests():
                raise
            self.port.report(error, "nothing: the attempt is over")

    # Calls that wait

    def returned(self, batch: TaskBatch, given: Tuple | list[Tuple], result: object) -> None:
        """Await a result of execute before the next tuple of its attempt. given: the tuple of the call, or those of a burst."""
        open_attempt = self._open_attempts[batch.attempt]
        self._run_on(open_attempt, result, "execute")
        open_attempt.running = given

    def _execute_apart(self, open_attempt: OpenAttempt, rows: list[Tuple]) -> None:
        batch = open_attempt.batch
        batch.burst_rows = 1
        self._run_on(open_attempt, asyncio.sleep(0), "execute")
        assert batch.waiting is not None
        batch.waiting.extendleft(reversed(cast(Any, rows)))

    def _have_returned(self, open_attempt: OpenAttempt) -> bool:
        if open_attempt not in self._aio_tasks:
            self.feed.flush_burst(open_attempt.batch)
        return open_attempt not in self._aio_tasks

    def _run_on(self, open_attempt: OpenAttempt, result: object, method: str) -> None:
        """Await the result of a call. New tuples of the attempt wait until then."""
        if result is None:
            return
        if not inspect.isawaitable(result):
            where = f"bolt {self._wiring.spec.component_id!r}: {method}() returned {safe_repr(result)} ({type(result).__name__})"
            raise UsageError(where, hint="A batch bolt emits by self.collector.emit(...) and returns None.")
        self._awaited[open_attempt] = result
        if open_attempt not in self._aio_tasks:
            open_attempt.batch.waiting = deque()
            open_attempt.progress_at = self.context.clock.now()
            if open_attempt.variables is None:
                open_attempt.variables = instance_context(copy_context())
            aio_task = self.context.create_task(self._run(open_attempt), context=open_attempt.variables)
            self._aio_tasks[open_attempt] = open_attempt.aio_task = aio_task
            self._all_aio_tasks.add(aio_task)
            aio_task.add_done_callback(self._all_aio_tasks.discard)
            aio_task.add_done_callback(
                lambda ended: self._discard_awaited(open_attempt) if self._aio_tasks.get(open_attempt) is ended else None
            )
            aio_task.add_done_callback(lambda ended: self.port.wake())

    def _discard_awaited(self, open_attempt: OpenAttempt) -> None:
        """Discard a result that is no longer needed, because the attempt is over or the task died."""
        if open_attempt in self._awaited:
            discard_awaitables(self._awaited.pop(open_attempt))

    async def _run(self, open_attempt: OpenAttempt) -> None:
        """Await results of calls, and call execute for the waiting tuples, until none is left."""
        calls = 0
        while open_attempt in self._awaited or open_attempt.batch.waiting:
            running, open_attempt.running = open_attempt.running, None
            try:
                if open_attempt in self._awaited:
                    await self._awaited.pop(open_attempt)
                    self._note_progress(open_attempt)
                else:
                    assert open_attempt.batch.waiting is not None
                    self.feed.call_next(open_attempt.batch, open_attempt.batch.waiting.popleft())
                    self._make_room()
                    calls += 1
                    if calls % CALLS_PER_TURN == 0:
                        await asyncio.sleep(0)
            except CALL_ERRORS as error:
                if not self._runs_on(open_attempt, error, running):
                    return
        if self._aio_tasks.pop(open_attempt, None) is None:
            return  # the attempt ended meanwhile
        open_attempt.batch.waiting = None
        if open_attempt in self._finishing:
            self._finishing.discard(open_attempt)
            self.finished(open_attempt)
        else:
            self._advance(open_attempt)

    def _runs_on(self, open_attempt: OpenAttempt, error: BaseException, running: Tuple | list[Tuple] | None) -> bool:
        """Return whether the aio_task of an attempt continues after an error. running: the input of the call that raised."""
        if was_cancelled(error):
            if self.port.is_ending or self._aio_tasks.get(open_attempt) is not asyncio.current_task():
                raise error  # `_end_instance`, or the end of this task, has cancelled it
            error, running = asyncio.CancelledError(f"{type(open_attempt.instance).__name__} cancelled the asyncio task that runs it"), None
        if open_attempt.attempt in self._open_attempts and self._fail_by(open_attempt, error, running):
            return True
        self._aio_tasks.pop(open_attempt, None)
        return False

    def crowded(self) -> Awaitable[None] | None:
        """Return an awaitable if too many tuples wait. The task awaits it before it takes another tuple."""
        return self._wait_for_room() if self._waiting() > self.context.config.executor_receive_buffer_size else None

    def _waiting(self) -> int:
        return sum(len(open_attempt.batch.waiting or ()) for open_attempt in self._aio_tasks)

    def _note_progress(self, open_attempt: OpenAttempt) -> None:
        """Note the return of a call, and refresh the timeout of its batch periodically (TX-5)."""
        now = open_attempt.progress_at = self.context.clock.now()
        if now - open_attempt.refreshed_at >= self.context.config.batch_timeout_secs / REFRESHES_PER_TIMEOUT:
            open_attempt.refreshed_at = now
            for tup in open_attempt.held:
                self.port.refresh_control(tup)

    async def _wait_for_room(self) -> None:
        """Wait until fewer tuples wait, and fail attempts whose call does not return.

        The task takes no tuples meanwhile, so it would never see a newer attempt.
        """
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        room, timeout_secs = self._room, self.context.config.batch_timeout_secs
        while not room.done():
            await asyncio.wait([room], timeout=timeout_secs / REFRESHES_PER_TIMEOUT)
            now = self.context.clock.now()
            for open_attempt in [open_attempt for open_attempt in self._aio_tasks if now - open_attempt.progress_at >= timeout_secs]:
                self._fail(open_attempt, self._failure(FAILED, f"its execute() has been waiting for {timeout_secs:g} s"))

    def _make_room(self) -> None:
        if self._room is not None and 2 * self._waiting() <= self.context.config.executor_receive_buffer_size:
            self._room.set_result(None)
            self._room = None

    # The end of a batch

    def _finish(self, open_attempt: OpenAttempt) -> None:
        if open_attempt in self._aio_tasks:
            return  # the aio_task calls `_finish` again at its end
        if self._wiring.is_committer and self._ending:
            self._run_on(open_attempt, self._end_of_old(), "finish_batch")
            return
        self.feed.flush_burst(open_attempt.batch)
        if open_attempt in self._aio_tasks or open_attempt.failure is not None or self._fails_spoiled(open_attempt):
            return
        self._finishing.add(open_attempt)
        try:
            finish = open_attempt.instance.finish_batch
            if open_attempt.variables is not None:
                finish = self._in_variables(open_attempt, finish)
            self._run_on(open_attempt, finish(), "finish_batch")
        except CALL_ERRORS as error:  # error of user code: reported, and the batch fails
            self._fail_by(open_attempt, error)
            return
        if open_attempt not in self._aio_tasks:
            self._finishing.discard(open_attempt)
            self.finished(open_attempt)

    async def _end_of_old(self) -> None:
        """Wait for the cancelled calls of old attempts."""
        while self._ending:
            await asyncio.wait(list(self._ending))

    async def on_drop(self) -> None:
        await self._resources.close()

    async def cleanup(self) -> None:
        """End the task: drop all attempts, wait for the cleanups, close the resources."""
        for attempt in list(self.feed.batches):
            self.feed.drop_batch(attempt)
        for open_attempt in self._open_attempts.values():
            self._end_instance(open_attempt)
        try:
            if self._cleanups:
                await asyncio.wait(self._cleanups)
        finally:
            for cleanup in self._cleanups:
                cleanup.cancel()
            await self._resources.close()


def _leaving_out(open_attempt: OpenAttempt, execute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a call that does not execute the rows that were given up. Without such rows it is the call itself."""
    rows = open_attempt.rows
    return execute if rows is None or not rows.leaves_out else lambda tup: None if rows.leave_out(tup) else execute(tup)


def _leaving_out_of_bursts(open_attempt: OpenAttempt, execute_many: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """As `_leaving_out`, for bursts."""
    rows = open_attempt.rows
    if rows is None or not rows.leaves_out:
        return execute_many

    def execute_others(burst: Burst) -> Any:
        kept = [tup for tup in burst if not rows.leave_out(tup)]
        if len(kept) == len(burst):
            return execute_many(burst)
        return execute_many(Burst(kept, BURST_SETTLER)) if kept else None

    return execute_others
