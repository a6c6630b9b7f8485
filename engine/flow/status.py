"""What a run shows of its flow control (FC-7): each spout task's position, and each bolt task's window."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

FlowState: TypeAlias = Literal["NORMAL", "SLOW", "BUSY"]


@dataclass(frozen=True, slots=True)
class FlowTaskSnapshot:
    """One bolt task, as the controller of one spout task sees it."""

    task_id: int
    state: FlowState
    window: int
    """Packs that may be at the task."""
    in_flight: int
    """Packs that are."""
    in_flight_records: int
    pack_records: int
    """Records in the last pack that was sent to it."""
    service_ms: float | None
    """Smoothed service time of a record; None before the first ack."""
    service_p99_ms: float | None
    """The 99th percentile of it, as measured per pack."""
    settled: int
    """Packs that it acked."""
    records: int
    """The records in them."""
    resends: int
    """Packs that it failed, or that were called back from it."""


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """The flow control of one spout task."""

    component_id: str
    task_id: int
    task_index: int
    tasks: tuple[FlowTaskSnapshot, ...]
    buffered_records: int
    """Yielded, and not sent yet."""
    pending_records: int
    """Sent, and not below the done prefix."""
    done_records: int
    """Records below the done prefix, since this instance of the spout began."""
    records_since_checkpoint: int
    """Sent beyond the recorded position: a crash repeats at most so many."""
    position: str | None
    """The recorded position, as `repr` gives it; None: none yet."""
    holds: str | None
    """Why nothing is sent just now, if something holds it; None: nothing does."""
