"""What a loop with virtual time waits for outside itself: jobs in threads, and holds that a caller took."""

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
    """The jobs that a loop gave to executors and whose results it has not taken.

    A result lands on the loop only when `land` is called, in the order of submission: so which thread was faster makes no difference.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        """Take what wakes the loop; it is called in the thread of a job, when the job ends."""
        self._wake = wake
        self._jobs: list[_Job] = []
        self._waits_since: float | None = None
        self._landing: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def submit(self, executor: Executor, call: Callable[..., Any], args: tuple[Any, ...], result: "asyncio.Future[Any]") -> None:
        """Start a job whose outcome goes to `result`; cancelling `result` cancels a job that has not begun."""
        work = executor.submit(call, *args)
        self._jobs.append(_Job(_name(call), executor, work, result))
        result.add_done_callback(lambda done: work.cancel() if done.cancelled() else None)
        work.add_done_callback(lambda _: self._wake())

    def names(self) -> list[str]:
        """Return the names of the functions that still run."""
        return [job.name for job in self._jobs if not job.work.done()]

    def are_ripe(self, now: float, patience_secs: float) -> bool:
        """Tell whether to land: all have ended, or some have and the others took longer than the patience (real seconds)."""
        if not self._jobs:
            return False
        unfinished = sum(not job.work.done() for job in self._jobs)
        if not unfinished:
            return True
        if self._waits_since is None:
            self._waits_since = now
        return unfinished < len(self._jobs) and now - self._waits_since >= patience_secs

    def land(self) -> None:
        """Hand the outcomes of all jobs that have ended to whoever awaits them, in the order of submission."""
        self._waits_since = None
        ended: list[_Job] = []
        unfinished: list[_Job] = []
        for job in self._jobs:
            (ended if job.work.done() else unfinished).append(job)
        self._jobs = unfinished
        for job in ended:
            _settle(job)
        if ended and self._landing is not None:
            self._landing.set_result(None)
            self._landing = None

    def block(self, patience_secs: float) -> None:
        """Block the loop's thread until all jobs have ended, or for the patience, and land those that have."""
        wait([job.work for job in self._jobs], timeout=patience_secs)
        self.land()

    async def all_landed(self, executor: Executor) -> None:
        """Wait until no job of this executor is left."""
        while any(job.executor is executor for job in self._jobs):
            if self._landing is None:
                self._landing = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._landing)


class TimeHold:
    """Keeps virtual time still until it is released, by any thread; also a context manager."""

    def __init__(self, reason: str, holds: "set[TimeHold]", wake: Callable[[], None]) -> None:
        self.reason = reason
        self._holds = holds
        self._wake = wake
        holds.add(self)

    def release(self) -> None:
        """Let time go on; a second call does nothing."""
        self._holds.discard(self)
        self._wake()

    def __enter__(self) -> "TimeHold":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()


def _settle(job: _Job) -> None:
    if job.result.done():
        return
    if job.work.cancelled():
        job.result.cancel()
        return
    error = job.work.exception()
    if isinstance(error, StopIteration):  # a future refuses it, and its waiter would wait for ever
        job.result.set_exception(RuntimeError(f"{job.name} raised StopIteration in its thread"))
    elif error is not None:
        job.result.set_exception(error)
    else:
        job.result.set_result(job.work.result())


def _name(call: Callable[..., Any]) -> str:
    """Return what a person calls the function, also when asyncio.to_thread has wrapped it."""
    if isinstance(call, functools.partial) and call.args and callable(call.args[0]):
        call = call.args[0]
    return str(getattr(call, "__qualname__", call))
