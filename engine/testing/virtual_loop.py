"""An event loop whose time is virtual: it stands still while anything is ready, and jumps to the next timer when nothing is.

So an hour of sleeps and timeouts takes milliseconds, and a run that touches neither threads nor sockets is the same each time.

    def test_a_slow_reply_times_out() -> None:
        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await asyncio.sleep(3600)
        run_virtual(main)

With pytest-asyncio, in `conftest.py`; then every async test runs on it, or one that is marked `asyncio(loop_factories=["virtual"])`
where the mapping also holds others:

    def pytest_asyncio_loop_factories(config, item):
        return {"virtual": VirtualTimeLoop}

(or, before pytest-asyncio 1.4, a fixture `event_loop_policy` that returns a policy whose `new_event_loop` is `VirtualTimeLoop`).

What holds time back, and what does not:
- Threads. While a job of `run_in_executor` or `asyncio.to_thread` runs, time stands still, however long it takes; its result comes when
  nothing else is ready and every other job has ended too, in the order of submission. So a run does not depend on the speed of
  threads, unless one of them talks to the loop. Where a job takes longer than `job_patience_secs`, the results of the others come first.
- Other threads are not seen: they may call `call_soon_threadsafe`, but time does not wait for them. `hold_time` makes it wait.
- Sockets. A registered socket may be awaited or idle, the loop cannot know. Before it jumps it gives them as much real time as it is
  about to jump, at most `socket_patience_secs`. Within that, sockets and timers meet as on a real loop; beyond it, a peer that
  answers later than the patience is too late for a timeout. `hold_time` makes time wait for it. With both ends in this loop no
  time is lost. Runs with a peer outside the loop do not repeat exactly.
- Signals and child processes do not hold time back.

Where a real loop would hang, this one raises: `LoopDeadlock`, `VirtualTimeExceeded`, `RealTimeExceeded`.
"""

import asyncio
import math
import selectors
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack

from engine.testing.loop_errors import LeftoverTaskWarning, LoopDeadlock, RealTimeExceeded, VirtualTimeExceeded, describe_tasks
from engine.testing.loop_order import Draws, Moment, OrderedFuture, OrderedTask, permute_steps
from engine.testing.thread_jobs import ThreadJobs, TimeHold

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Events = list[tuple[selectors.SelectorKey, int]]

EPOCH_SECS: Final = 1_577_836_800.0
"""The wall clock at virtual time 0: 2020-01-01T00:00:00Z."""

_LEAST_RESOLUTION_SECS: Final = 1e-9
_LONGEST_WAIT_SECS: Final = 3600.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop with virtual time; see the module for what time waits for.

    `limit_secs` (virtual) and `real_limit_secs` bound each call of `run_forever` or `run_until_complete`; so a runner's
    cleanup has its own. `step_secs` is the virtual time that a turn of the loop takes while something is ready: 0 fits
    programs that come to rest; one that never does, such as an endless source, needs more, or its timers never come.
    `shuffle` permutes what asyncio leaves open: the steps of tasks that are ready side by side, and timers that are due at
    the same time. Without it timers that are due at the same time fire in the order in which they were set.
    """

    virtual_time = True
    socket_patience_secs = 0.5
    job_patience_secs = 5.0
    busy_turns_per_landing = 1000
    """A loop that never comes to rest waits for its jobs after this many turns."""

    # asyncio's own, which typeshed leaves out.
    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle]
    _clock_resolution: float
    _write_to_self: Callable[[], None]

    def __init__(
        self,
        start: float = 0.0,
        *,
        limit_secs: float = math.inf,
        real_limit_secs: float = 60.0,
        step_secs: float = 0.0,
        shuffle: Draws | None = None,
    ) -> None:
        selector = _TurnSelector()
        super().__init__(selector)
        selector.turn = self._turn
        self._world = selector.world
        self._own_sockets = len(self._world.get_map())
        self._limit_secs, self._real_limit_secs, self._step_secs = limit_secs, real_limit_secs, step_secs
        self._limit = self._real_limit = math.inf
        self._overdue = False
        self._busy_turns = 0
        self._shuffle = shuffle
        self._numbers = count(1)
        self._task_numbers = count(1)
        self._pool: ThreadPoolExecutor | None = None
        self._pool_is_shut = False
        self._jobs = ThreadJobs(self._write_to_self)
        self._holds: set[TimeHold] = set()
        self._move_to(start)
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        """Return the virtual time in seconds; it never goes back."""
        return self._now

    def wall(self) -> float:
        """Return the virtual time in seconds since 1970."""
        return EPOCH_SECS + self._now

    def advance(self, secs: float) -> None:
        """Move time on at once, as a call that holds the loop for so long; timers that came due fire in the next turn."""
        if not 0.0 <= secs < math.inf:
            raise ValueError(f"advance() takes a finite number of seconds that is not negative, not {secs!r}")
        self._move_to(self._now + secs)

    def hold_time(self, reason: str) -> TimeHold:
        """Keep time still until the returned hold is released, or the `with` block that it opens ends; `reason` is for error messages.

        For what the loop cannot see: a thread that will call `call_soon_threadsafe`, a slow reply on a socket. The thread
        calls first, and releases then. May be called in any thread.
        """
        return TimeHold(reason, self._holds, self._write_to_self)

    # What a turn of the loop waits for.

    def _turn(self, timeout: float | None) -> Events:
        """Stand in for the selector: `timeout` is 0 while anything is ready, else the time to the next timer, or None."""
        if self._real_secs() >= self._real_limit:
            raise self._real_time_exceeded()
        events = self._busy_turn() if timeout is not None and timeout <= 0.0 else self._idle_turn()
        if self._shuffle is not None:
            permute_steps(self._ready, self._shuffle)
        return events

    def _busy_turn(self) -> Events:
        self._busy_turns += 1
        if self._jobs and self._busy_turns % self.busy_turns_per_landing == 0:
            self._jobs.block(min(self.job_patience_secs, self._real_limit - self._real_secs()))
        self._check_limit(self._now + self._step_secs)
        self._move_to(self._now + self._step_secs)
        return self._world.select(0)

    def _idle_turn(self) -> Events:
        self._busy_turns = 0
        if self._jobs.are_ripe(self._real_secs(), self.job_patience_secs):
            self._jobs.land()
            return self._world.select(0)
        due = self._scheduled[0].when() if self._scheduled else math.inf
        # Holds are read before the sockets: a thread calls into the loop and then releases, so a hold that is gone here
        # has left its call where select() sees it.
        wait_secs = self._outside_secs(due)
        events = self._world.select(min(wait_secs, self._real_limit - self._real_secs(), _LONGEST_WAIT_SECS))
        if events or self._jobs or self._holds:
            return events
        if due < math.inf:
            self._check_limit(due)
            self._move_to(due)
        elif not self._has_sockets():
            raise self._deadlock()
        return events

    def _outside_secs(self, due: float) -> float:
        """Return for how long, in real time, what is outside the loop may keep time from its jump."""
        if self._jobs:
            return self.job_patience_secs
        if self._holds:
            return math.inf
        if not self._has_sockets():
            return 0.0
        return min(due - self._now, self.socket_patience_secs)

    def _has_sockets(self) -> bool:
        return len(self._world.get_map()) > self._own_sockets

    def _move_to(self, now: float) -> None:
        # A timer fires when it is due before now + resolution: beyond 2**23 seconds a nanosecond vanishes in that sum.
        self._now = now
        self._clock_resolution = max(_LEAST_RESOLUTION_SECS, math.ulp(now))

    def _real_secs(self) -> float:
        return super().time()

    # Limits.

    def run_forever(self) -> None:
        """Run until `stop`; raises when a limit is passed or nothing can ever happen any more."""
        self._limit = self._now + self._limit_secs
        self._real_limit = self._real_secs() + self._real_limit_secs
        self._busy_turns = 0
        super().run_forever()

    def _check_limit(self, now: float) -> None:
        if now > self._limit:
            raise VirtualTimeExceeded(
                f"the run needs more than its {self._limit_secs:g} s of virtual time: it goes on at {now:g}{self._waiting()}",
                hint="End what repeats for ever, or raise limit_secs.",
            )

    def _deadlock(self) -> LoopDeadlock:
        return LoopDeadlock(
            f"nothing can ever happen any more at virtual time {self._now:g}: no callback is ready, no timer is set, "
            f"and no thread or socket is awaited{self._waiting()}",
            hint="Find what should wake these tasks. If it is a thread that the loop does not know, take loop.hold_time() for it.",
        )

    def _real_time_exceeded(self) -> RealTimeExceeded:
        self._overdue = True
        if self._jobs or self._holds:
            names = [*self._jobs.names(), *sorted(hold.reason for hold in list(self._holds))]
            why = f"time stands still for {', '.join(names)}"
        elif self._busy_turns:
            why = f"for {self._busy_turns} turns something was ready, so time could not jump"
        elif self._has_sockets():
            why = f"{len(self._world.get_map()) - self._own_sockets} sockets are open"
        else:
            why = "time moves on from timer to timer"
        return RealTimeExceeded(
            f"the run needs more than its {self._real_limit_secs:g} s of real time; at virtual time {self._now:g} {why}{self._waiting()}",
            hint="A thread that waits for virtual time never ends; a program that never rests needs step_secs; else raise real_limit_secs.",
        )

    def _waiting(self) -> str:
        tasks = asyncio.all_tasks(self)
        return f". Tasks and where they wait:\n{describe_tasks(tasks)}" if tasks else ""

    # The same order in every run.

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time; among equal times in the order of these calls, or as `shuffle` draws."""
        if math.isnan(when):
            raise ValueError("a timer cannot be due at NaN")
        tie = next(self._numbers) if self._shuffle is None else self._shuffle.random()
        return super().call_at(Moment(when, tie), callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        """Return a future whose hash is its number in this loop."""
        return OrderedFuture(order=next(self._numbers), loop=self)

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        task = OrderedTask(coro, order=next(self._numbers), loop=loop, **options)
        if options.get("name") is None:
            task.set_name(f"Task-{next(self._task_numbers)}")
        return task

    # Threads.

    def run_in_executor(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        """Run a function in a thread or process; time stands still until it has ended, even when its future is cancelled."""
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        result = self.create_future()
        self._jobs.submit(executor or self._default_pool(), func, args, result)
        return result

    def _default_pool(self) -> ThreadPoolExecutor:
        if self._pool_is_shut:
            raise RuntimeError("Executor shutdown has been called")
        if self._pool is None:
            self.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
        assert self._pool is not None
        return self._pool

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        """Use this pool where `run_in_executor` is given None."""
        super().set_default_executor(executor)
        self._pool = executor

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the jobs of the default pool, in real time and within its limit; `timeout` would be virtual and is not used."""
        self._pool_is_shut = True
        if self._pool is None:
            return
        if not self._overdue:
            await self._jobs.all_landed(self._pool)
        self._pool.shutdown(wait=not self._overdue)


class _TurnSelector(selectors.BaseSelector):
    """The system's selector, but `select` asks the loop how long to wait."""

    def __init__(self) -> None:
        self.world = selectors.DefaultSelector()
        self.turn: Callable[[float | None], Events] = self.world.select

    def select(self, timeout: float | None = None) -> Events:
        return self.turn(timeout)

    def register(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        return self.world.register(fileobj, events, data)

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self.world.unregister(fileobj)

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        return self.world.modify(fileobj, events, data)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        return self.world.get_map()

    def close(self) -> None:
        self.world.close()


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    start: float = 0.0,
    limit_secs: float = math.inf,
    real_limit_secs: float = 60.0,
    step_secs: float = 0.0,
    shuffle: Draws | None = None,
) -> T:
    """Run a coroutine function to its end on a new `VirtualTimeLoop` and return its result.

    The options are the loop's. Tasks that are left over when it returns are cancelled, and reported by a `LeftoverTaskWarning`.

    >>> async def main() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(main)
    3600.0
    """
    factory = partial(VirtualTimeLoop, start, limit_secs=limit_secs, real_limit_secs=real_limit_secs, step_secs=step_secs, shuffle=shuffle)
    with asyncio.Runner(loop_factory=factory) as runner:
        result = runner.run(main())
        leftovers = asyncio.all_tasks(runner.get_loop())
        if leftovers:
            text = f"tasks were left over and are cancelled:\n{describe_tasks(leftovers)}"
            warnings.warn(text, LeftoverTaskWarning, stacklevel=2)
    return result
