from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, final

from _native.burst import Burst
from _native.ids import EdgeIds
from _native.queues import HeldTuples, Mailbox, SignalRing
from _native.state import Layers
from _native.task import BoltBacklog, TaskCore
from _native.timing import LatencyHistogram
from _native.tuples import Tuple

@final
class BoltCore(TaskCore):
    """The compiled part of a bolt's executor. TaskCore describes the arguments that spouts also have."""

    def __init__(
        self,
        task_id: int,
        *,
        mailbox: Mailbox,
        failed_reason: object = None,
        forgotten_reason: object = None,
        fails_forgotten: bool = True,
        on_forgotten: Callable[[], object] | None = None,
        ids: EdgeIds,
        ackers: list[SignalRing],
        now: Callable[[], float],
        misuse: Callable[..., BaseException],
        backlog: BoltBacklog,
        slow_call_secs: float = 0.5,
    ) -> None: ...
    def bind(self, execute: Callable[[Any], Any], *, basic: bool, burst_rows: int = 0, settler: object = None) -> None:
        """Serve a new instance. Store its `execute`, and whether the core anchors and acks for it.

        burst_rows: `execute` takes a Burst of at most this number of tuples. 0: one tuple. settler: acks and fails tuples of a Burst.
        """

    on_unanchored: Callable[[int], object] | None
    on_rootless_failure: Callable[[Tuple, Any], object] | None

    def connect(self, upstream: dict[int, TaskCore], settle_rings: dict[int, SignalRing]) -> None:
        """Set the cores that send to this task, by task id, and the rings of the spout tasks among these."""

    def emit(self, values: object, anchors: object, stream: str) -> None:
        """Emit values. `anchors` is None, a Tuple of this task, or a collection of such tuples."""

    def emit_direct(self, task: int, values: object, anchors: Tuple | Iterable[Any] | None, stream: str) -> None:
        """Emit to one task of each direct subscriber of a stream that is declared direct."""

    def emit_control(self, values: object, stream: str, anchor: Tuple | None = None) -> None:
        """Send values as a control tuple to every task of every subscriber of a stream. Never stops a sender."""

    def run_burst(self, limit: int) -> int:
        """Take and execute up to limit tuples, or for 5 ms. Return a BoltOutcome.

        Raises the error of a call. Its input is `current`, or `burst` if the instance takes bursts.
        """

    def take_next(self) -> Tuple | None:
        """Take one tuple for a call that the executor awaits. None if no tuple waits. A control tuple does not count as taken."""

    def end_call(self, secs: float, given: Tuple | Burst | None = None) -> None:
        """Count the time of an executor's call that has returned. Ack the unsettled tuples of a Burst, and of a basic bolt the tuple."""

    def retry_singly(self, burst: Burst, reason: object, *, awaited: bool) -> int:
        """Run the unsettled tuples of a burst that raised again, one by one, before all others. Return their number.

        The changes of the call to the state are undone. Its emits are taken back. They stay if the call has acked a tuple, was
        awaited, or has let another task send to the same mailboxes.
        """

    @property
    def marks(self) -> deque[Tuple]:
        """Marks that wait until all earlier inputs are settled, oldest first."""

    @property
    def is_gated(self) -> bool:
        """True while the gate is closed."""

    @property
    def retrying(self) -> int:
        """Number of tuples that run again one by one."""

    def requeue_singly(self) -> None:
        """Let the next instance take the tuples that still have to run again, one by one and before all others."""

    def guard_state(self, state: Layers) -> None:
        """From now on, a call's changes of this state and its acks take effect only when the call returns."""

    def guard_only(self, call_var: ContextVar[Any], call: object) -> None:
        """Undo only changes by code in whose context call_var is call, because other code runs while the call is awaited."""

    def undo_call(self, reason: object) -> None:
        """Undo the state changes and the acks of the call that raised. The acked tuples fail with its input."""

    def forget_current(self) -> None:
        """Release the last call's input."""

    def leave_burst(self) -> None:
        """Note that the executor makes no calls for a while, so no spout has to give way to this bolt."""

    def ack(self, tup: Tuple) -> None: ...
    def fail(self, tup: Tuple, reason: object = None) -> None:
        """Fail every root of tup. `reason` is a Failure. The default says that the bolt failed the tuple."""

    def reset_timeout(self, tup: Tuple) -> None: ...
    def flush_forgotten(self) -> None:
        """Fail the roots of forgotten tuples. Must be called on the loop's thread."""

    def hold_all(self) -> None:
        """Hold back tuples of all source tasks, and stop these tasks."""

    def release_sources(self) -> None:
        """End all holds."""

    def drop_taken(self, reason: object) -> None:
        """Drop the inputs that the task has taken, without a signal. Later settles are ignored."""

    def drop_inputs(self, reason: object) -> None:
        """Drop all inputs that wait or are taken, without a signal. The spouts fail the trees themselves."""

    def fail_taken(self, reason: object) -> int:
        """Fail all unsettled tuples that the task has taken, oldest first, and return their number. Later settles are ignored."""

    def fail_overdue(self, reason: object, limit_secs: float, waiting: list[Tuple]) -> None:
        """Fail the taken tuples of no tree that are older than limit_secs, except those in `waiting`. Later settles are ignored."""

    def refuse(self, reasons: dict[tuple[str, str], Any] | None) -> None:
        """Fail the next inputs of no tree from these (component, stream) with the reasons, before their calls. None: take all."""

    def lose(self, tup: Tuple) -> None:
        """Drop a taken tuple as if it had never arrived, so its trees time out. For fault injection."""

    def hold(self, source_task: int) -> None:
        """Hold back tuples of source_task, and stop that task."""

    def release(self, source_task: int) -> None:
        """Take the held tuples of source_task next, in order, and let that task continue."""

    def release_all(self) -> None:
        """End all holds, and open the gate. Called when the task has no instance, so all inputs fail."""

    def gate(self, closed: bool) -> None:
        """Close the gate to hold back tuples of all sources, or open it to take the held tuples next."""

    def refresh_waiting(self, position: int, limit: int) -> int:
        """Reset the timeout of up to limit waiting tuples from position on. Return the next position, -1 at the end."""

    def refresh_held(self) -> None:
        """Reset the timeout of all tuples that are held back, are released, or wait to run again."""

    def post_tick(self, tick: Tuple) -> None:
        """Post a tick, unless a tick already waits or the gate is closed. A tick stops no sender and belongs to no tree."""

    def settle_control(self, tup: Tuple, reason: object = None) -> None:
        """Ack a control tuple, or fail it for a reason."""

    def taken_tuples(self) -> list[Tuple]:
        """Return the tuples that are taken and not settled, oldest first."""

    def oldest_taken(self, most: int) -> list[Tuple]:
        """Return the oldest tuples that are taken and not settled, at most `most`. Takes no time for the others."""

    def taken_age_ms(self, tup: Tuple, now_secs: float) -> int:
        """Return the milliseconds from the take of tup to this time of the run's clock."""

    @property
    def taken(self) -> int:
        """Number of tuples that are taken and not settled. Counts them one by one."""

    @property
    def waiting(self) -> int:
        """Number of tuples in the mailbox."""

    burst_rows: int
    """Most tuples of a call. 0 if the instance takes one tuple at a time."""

    fails_forgotten: bool
    """False: the trees of a forgotten tuple wait for their timeout."""

    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def current(self) -> Tuple | None: ...
    @property
    def burst(self) -> Burst | None: ...
    @property
    def returned(self) -> object: ...
    @property
    def failures(self) -> dict[str, int]: ...
    @property
    def forgotten_tuples(self) -> int: ...
    @property
    def settled_twice(self) -> int: ...
    @property
    def held_tuples(self) -> HeldTuples: ...
    @property
    def process_latency(self) -> LatencyHistogram: ...
