from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, final

from _native.ids import EdgeIds
from _native.queues import DeferredAcks, HeldTuples, Mailbox, SignalRing
from _native.state import Layers
from _native.task import BoltBacklog, TaskCore
from _native.timing import LatencyHistogram
from _native.tuples import Tuple

@final
class BoltCore(TaskCore):
    """The C side of a bolt's executor. TaskCore describes the arguments that spouts have too."""

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
    def bind(self, execute: Callable[[Tuple], Any], *, basic: bool) -> None:
        """Serve a new instance: its `execute`, and whether the core anchors and acks for it."""

    def connect(self, upstream: dict[int, TaskCore], settle_rings: dict[int, SignalRing]) -> None:
        """Set the cores that feed this task, and the rings of the spout tasks among them, by task id."""

    def emit(self, values: object, anchors: object, stream: str) -> None:
        """Emit values. `anchors` is None, a Tuple of this task, or a collection of them."""

    def emit_direct(self, task: int, values: object, anchors: Tuple | Iterable[Any] | None, stream: str) -> None:
        """Emit to one task of each direct subscriber of a stream that is declared direct."""

    def emit_control(self, values: object, stream: str, anchor: Tuple | None = None) -> None:
        """Send values as a control tuple to every task of every subscriber of a stream. Stops nobody."""

    def run_burst(self, limit: int) -> int:
        """Take and execute up to limit tuples, or for 5 ms. Return a BoltOutcome. Raises errors of the call, whose input is `current`."""

    def take_next(self) -> Tuple | None:
        """Take one tuple for a call that the executor awaits. None if nothing waits. A control tuple does not count as taken."""

    def end_call(self, started: float, tup: Tuple | None = None) -> None:
        """Count the time of a call by the executor that began at `started`. Acks tup if it is unsettled and the bolt is basic."""

    def guard_state(self, state: Layers) -> None:
        """Make the changes of each call to this state, and its acks, count only when the call returns."""

    def guard_only(self, call_var: ContextVar[Any], call: object) -> None:
        """Take back only changes of code in whose context call_var is call, because the call is awaited."""

    def take_call_back(self, reason: object) -> None:
        """Undo the call that raised: its changes of the state, and its acks, which fail with its input."""

    def forget_current(self) -> None:
        """Release the last call's input."""

    def leave_burst(self) -> None:
        """Note that the executor stops calling for a while, so nobody has to give way to this bolt."""

    def ack(self, tup: Tuple) -> None: ...
    def fail(self, tup: Tuple, reason: object = None) -> None:
        """Fail every root of tup. `reason` is a Failure; by default, that its bolt failed it."""

    def reset_timeout(self, tup: Tuple) -> None: ...
    def flush_forgotten(self) -> None:
        """Fail the roots of forgotten tuples. To be called on the loop's thread."""

    def fail_taken(self, reason: object) -> int:
        """Fail all unsettled tuples that the task has taken, oldest first, and return their number. Later settles are ignored."""

    def lose(self, tup: Tuple) -> None:
        """Drop a taken tuple as if it had never arrived, so its trees time out. For fault injection."""

    def hold(self, source_task: int) -> None:
        """Hold back tuples of source_task, and stop that task."""

    def release(self, source_task: int) -> None:
        """Take the tuples of source_task next, in order, and let the task go on."""

    def release_all(self) -> None:
        """End all holds, and open the gate. Called without an instance, when all inputs fail."""

    def gate(self, closed: bool) -> None:
        """Hold back tuples of all sources from now on, or take them next, in order."""

    def defer_settles(self, on: bool) -> None:
        """Put acks into `deferred_acks` from now on, or no longer."""

    def refresh_waiting(self, position: int, limit: int) -> int:
        """Reset the timeout of up to limit waiting tuples from position on. Return the next position, -1 at the end."""

    def refresh_held(self) -> None:
        """Reset the timeout of all tuples that are held back or released."""

    def post_tick(self, tick: Tuple) -> None:
        """Post a tick, unless one waits already or the gate is closed. It stops nobody and belongs to no tree."""

    def settle_control(self, tup: Tuple, reason: object = None) -> None:
        """Ack a control tuple, or fail it for a reason."""

    def taken_tuples(self) -> list[Tuple]:
        """Return the tuples that are taken and not settled, oldest first."""

    def taken_age_ms(self, tup: Tuple, now_secs: float) -> int:
        """Return the ms since the task took tup, at this time of the run's clock."""

    @property
    def taken(self) -> int:
        """Number of tuples that are taken and not settled."""

    @property
    def waiting(self) -> int:
        """Number of tuples in the mailbox."""

    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def current(self) -> Tuple | None: ...
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
    def deferred_acks(self) -> DeferredAcks: ...
    @property
    def process_latency(self) -> LatencyHistogram: ...

class BoltEmitter:
    """Emits and settles for one instance of a bolt. Base of the executor's collector."""

    def __init__(self, core: BoltCore) -> None: ...
    @property
    def retired(self) -> bool: ...
    def retire(self) -> None:
        """Ignore settles and make emits errors from now on, because the instance is gone."""

    def check_alive(self) -> None:
        """Raise an error if the instance is gone."""

    def emit(self, values: object, anchors: object = None, stream: str = "default") -> None: ...
    def ack(self, tup: Tuple) -> None: ...
    def fail(self, tup: Tuple, error: str | None = None) -> None: ...
    def reset_timeout(self, tup: Tuple) -> None: ...
