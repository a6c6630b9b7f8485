"""Log of the jobs of a run: the newest ones with their stages, and totals of all."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.clock import Clock
from engine.transactional.attempt import TransactionAttempt
from spark_bridge.topology.job_plan import JobPlan
from spark_bridge.topology.level_status import LevelStatus
from spark_bridge.topology.status import MOST_JOBS, JobSnapshot, JobsSnapshot, JobState, StageSnapshot


@dataclass(slots=True, eq=False)
class LoggedJob:
    """A job in the log."""

    attempt: TransactionAttempt
    wall: float
    began: float
    """By the monotonic clock."""
    state: JobState = "running"
    secs: float = 0.0
    stages: tuple[StageSnapshot, ...] = ()


class JobLog:
    """Counts jobs, and keeps the newest ones."""

    def __init__(self, plan: JobPlan, clock: Clock, master: str) -> None:
        self._plan = plan
        self._clock = clock
        self._master = master
        self._component_of = {task: component for component, tasks in plan.task_ids.items() for task in tasks}
        self._newest: deque[LoggedJob] = deque(maxlen=MOST_JOBS)
        self._counts: Counter[str] = Counter()
        self._secs = 0.0
        self._last: tuple[float, float] | None = None
        """Seconds of the newest job that has returned, and of its slowest partition."""
        self._blocks = self._rows = self._bytes = 0
        self._executed: Counter[str] = Counter()
        self._emitted: Counter[str] = Counter()
        self._spark: Mapping[str, Any] = {}

    def begin(self, attempt: TransactionAttempt) -> LoggedJob:
        """Add a running job."""
        job = LoggedJob(attempt, self._clock.wall(), self._clock.now())
        self._newest.append(job)
        return job

    def end(self, job: LoggedJob, state: JobState, statuses: Sequence[LevelStatus] = ()) -> None:
        """Note the end of a job. A second end of one job has no effect. statuses: empty if the job has not returned."""
        if job.state != "running":
            return
        job.state, job.secs = state, self._clock.now() - job.began
        self._counts[state] += 1
        self._secs += job.secs
        if not statuses:
            return
        job.stages = tuple(self._stages(statuses))
        self._last = job.secs, max(status.secs for status in statuses)
        for status in statuses:
            self._blocks += status.blocks
            self._rows += status.rows
            self._bytes += status.bytes
            for counted, counts in ((self._executed, status.executed), (self._emitted, status.emitted)):
                for task, count in counts.items():
                    counted[self._component_of[task]] += count

    def _stages(self, statuses: Iterable[LevelStatus]) -> Iterable[StageSnapshot]:
        by_level: dict[int, list[LevelStatus]] = {}
        for status in statuses:
            by_level.setdefault(status.level, []).append(status)
        for level, partitions in sorted(by_level.items()):
            groups = [group for group in self._plan.groups if group.level == level]
            slowest = max(partitions, key=lambda status: status.secs)
            number = slowest.partition
            yield StageSnapshot(
                level,
                tuple(component for group in groups for component in group.components),
                len(partitions),
                sum(sum(status.executed.values()) for status in partitions),
                slowest.secs,
                number,
                next((each.components for each in groups if 0 <= number - each.first_partition < each.partitions), ()),
                sum(status.blocks for status in partitions),
                sum(status.rows for status in partitions),
                sum(status.bytes for status in partitions),
            )

    def note_spark(self, facts: Mapping[str, Any]) -> None:
        """Store the facts of Spark's process. They stay after its end, so that its application can still be named."""
        self._spark = facts or self._spark

    def snapshot(self, running: Iterable[int]) -> JobsSnapshot:
        """Return the jobs at this moment. running: txids."""
        last, slowest = self._last or (None, None)
        return JobsSnapshot(
            running=tuple(sorted(running)),
            done=self._counts["done"],
            failed=self._counts["failed"],
            replaced=self._counts["replaced"],
            ended_secs=self._secs,
            last_secs=last,
            slowest_partition_secs=slowest,
            shuffled_blocks=self._blocks,
            shuffled_rows=self._rows,
            shuffled_bytes=self._bytes,
            executed=dict(self._executed),
            emitted=dict(self._emitted),
            newest=tuple(self._snapshot_of(job) for job in reversed(self._newest)),
            master=self._master,
            application=self._spark.get("application"),
            version=self._spark.get("version"),
            ui=self._spark.get("ui"),
        )

    def _snapshot_of(self, job: LoggedJob) -> JobSnapshot:
        secs = self._clock.now() - job.began if job.state == "running" else job.secs
        return JobSnapshot(job.attempt.txid, job.attempt.attempt_id, job.state, job.wall, secs, job.stages)
