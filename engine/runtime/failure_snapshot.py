"""A failed tree as data."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class FailureSnapshot:
    """One failed tree."""

    wall: float
    """Time of the failure, in seconds since the epoch."""
    component_id: str
    """The spout whose tree failed."""
    task_id: int
    message_id: str
    """The message id as `repr` shows it, shortened."""
    reason: str
    failed_component: str | None
    """The component that failed the tree, or that owes the ack. None if unknown."""
    failed_task: int | None
    error: str | None


def failure_dict(failure: FailureSnapshot) -> dict[str, Any]:
    """Return a failed tree as a dict for `json.dumps`; `time` is ISO 8601 in UTC."""
    return {
        "time": datetime.fromtimestamp(failure.wall, UTC).isoformat(timespec="milliseconds"),
        "component": failure.component_id,
        "task": failure.task_id,
        "message_id": failure.message_id,
        "reason": failure.reason,
        "failed_component": failure.failed_component,
        "failed_task": failure.failed_task,
        "error": failure.error,
    }
