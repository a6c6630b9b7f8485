"""Notices that Spark starts no task of a job, because no executor has room for it. Spark itself waits for ever (CL-3)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from engine.clock import Clock
from spark_bridge.process.errors import SparkError

LOOK_SECS: Final = 1.0
"""Time between two looks at a job that waits."""
WARN_SECS: Final = 15.0
"""Time without a task before the warning. Spark's own warning comes after the same time."""
_HINT: Final = (
    "Look at the master's page and at Spark's page {ui}. Start workers, or end other applications. Or ask for less by spark.cores.max and"
    " executor_memory= of SparkConfig, because no worker gives an executor more memory than it has."
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """State of a job of which Spark has started no task yet. Sent every LOOK_SECS."""

    executors: int
    executor_memory: str
    """Memory that an executor must have."""
    others_run: bool
    """True if tasks of other jobs run, so this job only waits for its turn."""


class SparkStartsNothing(SparkError):
    """Spark has not started a task of a batch."""


class StartWatch:
    """Warns once, and then raises, if Spark starts no task. Belongs to one attempt."""

    def __init__(self, clock: Clock, limit_secs: float, ui: Callable[[], str | None], warn: Callable[[SparkStartsNothing], None]) -> None:
        """limit_secs: time without a task before the error. ui: returns the address of Spark's page."""
        self._clock = clock
        self._limit = limit_secs
        self._ui = ui
        self._warn = warn
        self._waits_since: float | None = None
        self._has_warned = False

    def begin(self) -> None:
        """Begin another call. The time of an earlier one does not count."""
        self._waits_since = None

    def on_event(self, waiting: Waiting) -> None:
        """Handle the state of the job. Raise SparkStartsNothing after the limit, which cancels the call with its jobs."""
        now = self._clock.now()
        if self._waits_since is None or waiting.others_run:
            self._waits_since = now
        secs = now - self._waits_since
        if secs >= self._limit:
            raise self._error(waiting, secs, "batch_timeout_secs")
        if secs >= min(WARN_SECS, self._limit / 2) and not self._has_warned:
            self._has_warned = True
            self._warn(self._error(waiting, secs, f"the limit is {self._limit:g} s, batch_timeout_secs"))

    def _error(self, waiting: Waiting, secs: float, limit: str) -> SparkStartsNothing:
        count = "1 executor" if waiting.executors == 1 else f"{waiting.executors or 'no'} executors"
        text = f"Spark has not started a task of the batch for {secs:.0f} s ({limit}). It has {count}"
        ui = self._ui() or "(off, spark.ui.enabled=false)"
        return SparkStartsNothing(f"{text}, and asks for executors with {waiting.executor_memory} of memory", hint=_HINT.format(ui=ui))


# In Spark's process


@contextmanager
def watched_start(context: Any, call: Any) -> Iterator[None]:
    """Emit `Waiting` until Spark has started a task of the jobs of this thread. context: the SparkContext."""
    over = threading.Event()
    group = context.getLocalProperty("spark.jobGroup.id")
    threading.Thread(target=_watch, args=(context, call, group, over), name="stormcell start watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(context: Any, call: Any, group: str, over: threading.Event) -> None:
    try:
        while not over.wait(LOOK_SECS) and not call.cancelled and not _has_started(context.statusTracker(), group):
            call.emit(_state(context))
    except Exception as error:  # noqa: BLE001 - the call itself fails too if Spark has died, and a cancelled one needs no watch
        print(f"{group}: the start of its tasks is not watched any more: {error}")


def _has_started(tracker: Any, group: str) -> bool:
    """Tell whether Spark has started a task of one of these jobs."""
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    stages = [info for job in jobs for stage in job.stageIds if (info := tracker.getStageInfo(stage)) is not None]
    return any(stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks for stage in stages)


def _state(context: Any) -> Waiting:
    infos = list(context._jsc.sc().statusTracker().getExecutorInfos())
    executors = len(infos) - 1  # the driver is one of them
    return Waiting(executors, context.getConf().get("spark.executor.memory", "1g"), any(info.numRunningTasks() for info in infos))
