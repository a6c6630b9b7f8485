"""The outcome of one partition of one level."""

from dataclasses import dataclass, field
from typing import Any

from engine.errors import ComponentError, Failure
from engine.metrics import UserMetric
from engine.runtime.error_report import ErrorReport
from spark_bridge.topology.result_files import ResultFile


@dataclass(frozen=True, slots=True)
class RunEnd:
    """An error that ends the run."""

    component_id: str
    task_id: int | None
    message: str
    hint: str | None


@dataclass(slots=True)
class LevelStatus:
    """The outcome of one partition of one level."""

    level: int
    partition: int
    number: int = 0
    """Number of the try of this partition."""
    read_from: dict[int, int] = field(default_factory=dict)
    """By source task of another partition: the try that sent the blocks that this partition has read."""
    was_told: bool = False
    """True if another partition has told this one of its failure, so this one has ended early."""
    replies: dict[int, Any] = field(default_factory=dict)
    """Answers of emitters, by task id."""
    files: list[ResultFile] = field(default_factory=list)
    executed: dict[int, int] = field(default_factory=dict)
    """Number of executed tuples, by task id."""
    emitted: dict[int, int] = field(default_factory=dict)
    metrics: list[UserMetric] = field(default_factory=list)
    """Metrics of user code."""
    secs: float = 0.0
    """Duration of the partition."""
    blocks: int = 0
    """Blocks that were sent through Spark, with their rows and bytes."""
    rows: int = 0
    bytes: int = 0
    reports: list[ErrorReport] = field(default_factory=list)
    failure: Failure | None = None
    end: RunEnd | None = None

    @property
    def has_failed(self) -> bool:
        """True if the attempt cannot succeed."""
        return self.failure is not None or self.end is not None


def run_end(error: ComponentError) -> RunEnd:
    """Return the error without its place, which the engine's process puts in front again."""
    return RunEnd(error.component_id, error.task_id, error.message.removeprefix(f"{error.place}: "), error.hint)
