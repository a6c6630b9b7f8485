"""Snapshot of the jobs of a run on Spark, and its entry in the run's snapshot."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.control import SnapshotEntry

ENTRY: Final = "jobs"
"""Entry of the snapshot."""


@dataclass(frozen=True, slots=True)
class JobsSnapshot:
    """The jobs of a run at one moment. Counts are those of this run."""

    running: tuple[int, ...]
    """Txids with a running job, ascending."""
    done: int
    failed: int
    """Jobs that failed, were replaced, or whose batch failed in them."""
    last_secs: float | None
    """Duration of the newest job that has ended."""
    slowest_partition_secs: float | None
    """Longest time of one partition in that job."""
    shuffled_blocks: int
    """Blocks that went from one level to another."""
    shuffled_bytes: int
    executed: Mapping[str, int]
    """Tuples that the tasks on Spark have executed, by component. Includes attempts that failed."""
    emitted: Mapping[str, int]


class JobsEntry(SnapshotEntry):
    """Jobs in a snapshot. `snapshot.entry(JobsEntry).value` is None before the first request."""

    name = ENTRY
    value: JobsSnapshot | None

    def __init__(self, value: JobsSnapshot | None) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return the fields of the value."""
        return None if self.value is None else asdict(self.value) | {"running": list(self.value.running)}

    @classmethod
    def from_json(cls, value: Any) -> "JobsEntry":
        """Return the entry of a result of `to_json`."""
        return cls(None if value is None else JobsSnapshot(**{**value, "running": tuple(value["running"])}))

    def text(self) -> str | None:
        """Return the line of the views."""
        jobs = self.value
        if jobs is None:
            return None
        last = (
            "" if jobs.last_secs is None else f" · last {jobs.last_secs:.2g} s (slowest partition {jobs.slowest_partition_secs or 0:.2g} s)"
        )
        executed = " ".join(f"{component} {count:,}" for component, count in jobs.executed.items() if count)
        return (
            f"Spark jobs {jobs.done:,} done · {len(jobs.running)} running · {jobs.failed:,} failed{last}"
            f" · {jobs.shuffled_bytes / 1e6:.1f} MB shuffled{f' · executed there: {executed}' if executed else ''}"
        )
