"""Explains jobs that failed because a Python worker or an executor died. Spark's own error names neither the component nor a remedy."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_bridge.process.messages import CallFailure

MOST_FRAMES: Final = 6
"""Frames of the crashed call in the error."""
_CRASHED: Final = re.compile(r"^Current thread .*\n((?:\s+File .*\n?)+)", re.MULTILINE)
_TASK: Final = re.compile(r"Task (\d+) in stage (\d+)\.\d+ failed (\d+) times")
_PLACE: Final = re.compile(r"\(TID \d+\) \((\S+) executor (\S+)\)")
_WORKER: Final = re.compile(r"Python worker exited unexpectedly \(crashed\)(?:: *([^\n]*(?:\n(?!\s*at \S+\().*)*))?")
_EXECUTOR: Final = re.compile(r"ExecutorLostFailure \(executor \S+ exited[^)]*\) Reason: (.+)")
_STAGE: Final = re.compile(r"Stage (\d+) \(.*\) has failed the maximum allowable number of times: (\d+)")
_MEMORY: Final = (
    "If nobody killed it, the kernel did so to free memory (see dmesg there). Make the batches smaller, let fewer tasks run at once "
    "(spark.executor.cores in conf=), or give Python more memory (spark.executor.memoryOverhead in conf=)."
)
_CRASH: Final = "Look for a module in C that the first of these calls uses."
_EXECUTOR_HINT: Final = (
    "See the executor's log, and dmesg there. If memory ran out, make the batches smaller, or raise executor_memory= of SparkConfig."
)


class WorkerLost(Exception):
    """A job failed because one of its processes died. `call_failure` has the text for the engine's process."""

    def __init__(self, failure: CallFailure) -> None:
        super().__init__(failure.message)
        self.call_failure = failure


@dataclass(frozen=True, slots=True)
class _Task:
    """The task of Spark that failed last, as far as Spark's error names it."""

    partition: int
    stage: int
    tries: int
    place: str


def worker_lost(text: str, components: Sequence[Sequence[str]], stages_with: Callable[[int], Iterable[int]]) -> WorkerLost | None:
    """Return the error of a job whose processes died. None for any other failure.

    text: Spark's error. components: of each level. stages_with: gets the id of a stage, and returns the ids of all stages of its job.
    """
    worker, executor, task = _WORKER.search(text), _EXECUTOR.search(text), _task_of(text)
    if task is None and (stage := _STAGE.search(text)) is not None:
        reader = _stage_text(int(stage[1]), components, stages_with)
        lost = f"the input of {reader} was lost {stage[2]} times, with the executors that had it"
        return WorkerLost(CallFailure(lost, hint=_EXECUTOR_HINT))
    if task is None or (worker is None and executor is None):
        return None
    doing = f"partition {task.partition} of {_stage_text(task.stage, components, stages_with)}"
    tries = "" if task.tries == 1 else f", in all {task.tries} tries"
    if worker is None:
        assert executor is not None
        text = f"an executor died{task.place} while it computed {doing}{tries}: {executor[1].strip()}"
        return WorkerLost(CallFailure(text, hint=_EXECUTOR_HINT))
    died = f"a Python worker died{task.place} while it computed {doing}{tries}"
    if last_words := _last_words(worker[1]):
        return WorkerLost(CallFailure(f"{died}:\n{last_words}", hint=_CRASH))
    return WorkerLost(CallFailure(f"{died}. It was killed by SIGKILL, or ended itself by os._exit()", hint=_MEMORY))


def _task_of(text: str) -> _Task | None:
    task, place = _TASK.search(text), _PLACE.search(text)
    if task is None:
        return None
    where = "" if place is None else f" at {place[1]}" + ("" if place[2] == "driver" else f" (executor {place[2]})")
    return _Task(int(task[1]), int(task[2]), int(task[3]), where)


def _stage_text(stage: int, components: Sequence[Sequence[str]], stages_with: Callable[[int], Iterable[int]]) -> str:
    """Return the components of a stage. Spark numbers the stages of a job in the order of the levels."""
    levels = sorted(stages_with(stage))
    return level_text(levels.index(stage) if stage in levels else len(components), stage, components)


def level_text(level: int, stage: int, components: Sequence[Collection[str]]) -> str:
    """Return the components of a level, or the number of its stage if it has none."""
    names = components[level] if level < len(components) else ()
    return ", ".join(map(repr, names)) or f"stage {stage}"


def _last_words(text: str | None) -> str:
    """Return what the worker itself told of its crash (`spark.python.worker.faulthandler.enabled`)."""
    text = (text or "").strip()
    reason, _, _ = text.partition("\n")
    crashed = _CRASHED.search(text)
    frames = [] if crashed is None else [line.strip() for line in crashed[1].splitlines() if line.strip()]
    return "\n  ".join([reason.strip(), *frames[:MOST_FRAMES]])


def stages_of(context: Any, stage: int) -> list[int]:
    """Return the ids of all stages of the job that has a stage. context: Spark's, in the thread that has started the job."""
    tracker = context.statusTracker()
    for job in sorted(tracker.getJobIdsForGroup(context.getLocalProperty("spark.jobGroup.id")), reverse=True):
        info = tracker.getJobInfo(job)
        if info is not None and stage in info.stageIds:
            return list(info.stageIds)
    return []
