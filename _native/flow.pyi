from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, final

from _native.timing import LatencyHistogram

_Entry: TypeAlias = tuple[Any, Any, float, int]

@final
class PackDelivery:
    """One pack that was sent to one task and is not settled there. It is the message id of the pack's tuple."""

    @property
    def window(self) -> TaskWindow: ...
    @property
    def pack(self) -> Any: ...
    @property
    def sent_at(self) -> float:
        """Time of the emit."""

    @property
    def record_count(self) -> int: ...
    @property
    def is_outstanding(self) -> bool:
        """True while the window counts the pack as in flight."""

    @property
    def was_called_back(self) -> bool:
        """True if the pack was queued for another task. This task may still process it."""

    payload: Any

@final
class TaskWindow:
    """Send window of one bolt task. At most `size` packs may be in flight, and at most `concurrency` packs in progress.

    `threshold_secs`: an ack that takes longer makes the task SLOW; 0 means the time of `concurrency` + 1 packs. `pack_secs`: the
    service time that a pack aims at. `now` is the time in seconds of one monotonic clock.
    """

    def __init__(
        self, task_id: int, *, initial_size: int, max_size: int, threshold_secs: float, pack_secs: float, concurrency: int = 1
    ) -> None: ...
    @property
    def task_id(self) -> int: ...
    @property
    def state(self) -> Literal["NORMAL", "SLOW", "BUSY"]: ...
    @property
    def size(self) -> int: ...
    @property
    def max_size(self) -> int: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def head_began(self) -> float:
        """Time at which the task began its oldest pack, as far as the sender knows."""

    @property
    def in_flight(self) -> int: ...
    @property
    def in_flight_records(self) -> int: ...
    @property
    def last_records(self) -> int:
        """Records in the newest pack that was sent."""

    @property
    def acked_packs(self) -> int: ...
    @property
    def acked_records(self) -> int: ...
    @property
    def resends(self) -> int:
        """Packs that failed, or were called back."""

    @property
    def paused_until(self) -> float:
        """End of the pause of a BUSY task. Until then the task gets no pack."""

    @property
    def streak(self) -> int:
        """Number of the current failure streak. An ack or a stall ends a streak."""

    @property
    def failures_since_ack(self) -> int:
        """Failures since the last ack, including revoked ones."""

    @property
    def service(self) -> LatencyHistogram:
        """Service times of records, measured per pack."""

    @property
    def service_secs(self) -> float | None:
        """Smoothed service time of one record; None before the first ack."""

    @property
    def threshold_secs(self) -> float:
        """Time from emit to ack above which the task is SLOW."""

    def expected_wait(self, now: float) -> float:
        """Return the seconds until the task would begin a pack that is sent now."""

    def has_room(self, now: float) -> bool:
        """True if the window has room, and the task does not pause."""

    def records_in(self, secs: float) -> int:
        """Return the number of records that the task processes in this time, at least 1."""

    def deliveries(self) -> list[PackDelivery]:
        """Return the deliveries in flight, the oldest first."""

    def open_delivery(self, pack: object, record_count: int, now: float) -> PackDelivery:
        """Count a pack as in flight, and return its delivery."""

    def note_ack(self, delivery: PackDelivery, now: float) -> bool:
        """Count an ack of the task itself. False if the delivery was no longer in flight."""

    def note_failure(self, delivery: PackDelivery, now: float) -> bool:
        """Count a failure or timeout, make the task BUSY, and shrink its window. False if the delivery was no longer in flight."""

    def note_repeated_failure(self, delivery: PackDelivery, now: float) -> bool: ...
    def revoke_failure(self, streak: int, lost_size: int) -> None: ...
    def note_stall(self, now: float) -> None: ...
    def call_back(self, delivery: PackDelivery, now: float) -> bool:
        """Stop counting a delivery at a stalled task, so that another task can get the pack. False if it was no longer in flight."""

    def release(self, delivery: PackDelivery, now: float) -> bool:
        """Stop counting a delivery whose tree failed at another task. False if it was no longer in flight."""

@final
class TaskChooser:
    """Chooses the task for the next pack by the least expected wait, or round robin if `by_turns`."""

    def __init__(self, windows: Iterable[TaskWindow], *, by_turns: bool = False) -> None: ...
    @property
    def windows(self) -> tuple[TaskWindow, ...]: ...
    def note_sent(self, window: TaskWindow) -> None:
        """Move the turn to the task after the one that got a pack."""

    def choose(self, now: float, other_than: TaskWindow | None = None) -> TaskWindow | None:
        """Return the window of the task for the next pack. None if no task has room.

        A BUSY task is chosen only if no other task has room. `other_than` is never chosen.
        """

    def next_probe(self, now: float) -> float:
        """Return the end of the next pause of a BUSY task. Infinity if no task pauses."""

@final
class DonePrefix:
    """Cumulative ack, which is the highest record number up to which all records are done."""

    def __init__(self) -> None: ...
    @property
    def done(self) -> int:
        """Number of the last record of the prefix. Record numbers begin with 1."""

    @property
    def position(self) -> Any:
        """Position of the last record of the prefix. None before the first."""

    @property
    def ranges_ahead(self) -> int:
        """Number of ranges that wait for a gap below them to close."""

    def mark_done(self, first: int, last: int, position: object) -> bool:
        """Mark the records from `first` to `last` as done. Return True if the prefix has grown.

        Ranges may arrive in any order. `position` is the position of `last`.
        """

@final
class Pack:
    """Records with successive numbers that are sent in one tuple."""

    tries: int
    is_done: bool
    penalty: Any
    def __init__(self, first: int, entries: list[_Entry], tries: int = 0) -> None: ...
    @property
    def first(self) -> int: ...
    @property
    def entries(self) -> list[_Entry]: ...
    @property
    def last(self) -> int:
        """Number of its last record."""

    @property
    def position(self) -> Any:
        """Position of its last record."""

    def split_into_singles(self) -> list[Pack]:
        """Return one pack for each record, with the same number of tries."""

    def split_around(self, index: int) -> tuple[Pack, list[Pack]]:
        """Return the failed record at `index` as a pack, and the packs before and after it. This try counts only for the failed record."""

class FlowFeed:
    """Buffers, packs and sends the records of one spout task. Base of `FlowController`, which handles failures and stalls."""

    source_ended: bool
    next_stall_check: float
    goes_alone: Callable[[Any], bool] | None
    """Tells of a position whether its record is sent alone. None: no record is."""
    def __init__(self, chooser: TaskChooser, settings: Any, size_of: Callable[[Any], int], stall_secs: float = ...) -> None: ...
    @property
    def chooser(self) -> TaskChooser: ...
    @property
    def prefix(self) -> DonePrefix: ...
    @property
    def sent_records(self) -> int:
        """Number of the last record that was sent."""

    @property
    def pending_records(self) -> int:
        """Records that were sent and are beyond the done prefix."""

    @property
    def is_full(self) -> bool:
        """True if no more records may be sent beyond the done prefix."""

    @property
    def buffer(self) -> deque[_Entry]: ...
    @property
    def resend_queue(self) -> list[tuple[float, int, Pack, TaskWindow]]: ...
    def records_wanted(self, now: float) -> int:
        """Return the number of records that the next pack still needs. 0 if no pack could be sent now."""

    def offer_record(self, position: object, record: object, now: float) -> bool:
        """Append a record to the buffer. Return True if the buffer has the bytes of a pack, so it accepts no more."""

    def next_wake(self, now: float) -> float | None:
        """Return the time of the next try if no ack or failure arrives earlier. None if only an ack or a failure can help."""

    @property
    def stall_secs(self) -> float: ...
    def next_delivery(self, now: float) -> PackDelivery | None:
        """Send the next pack to a task. Resends come first. None if nothing can be sent, or the pack waits for more records."""

    def forget_records(self) -> None:
        """Forget all records, because the source is read again from an earlier position."""

    def send_pack(self, pack: Pack, window: TaskWindow, now: float) -> PackDelivery:
        """Send a pack to a task, and return the delivery."""

    def note_task_ack(self, delivery: PackDelivery, now: float) -> None:
        """Remove a pack that the task itself has acked from the window. The pack's tree may still be open downstream."""

    def note_tree_ack(self, delivery: PackDelivery, now: float) -> bool:
        """Mark a pack as done, because its whole tree is acked. True if the done prefix has grown."""
