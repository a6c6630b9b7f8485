"""Notices that a worker of a job is frozen. The watch is in the engine's process, because a frozen process cannot watch itself (CL-3)."""

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from spark_bridge.process.errors import SparkError
from spark_bridge.process.spark_child import SparkHold
from spark_bridge.topology.heartbeats import HeartbeatReceiver, Pulse, receiver_of
from spark_bridge.topology.lost_worker import level_text

LOOKS_PER_LIMIT: Final = 8
"""Looks at the running tasks, and heartbeats of a task, within the limit.

Silence is counted in looks and not in seconds, so that a pause of the engine's or of Spark's process is no silence of the workers.
"""
MOST_TASKS: Final = 4096
"""Running tasks of a stage at a look."""
DRIVER: Final = "driver"
"""Id of the executor in Spark's own JVM, with local masters."""
_HINT: Final = (
    "Look at this process there. Somebody has stopped it, its container or machine is paused, or a call in C never releases Python's lock."
)


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task of a job that runs by what Spark knows."""

    number: int
    """Of this try."""
    doing: str
    """Its partition and components, for errors."""
    host: str
    executor: str
    pid: int | None
    """Of its Python process. None before the first heartbeat."""
    beats: int


@dataclass(frozen=True, slots=True)
class Running:
    """The running tasks of a job. Sent LOOKS_PER_LIMIT times within the limit."""

    tasks: tuple[RunningTask, ...]
    are_short: bool = False
    """True if these tasks send no heartbeats, because each of them ends well within the limit."""


class WorkerFrozen(SparkError):
    """A worker of a job has sent no heartbeats for the limit."""

    def __init__(self, message: str, executor: str) -> None:
        super().__init__(message, hint=_HINT)
        self.executor = executor


class FrozenWatch:
    """Raises if a worker of a job is silent for the limit. Belongs to one call."""

    def __init__(self, limit_secs: float, *, heartbeats_arrive: bool) -> None:
        """heartbeats_arrive: True if they surely do. Otherwise only executors are judged that have sent one."""
        self._limit = limit_secs
        self._arrive = heartbeats_arrive
        self._heard: set[str] = set()
        self._silent: dict[int, tuple[int, int]] = {}
        """By task: its heartbeats, and the looks since the last one."""

    def on_event(self, running: Running) -> None:
        """Handle a look at the job. Raise WorkerFrozen after the limit, which cancels the call with its jobs."""
        self._heard.update(task.executor for task in running.tasks if task.beats)
        before, self._silent = self._silent, {}
        for task in running.tasks:
            beats, looks = before.get(task.number, (task.beats, -1))
            looks = looks + 1 if beats == task.beats else 0
            is_judged = running.are_short or self._arrive or task.executor in self._heard
            if looks >= LOOKS_PER_LIMIT and is_judged:
                raise WorkerFrozen(self._text(task), task.executor)
            self._silent[task.number] = task.beats, looks

    def _text(self, task: RunningTask) -> str:
        process = "a Python worker" if task.pid is None else f"the Python worker {task.pid}"
        place = task.host if task.executor == DRIVER else f"{task.host} (executor {task.executor})"
        return (
            f"{process} at {place} is frozen: it gave no sign of life for {self._limit:g} s (batch_timeout_secs), while it ran {task.doing}"
        )


async def replace_executor(spark: SparkHold, frozen: WorkerFrozen) -> None:
    """Let Spark give the tasks of the next attempt to another executor. A local master has only one, and ends the worker itself."""
    if frozen.executor != DRIVER:
        await spark.call(_replace, frozen.executor)


# In Spark's process


def _replace(spark: Any, call: Any, executor: str) -> None:
    spark.sparkContext._jsc.sc().killAndReplaceExecutor(executor)


@contextmanager
def watched_workers(context: Any, call: Any, limit_secs: float, components: Sequence[Collection[str]] = ()) -> Iterator[Pulse]:
    """Emit `Running` while the jobs of this thread run. Yield the pulse of their tasks.

    context: the SparkContext. components: of each level, for errors. Empty: the tasks look at executors, and send no heartbeats.
    """
    receiver, over, secs = receiver_of(context), threading.Event(), limit_secs / LOOKS_PER_LIMIT
    tasks = _RunningTasks(context, receiver, components)
    threading.Thread(target=_watch, args=(tasks, call, over, secs), name="stormcell frozen watch", daemon=True).start()
    try:
        yield receiver.pulse(secs)
    finally:
        over.set()


def _watch(tasks: "_RunningTasks", call: Any, over: threading.Event, secs: float) -> None:
    try:
        while not over.wait(secs) and not call.cancelled:
            call.emit(tasks.now())
    except Exception as error:  # noqa: BLE001 - the call itself fails too if Spark has died, and a cancelled one needs no watch
        print(f"the workers are not watched any more: {error}")


class _RunningTasks:
    """Reads the running tasks of the jobs of one thread from Spark's own store, which its page shows."""

    def __init__(self, context: Any, receiver: HeartbeatReceiver, components: Sequence[Collection[str]]) -> None:
        self._tracker = context.statusTracker()
        self._group = context.getLocalProperty("spark.jobGroup.id")
        self._store = context._jsc.sc().statusStore()
        self._unsorted = context._jvm.scala.Option.empty()
        self._running = context._jvm.java.util.List.of(context._jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING)
        self._receiver = receiver
        self._components = components

    def now(self) -> Running:
        """Return the running tasks."""
        return Running(tuple(self._found()), are_short=not self._components)

    def _found(self) -> Iterator[RunningTask]:
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for level, stage in enumerate(sorted(info.stageIds) if info is not None else ()):
                found = self._tracker.getStageInfo(stage)
                if found is not None and found.numActiveTasks:
                    yield from self._of_stage(stage, found.currentAttemptId, level)

    def _of_stage(self, stage: int, attempt: int, level: int) -> Iterator[RunningTask]:
        tasks = self._store.taskList(stage, attempt, 0, MOST_TASKS, self._unsorted, True, self._running)
        for at in range(tasks.size()):
            task = tasks.apply(at)
            doing = f"partition {task.index()} of {level_text(level, stage, self._components)}"
            heard = self._receiver.heard(task.taskId())
            pid, beats = (None, 0) if heard is None else (heard.pid, heard.beats)
            yield RunningTask(task.taskId(), doing, task.host(), task.executorId(), pid, beats)
