"""Thread jobs and time holds of a virtual loop. Virtual time stands still until all jobs and holds have ended."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(slots=True, eq=False)
class _Job:
    name: str
    executor: Executor
    work: "Future[Any]"
    result: "asyncio.Future[Any]"


class ThreadJobs:
    """Jobs that a loop gave to executors and whose results it has not taken.

    The loop takes results only in `land_results`, in the order of submission, so the speed of the threads makes no difference.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a job ends, in the thread of the job, to wake the loop."""
        self._wake = wake
        self._jobs: list[_Job] = []
        self._waits_since: float | None = None
        self._landing: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, executor: Executor, call: Callable[..., Any], args: tuple[Any, ...], result: "asyncio.Future[Any]") -> None:
        """Start a job whose result or error goes to `result`. Cancelling `result` cancels a job that has not begun."""
        work = executor.submit(call, *args)
        self._jobs.append(_Job(_name(call), executor, work, result))
        result.add_done_callback(lambda done: work.cancel() if done.cancelled() else None)
        work.add_done_callback(lambda _: self._wake())

    def names(self) -> list[str]:
        """Return the names of the functions that are still running."""
        return [job.name for job in self._jobs if not job.work.done()]

    def are_ripe(self, now: float, patience_secs: float) -> bool:
        """Tell whether to deliver results. Times are in real seconds.

        True if all jobs have ended, or if some have ended and the wait for the others exceeds the patience.
        """
        if not self._jobs:
            return False
        unfinished = sum(not job.work.done() for job in self._jobs)
        if not unfinished:
            return True
        if self._waits_since is None:
            self._waits_since = now
        return unfinished < len(self._jobs) and now - self._waits_since >= patience_secs

    def land_results(self) -> None:
        """Set the futures of all jobs that have ended, in the order of submission."""
        self._waits_since = None
        ended: list[_Job] = []
        unfinished: list[_Job] = []
        for job in self._jobs:
            (ended if job.work.done() else unfinished).append(job)
        self._jobs = unfinished
        for job in ended:
            _set_future(job)
        if ended and self._landing is not None:
            self._landing.set_result(None)
            self._landing = None

    def block(self, patience_secs: float) -> None:
        """Block the loop's thread until all jobs have ended, at most for the patience, and deliver their results."""
        wait([job.work for job in self._jobs], timeout=patience_secs)
        self.land_results()

    async def all_landed(self, executor: Executor) -> None:
        """Wait until the results of all jobs of this executor are delivered."""
        while any(job.executor is executor for job in self._jobs):
            if self._landing is None:
                self._landing = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._landing)


class TimeHold:
    """Context manager that keeps virtual time still until `release()`. Any thread may call `release()`."""

    def __init__(self, reason: str, holds: "set[TimeHold]", wake: Callable[[], None]) -> None:
        self.reason = reason
        self._holds = holds
        self._wake = wake
        holds.add(self)

    def release(self) -> None:
        """Let time move again. A second call does nothing."""
        self._holds.discard(self)
        self._wake()

    def __enter__(self) -> "TimeHold":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def _set_future(job: _Job) -> None:
    if job.result.done():
        return
    if job.work.cancelled():
        job.result.cancel()
        return
    error = job.work.exception()
    if isinstance(error, StopIteration):  # a future refuses this error, so the caller would wait for ever
        job.result.set_exception(RuntimeError(f"{job.name} raised StopIteration in its thread"))
    elif error is not None:
        job.result.set_exception(error)
    else:
        job.result.set_result(job.work.result())


def _name(call: Callable[..., Any]) -> str:
    """Return the name of the function, also if asyncio.to_thread has wrapped it."""
    if isinstance(call, functools.partial) and call.args and callable(call.args[0]):
        call = call.args[0]
    return str(getattr(call, "__qualname__", call))
