"""The host of a batch bolt: an instance for each attempt, whose calls may wait beside those of other attempts (TX-5, TX-6)."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from engine.errors import FAILED, UsageError
from engine.kernel import BatchPart
from engine.topology import BoltBase, Tuple
from engine.transactional.awaits import let_go
from engine.transactional.batch_bolt import BatchBolt, BurstBolt
from engine.transactional.host import Host, Hosted, HostedCollector, Place
from engine.transactional.resources import OpenResources

REFRESHES_PER_TIMEOUT: Final = 8
"""How often, in `batch_timeout_secs`, the clock of a batch is restarted while its calls return."""
CALLS_PER_TURN: Final = 256
"""Of tuples that waited, before others get their turn (BP-4)."""


class BatchHost(Host):
    """Makes an instance for each attempt. What one of its methods awaits goes on in a task of its own: a *runner*."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._runners: dict[Hosted, asyncio.Task[None]] = {}
        self._awaited: dict[Hosted, Awaitable[object]] = {}
        """What the instance's last call returned, and its runner is to await."""
        self._ending: set[asyncio.Task[None]] = set()
        """Runners of old attempts that were cancelled; a committer begins no finish_batch before they have ended (TX-2)."""
        self._finishing: set[Hosted] = set()
        self._cleanups: set[asyncio.Task[None]] = set()
        """Of instances whose attempt is over; the task ends when they have."""
        self._all_runners: set[asyncio.Task[None]] = set()
        self._room: asyncio.Future[None] | None = None

    @property
    def execute(self) -> Callable[[Any], Any]:
        """What the task calls for every tuple: compiled."""
        if not hasattr(self, "feed"):
            self.prepare_feed(emits_results=False)
            self._resources = OpenResources(self.context)
            self._cleanups = self._place.cleanups.setdefault(self.context.task_id, set())
            self._all_runners = self._place.runners.setdefault(self.context.task_id, set())
            for runner in self._all_runners:  # of a host that died
                self._note_ending(runner)
        return self.feed.execute

    # An attempt's instance

    def _begin_instance(self, hosted: Hosted) -> None:
        bolt: BatchBolt = self._place.spec.factory.create()
        bolt.attempt = hosted.attempt
        bolt.collector = HostedCollector(hosted.part, self.collector)
        bolt.context = self.context
        bolt.resources = self._resources
        bolt.replays_differ = self._place.replays_differ
        hosted.instance = bolt
        if isinstance(bolt, BurstBolt) and "execute" not in vars(bolt):  # a fault injector puts one there
            hosted.part.execute_many_by(bolt.execute_many, bolt.burst_rows)
        else:
            hosted.part.execute_by(bolt.execute)
        self._run_on(hosted, bolt.prepare(), "prepare")

    def _end_instance(self, hosted: Hosted) -> None:
        self._finishing.discard(hosted)
        self._let_go(hosted)
        runner = self._runners.pop(hosted, None)
        if runner is not None and runner is not asyncio.current_task():
            runner.cancel()
            self._note_ending(runner)
        instance, hosted.instance = hosted.instance, None
        if instance is not None and type(instance).cleanup is not BoltBase.cleanup:
            cleanup = asyncio.get_running_loop().create_task(self._clean_up(instance, runner))
            self._cleanups.add(cleanup)
            cleanup.add_done_callback(self._cleanups.discard)
        self._make_room()

    def _note_ending(self, runner: "asyncio.Task[None]") -> None:
        self._ending.add(runner)
        runner.add_done_callback(self._ending.discard)

    async def _clean_up(self, instance: BatchBolt, runner: "asyncio.Task[None] | None") -> None:
        if runner is not None and runner is not asyncio.current_task():
            await asyncio.wait([runner])
        try:
            result = instance.cleanup()
            if result is not None:
                await result
        except BaseException as error:  # the user's own, and its batch is over: SystemExit, too, is to end no program
            if isinstance(error, KeyboardInterrupt) or _is_cancelled():
                raise
            self.port.report(error, "nothing: the attempt is over")

    # Calls that wait

    def returned(self, part: BatchPart, tup: Tuple | None, result: object) -> None:
        """Execute returned something: it is awaited before the next tuple of its attempt."""
        self._run_on(self._hosted[part.attempt], result, "execute")

    def _run_on(self, hosted: Hosted, result: object, method: str) -> None:
        """Await what a call returned, if it has to be; what comes of the attempt meanwhile waits."""
        if result is None:
            return
        if not inspect.isawaitable(result):
            where = f"bolt {self._place.spec.component_id!r}: {method}() returned {result!r} ({type(result).__name__})"
            raise UsageError(where, hint="A batch bolt emits by self.collector.emit(...) and returns None.")
        self._awaited[hosted] = result
        if hosted not in self._runners:
            hosted.part.waiting = deque()
            hosted.progress_at = self.context.clock.now()
            runner = self._runners[hosted] = self.context.create_task(self._run(hosted))
            self._all_runners.add(runner)
            runner.add_done_callback(self._all_runners.discard)
            runner.add_done_callback(lambda ended: self._let_go(hosted) if self._runners.get(hosted) is ended else None)

    def _let_go(self, hosted: Hosted) -> None:
        """What was to be awaited, and will not be: the attempt is over here, or the task has died."""
        if hosted in self._awaited:
            let_go(self._awaited.pop(hosted))

    async def _run(self, hosted: Hosted) -> None:
        """Await what the instance's calls return, and hand on what waited for them, until nothing does."""
        try:
            calls = 0
            while hosted in self._awaited or hosted.part.waiting:
                if hosted in self._awaited:
                    await self._awaited.pop(hosted)
                    self._note_progress(hosted)
                else:
                    assert hosted.part.waiting is not None
                    self.feed.call_next(hosted.part, hosted.part.waiting.popleft())
                    self._make_room()
                    calls += 1
                    if calls % CALLS_PER_TURN == 0:
                        await asyncio.sleep(0)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                if self.port.is_ending or self._runners.get(hosted) is not asyncio.current_task():
                    raise  # `_end_instance`, or the end of this task, has cancelled it
                error = asyncio.CancelledError(f"{type(hosted.instance).__name__} cancelled the asyncio task that runs it")
            self._runners.pop(hosted, None)
            if hosted.attempt in self._hosted:
                self._fail_by(hosted, error)
            return
        if self._runners.pop(hosted, None) is None:
            return  # it is over meanwhile
        hosted.part.waiting = None
        if hosted in self._finishing:
            self._finishing.discard(hosted)
            self.finished(hosted)
        else:
            self._try_finish(hosted)

    def crowded(self) -> Awaitable[None] | None:
        """While too much waits behind calls: what the task is to wait for before it takes another tuple."""
        return self._wait_for_room() if self._waiting() > self.context.config.executor_receive_buffer_size else None

    def _waiting(self) -> int:
        return sum(len(hosted.part.waiting or ()) for hosted in self._runners)

    def _note_progress(self, hosted: Hosted) -> None:
        """A call has returned: the clock of its batch is restarted, now and then (TX-5)."""
        now = hosted.progress_at = self.context.clock.now()
        if now - hosted.refreshed_at >= self.context.config.batch_timeout_secs / REFRESHES_PER_TIMEOUT:
            hosted.refreshed_at = now
            for tup in hosted.held:
                self.port.refresh_control(tup)

    async def _wait_for_room(self) -> None:
        """Wait until less waits; an attempt of which no call returns fails meanwhile, since the task sees no newer one."""
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        room, timeout_secs = self._room, self.context.config.batch_timeout_secs
        while not room.done():
            await asyncio.wait([room], timeout=timeout_secs / REFRESHES_PER_TIMEOUT)
            now = self.context.clock.now()
            for hosted in [hosted for hosted in self._runners if now - hosted.progress_at >= timeout_secs]:
                self._fail(hosted, self._failure(FAILED, f"its execute() has been waiting for {timeout_secs:g} s"))

    def _make_room(self) -> None:
        if self._room is not None and 2 * self._waiting() <= self.context.config.executor_receive_buffer_size:
            self._room.set_result(None)
            self._room = None

    # The end of a batch

    def _finish(self, hosted: Hosted) -> None:
        if hosted in self._runners:
            return  # asked again when it has ended
        if self._place.is_committer and self._ending:
            self._run_on(hosted, self._end_of_old(), "finish_batch")
            return
        self.feed.flush(hosted.part)
        if hosted in self._runners or hosted.failure is not None:
            return
        self._finishing.add(hosted)
        try:
            self._run_on(hosted, hosted.instance.finish_batch(), "finish_batch")
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the user's own: told, and the batch fails
            self._fail_by(hosted, error)
            return
        if hosted not in self._runners:
            self._finishing.discard(hosted)
            self.finished(hosted)

    async def _end_of_old(self) -> None:
        """Wait for the calls of old attempts, which were cancelled."""
        while self._ending:
            await asyncio.wait(list(self._ending))

    async def cleanup(self) -> None:
        """The task ends: nothing more is emitted, and what was opened is closed."""
        for attempt in list(self.feed.parts):
            self.feed.drop(attempt)
        for hosted in self._hosted.values():
            self._end_instance(hosted)
        try:
            if self._cleanups:
                await asyncio.wait(self._cleanups)
        finally:
            for cleanup in self._cleanups:
                cleanup.cancel()
            await self._resources.close()


def _is_cancelled() -> bool:
    aio_task = asyncio.current_task()
    return aio_task is not None and aio_task.cancelling() > 0
