"""Snapshot of the jobs of a run on Spark, and its entry in the run's snapshot."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from engine.control import SnapshotEntry
from engine.metrics import Family, Sample
from engine.metrics.openmetrics import Measure

ENTRY: Final = "jobs"
"""Entry of the snapshot."""
MOST_JOBS: Final = 20
"""Jobs of a snapshot."""

JobState: TypeAlias = Literal["running", "done", "failed", "replaced"]
"""failed: the job failed, or its batch failed in it. replaced: a newer attempt has cancelled the job."""


@dataclass(frozen=True, slots=True)
class StageSnapshot:
    """One level of a job that has ended."""

    level: int
    components: tuple[str, ...]
    partitions: int
    executed: int
    """Tuples that its tasks have executed."""
    slowest_secs: float
    """Time of the slowest partition."""
    slowest_partition: int
    slowest_components: tuple[str, ...]
    """Components that run in the slowest partition."""
    shuffled_blocks: int
    """Blocks that its tasks have sent through Spark, with their rows and bytes. Result files do not count."""
    shuffled_rows: int
    shuffled_bytes: int


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """One attempt that ran on Spark."""

    txid: int
    attempt_id: int
    state: JobState
    began: float
    """Time of the start, in seconds since the epoch."""
    secs: float
    """Duration. Of a running job: until now."""
    stages: tuple[StageSnapshot, ...]
    """By level. Empty while the job runs, and if it returned nothing."""


@dataclass(frozen=True, slots=True)
class JobsSnapshot:
    """The jobs of a run at one moment. Counts are those of this run."""

    running: tuple[int, ...]
    """Txids with a running job, ascending."""
    done: int
    failed: int
    replaced: int
    ended_secs: float
    """Sum of the durations of all jobs that have ended."""
    last_secs: float | None
    """Duration of the newest job that has returned."""
    slowest_partition_secs: float | None
    """Longest time of one partition in that job."""
    shuffled_blocks: int
    """Blocks that tasks have sent through Spark, with their rows and bytes."""
    shuffled_rows: int
    shuffled_bytes: int
    executed: Mapping[str, int]
    """Tuples that the tasks on Spark have executed, by component. Includes attempts that failed."""
    emitted: Mapping[str, int]
    newest: tuple[JobSnapshot, ...]
    """The newest jobs, the newest first."""
    master: str
    application: str | None
    """Id of Spark's application. None before its first job has returned."""
    version: str | None
    ui: str | None
    """Address of Spark's own page. None before the first job has returned, and with `spark.ui.enabled=false`."""


class JobsEntry(SnapshotEntry):
    """Jobs in a snapshot. `snapshot.entry(JobsEntry).value` is None before the first request."""

    name = ENTRY
    value: JobsSnapshot | None

    def __init__(self, value: JobsSnapshot | None) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return the fields of the value."""
        return None if self.value is None else asdict(self.value)

    @classmethod
    def from_json(cls, value: Any) -> "JobsEntry":
        """Return the entry of a result of `to_json`."""
        if value is None:
            return cls(None)
        newest = tuple(_job(each) for each in value["newest"])
        return cls(JobsSnapshot(**{**value, "running": tuple(value["running"]), "newest": newest}))

    def families(self, topology_name: str) -> Iterator[Family]:
        """Yield the families of `stormcell_spark_…`."""
        if self.value is None:
            return
        labels, jobs = {"topology": topology_name}, self.value
        outcomes = {"done": jobs.done, "failed": jobs.failed, "replaced": jobs.replaced}
        samples = tuple(Sample({**labels, "outcome": outcome}, number, "_total") for outcome, number in outcomes.items())
        yield Family("stormcell_spark_jobs", "counter", "Jobs that have ended, by their outcome.", samples, "jobs")
        for measure in _MEASURES:
            yield measure.family("stormcell_spark_", [(labels, jobs)])

    def text(self) -> str | None:
        """Return the line of the views."""
        jobs = self.value
        if jobs is None:
            return None
        parts = [f"Spark jobs {jobs.done:,} done", f"{len(jobs.running):,} running", f"{jobs.failed:,} failed"]
        if jobs.replaced:
            parts.append(f"{jobs.replaced:,} replaced")
        if jobs.last_secs is not None:
            parts.append(f"last {jobs.last_secs:.2g} s (slowest {_slowest_text(jobs)}{jobs.slowest_partition_secs or 0:.2g} s)")
        parts.append(f"{jobs.shuffled_rows:,} rows, {jobs.shuffled_bytes / 1e6:.1f} MB shuffled")
        if jobs.application is not None:
            parts.append(jobs.ui or "Spark's page is off (spark.ui.enabled=false)")
        executed = " ".join(f"{component} {count:,}" for component, count in jobs.executed.items() if count)
        if executed:
            parts.append(f"executed there: {executed}")
        return " · ".join(parts)


_MEASURES: Final[tuple[Measure[JobsSnapshot], ...]] = (
    Measure("running_jobs", "gauge", "jobs", "Jobs that run now.", lambda now: len(now.running)),
    Measure("job_seconds", "counter", "seconds", "Time of all jobs that have ended.", lambda now: now.ended_secs),
    Measure("shuffled_rows", "counter", "rows", "Rows that tasks have sent through Spark.", lambda now: now.shuffled_rows),
    Measure("shuffled_bytes", "counter", "bytes", "Bytes that tasks have sent through Spark.", lambda now: now.shuffled_bytes),
)


def _slowest_text(jobs: JobsSnapshot) -> str:
    """Return component and number of the slowest partition of the newest job that has returned."""
    stages = next((job.stages for job in jobs.newest if job.stages), ())
    if not stages:
        return "partition "
    slowest = max(stages, key=lambda stage: stage.slowest_secs)
    return f"{'+'.join(slowest.slowest_components)} [{slowest.slowest_partition}] "


def _job(value: Any) -> JobSnapshot:
    return JobSnapshot(**{**value, "stages": tuple(_stage(each) for each in value["stages"])})


def _stage(value: Any) -> StageSnapshot:
    names = {name: tuple(value[name]) for name in ("components", "slowest_components")}
    return StageSnapshot(**{**value, **names})
