"""An event loop in virtual time: time jumps to the next timer when nothing is ready, and stands still otherwise.

An hour of sleeps and timeouts takes milliseconds. A run without threads and sockets is the same each time.

    def test_a_slow_reply_times_out() -> None:
        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(30):
                    await asyncio.sleep(3600)
        run_virtual(main)

With pytest-asyncio 1.4 or later, `conftest.py` runs all async tests on this loop. If the mapping holds several loops, mark a test with
`asyncio(loop_factories=["virtual"])` to choose:

    def pytest_asyncio_loop_factories(config, item):
        return {"virtual": VirtualTimeLoop}

Earlier versions need a fixture `event_loop_policy` that returns a policy whose `new_event_loop` is `VirtualTimeLoop`.

Work outside the loop may keep time still:
- Jobs in threads (`run_in_executor`, `asyncio.to_thread`) keep time still until they end. Their results arrive in the order of
  submission, when nothing else is ready and all jobs have ended. So a run does not depend on the speed of threads, unless a thread
  calls into the loop. If a job takes longer than `job_patience_secs`, the results of the others arrive first.
- Other threads may call `call_soon_threadsafe`, but time does not wait for them. `hold_time` makes time wait.
- Before time jumps, the loop waits for sockets in real time: for the length of the jump, at most `socket_patience_secs`. The loop cannot
  know whether a socket is awaited or idle. A peer that answers within the patience is in time, as on a real loop. A later answer may come
  after a timeout; `hold_time` prevents that. If both ends are in this loop, an exchange takes no virtual time. Runs with a peer outside
  the loop do not repeat exactly.
- Signals and child processes do not keep time still.

In cases in which a real loop would hang, this loop raises `LoopDeadlock`, `VirtualTimeExceeded` or `RealTimeExceeded`.
"""

import asyncio
import inspect
import math
import selectors
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from engine.errors import EngineError, UsageError
from engine.testing.loop_order import Draws, Moment, OrderedFuture, OrderedTask, permute_steps
from engine.testing.task_places import describe_tasks
from engine.testing.thread_jobs import ThreadJobs, TimeHold

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Events = list[tuple[selectors.SelectorKey, int]]

EPOCH_SECS: Final = 1_577_836_800.0
"""Wall clock at virtual time 0: 2020-01-01T00:00:00Z."""

_LEAST_RESOLUTION_SECS: Final = 1e-9
_LONGEST_WAIT_SECS: Final = 3600.0


class VirtualLoopError(EngineError):
    """A run in virtual time cannot continue. The loop raises this error, not the code that runs on the loop."""


class LoopDeadlock(VirtualLoopError):
    """The loop would wait for ever, because it has no callback, timer, thread or socket."""


class VirtualTimeExceeded(VirtualLoopError):
    """A run needs more virtual time than its limit."""


class RealTimeExceeded(VirtualLoopError):
    """A run needs more real time than its limit."""


class LeftoverTaskWarning(RuntimeWarning):
    """A program returned while some of its tasks were running. These tasks were cancelled."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop with virtual time. The module's docstring says what keeps time still.

    `limit_secs` (virtual) and `real_limit_secs` bound each call of `run_forever` or `run_until_complete`, so the cleanup of a runner has
    limits of its own. `step_secs` is the virtual time of a turn in which something is ready. 0 works for programs that become idle. With an
    endless source, `step_secs` must be greater than 0, or no timer ever fires. `shuffle` permutes tasks that are ready together, and timers
    that are due together, because asyncio does not define their order. Without `shuffle`, timers that are due together fire in the order of
    their creation.
    """

    virtual_time = True
    socket_patience_secs = 0.5
    job_patience_secs = 5.0
    busy_turns_per_landing = 1000
    """Turns after which a loop that is never idle waits for its jobs."""

    # Attributes of asyncio's loop that typeshed does not declare.
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
        self._system = selector.system
        self._own_sockets = len(self._system.get_map())
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
        """Return the virtual time in seconds, monotonic."""
        return self._now

    def wall(self) -> float:
        """Return the virtual time in seconds since 1970."""
        return EPOCH_SECS + self._now

    def advance(self, secs: float) -> None:
        """Move time forward at once, as if a call held the loop for so long. Timers that became due fire in the next turn."""
        if not 0.0 <= secs < math.inf:
            raise ValueError(f"advance() takes a finite number of seconds of at least 0, not {secs!r}")
        self._move_to(self._now + secs)

    def hold_time(self, reason: str) -> TimeHold:
        """Keep time still until the returned hold is released. A `with` block releases it at its end.

        For work that the loop cannot see: a thread that will call `call_soon_threadsafe`, a slow reply on a socket. The thread must
        release after its call. `reason` appears in error messages. May be called in any thread.
        """
        return TimeHold(reason, self._holds, self._write_to_self)

    # One turn of the loop.

    def _turn(self, timeout: float | None) -> Events:
        """Replace `select` of the selector. `timeout` is 0 if anything is ready, else the time to the next timer or None."""
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
        now = self._now + self._step_secs
        due = self._scheduled[0].when() if self._scheduled else math.inf
        if now < due < now + self._clock_resolution:
            now = due  # asyncio fires this timer in this turn. Code that finds itself too early sets it again, and would do so for ever
        self._check_limit(now)
        self._move_to(now)
        return self._system.select(0)

    def _idle_turn(self) -> Events:
        self._busy_turns = 0
        if self._jobs.are_ripe(self._real_secs(), self.job_patience_secs):
            self._jobs.land_results()
            return self._system.select(0)
        due = self._scheduled[0].when() if self._scheduled else math.inf
        # Read the holds before the sockets. A thread releases its hold after its call into the loop, so if the hold is gone here,
        # select() sees the call.
        wait_secs = self._outside_secs(due)
        events = self._system.select(min(wait_secs, self._real_limit - self._real_secs(), _LONGEST_WAIT_SECS))
        if events or self._jobs or self._holds:
            return events
        if due < math.inf:
            self._check_limit(due)
            self._move_to(due)
        elif not self._has_sockets():
            raise self._deadlock()
        return events

    def _outside_secs(self, due: float) -> float:
        """Return the real seconds by which work outside the loop may delay the jump of time."""
        if self._jobs:
            return self.job_patience_secs
        if self._holds:
            return math.inf
        if not self._has_sockets():
            return 0.0
        return min(due - self._now, self.socket_patience_secs)

    def _has_sockets(self) -> bool:
        return len(self._system.get_map()) > self._own_sockets

    def _move_to(self, now: float) -> None:
        # asyncio fires a timer that is due before now + resolution. Beyond 2**23 seconds, adding a nanosecond changes nothing.
        self._now = now
        self._clock_resolution = max(_LEAST_RESOLUTION_SECS, math.ulp(now))

    def _real_secs(self) -> float:
        return super().time()

    # Limits.

    def run_forever(self) -> None:
        """Run until `stop`. Raises VirtualLoopError if a limit is exceeded, or if the loop would wait for ever."""
        self._limit = self._now + self._limit_secs
        self._real_limit = self._real_secs() + self._real_limit_secs
        self._busy_turns = 0
        super().run_forever()

    def _check_limit(self, now: float) -> None:
        if now > self._limit:
            raise VirtualTimeExceeded(
                f"the run needs more than its {self._limit_secs:g} s of virtual time: its next event is at {now:g}{self._waiting()}",
                hint="Stop the work that repeats forever, or raise limit_secs.",
            )

    def _deadlock(self) -> LoopDeadlock:
        return LoopDeadlock(
            f"deadlock at virtual time {self._now:g}: no callback is ready, no timer is set, and no thread or socket is "
            f"awaited{self._waiting()}",
            hint="Find what should wake these tasks. If it is a thread that the loop does not know, call loop.hold_time() for it.",
        )

    def _real_time_exceeded(self) -> RealTimeExceeded:
        self._overdue = True
        if self._jobs or self._holds:
            names = [*self._jobs.names(), *sorted(hold.reason for hold in list(self._holds))]
            why = f"time stands still for {', '.join(names)}"
        elif self._busy_turns:
            why = f"for {self._busy_turns} turns something was ready, so time could not jump"
        elif self._has_sockets():
            why = f"{len(self._system.get_map()) - self._own_sockets} sockets are open"
        else:
            why = "time still jumps from timer to timer"
        return RealTimeExceeded(
            f"the run needs more than its {self._real_limit_secs:g} s of real time; at virtual time {self._now:g} {why}{self._waiting()}",
            hint="A thread must not wait for virtual time. A program that is never idle needs step_secs. Otherwise raise real_limit_secs.",
        )

    def _waiting(self) -> str:
        tasks = asyncio.all_tasks(self)
        return f". Tasks and where they wait:\n{describe_tasks(tasks)}" if tasks else ""

    # Timers, futures and tasks with a defined order.

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time. Equal times fire in the order of these calls, or as `shuffle` draws."""
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
        """Run a function in a thread or process. Time stands still until it ends, even if its future is cancelled."""
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
        """Use this pool if `run_in_executor` is given None."""
        super().set_default_executor(executor)
        self._pool = executor

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the jobs of the default pool, within the real time limit. `timeout` would be virtual, so it is ignored."""
        self._pool_is_shut = True
        if self._pool is None:
            return
        if not self._overdue:
            await self._jobs.all_landed(self._pool)
        self._pool.shutdown(wait=not self._overdue)


class _TurnSelector(selectors.BaseSelector):
    """The selector of the system, except that `select` calls the loop, which decides how long to wait."""

    def __init__(self) -> None:
        self.system = selectors.DefaultSelector()
        self.turn: Callable[[float | None], Events] = self.system.select

    def select(self, timeout: float | None = None) -> Events:
        return self.turn(timeout)

    def register(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        return self.system.register(fileobj, events, data)

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self.system.unregister(fileobj)

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: Any = None) -> selectors.SelectorKey:
        return self.system.modify(fileobj, events, data)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        return self.system.get_map()

    def close(self) -> None:
        self.system.close()


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    start: float = 0.0,
    limit_secs: float = math.inf,
    real_limit_secs: float = 60.0,
    step_secs: float = 0.0,
    shuffle: Draws | None = None,
) -> T:
    """Run a coroutine function on a new `VirtualTimeLoop` and return its result.

    The options are those of the loop. Tasks that still run when it returns are cancelled, with a `LeftoverTaskWarning`. Raises UsageError
    if `main` is no function.

    >>> async def main() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(main)
    3600.0
    """
    if not callable(given := cast(object, main)):
        if inspect.iscoroutine(given):
            given.close()
        text = f"run_virtual() takes a coroutine function, not {type(given).__name__}"
        raise UsageError(text, hint="Write run_virtual(main), without ().")
    factory = partial(VirtualTimeLoop, start, limit_secs=limit_secs, real_limit_secs=real_limit_secs, step_secs=step_secs, shuffle=shuffle)
    with asyncio.Runner(loop_factory=factory) as runner:
        result = runner.run(main())
        leftovers = asyncio.all_tasks(runner.get_loop())
        if leftovers:
            text = f"tasks were still running and are cancelled:\n{describe_tasks(leftovers)}"
            warnings.warn(text, LeftoverTaskWarning, stacklevel=2)
    return result
