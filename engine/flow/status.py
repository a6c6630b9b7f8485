"""Snapshots of flow control (FC-7), with the position of each spout task and the window of each bolt task."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

FlowState: TypeAlias = Literal["NORMAL", "SLOW", "BUSY"]


@dataclass(frozen=True, slots=True)
class FlowTaskSnapshot:
    """One bolt task, as one spout task sees it."""

    task_id: int
    state: FlowState
    window: int
    """Packs that may be in flight."""
    in_flight: int
    """Packs that are in flight."""
    in_flight_records: int
    pack_records: int
    """Records in the last pack that was sent to the task."""
    service_ms: float | None
    """Smoothed service time of a record; None before the first ack."""
    service_p99_ms: float | None
    """99th percentile of the service time of a record, measured per pack."""
    settled: int
    """Packs that the task has acked."""
    records: int
    """Records in the packs that the task has acked."""
    resends: int
    """Packs that the task has failed, or that were called back from it."""


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """The flow control of one spout task."""

    component_id: str
    task_id: int
    task_index: int
    tasks: tuple[FlowTaskSnapshot, ...]
    buffered_records: int
    """Records that the producer has yielded, and that were never sent."""
    pending_records: int
    """Records that were sent, and are beyond the done prefix."""
    done_records: int
    """Records of the done prefix, since this instance of the spout began."""
    records_since_checkpoint: int
    """Records that were sent beyond the recorded position. A crash repeats at most these records."""
    position: str | None
    """The recorded position as `repr` shows it; None if there is none yet."""
    holds: str | None
    """Reason why the spout sends nothing at the moment. None if it can send."""
