from collections.abc import Callable
from typing import Any, final

from _native.ids import EdgeIds
from _native.queues import SignalRing
from _native.row_stamp import RowStamp
from _native.tables import RootTable
from _native.task import BoltBacklog, TaskCore
from _native.timing import LatencyHistogram

@final
class OpenTrees(RootTable):
    """Message ids of a spout task's open trees, by root."""

    def __init__(self) -> None: ...
    def roots(self) -> list[int]:
        """Return the root ids, in no order."""

@final
class SpoutCore(TaskCore):
    """The compiled part of a spout's executor. TaskCore describes the arguments that bolts also have."""

    polling: bool
    max_pending: int
    on_refused: Callable[[tuple[Any, ...], Any, Exception], object] | None
    held_ids: dict[Any, Any] | None
    row_mark: object
    row_filter: Callable[[tuple[Any, ...], str, Any], bool] | None
    acker_failure: object
    on_reply: Callable[[Any, int, Any], object] | None
    on_held: Callable[[Any], object] | None
    def __init__(
        self,
        task_id: int,
        *,
        verdicts: SignalRing,
        max_pending: int = 0,
        acker_failure: object = None,
        ids: EdgeIds,
        ackers: list[SignalRing],
        now: Callable[[], float],
        misuse: Callable[..., BaseException],
        backlog: BoltBacklog,
        slow_call_secs: float = 0.5,
    ) -> None: ...
    @property
    def open_trees(self) -> OpenTrees: ...
    @property
    def verdicts(self) -> SignalRing: ...
    def emit(self, values: object, message_id: object, stream: str) -> None:
        """Emit values, as the first tuples of a tree if there is a message id."""

    def emit_direct(self, task: int, values: object, message_id: object, stream: str) -> None:
        """Emit to one task of each direct subscriber of a stream that is declared direct."""

    def emit_again(self, row: tuple[Any, ...]) -> None:
        """Emit a row (values, stream, message id, mark) that was emitted before. `row_filter` does not see it."""

    def emit_control(self, values: object, stream: str, message_id: object = None, timeout_secs: float | None = None) -> None:
        """Send values as a control tuple to every task of every subscriber.

        With a message id, the tuples form a tree with its own timeout.
        """

    @property
    def keeps_rows(self) -> bool: ...
    def keep_rows(self, on: bool) -> None:
        """Keep each row until its verdict: its message id is (values, stream, message id, row_mark), and each row has a tree."""

    def set_stamps(self, stamps: dict[str, RowStamp]) -> None:
        """Let these RowStamps make the rows of their streams, for a new instance."""

    def oldest_open(self) -> float | None:
        """Return the time of the emit of the oldest open tree that is not acked. None if there is none."""

    def is_open(self, root: int) -> bool:
        """Tell whether a tree is open, and not acked."""

    @property
    def failed_since(self) -> float:
        """Time of the emit of the tree that has failed last."""

    def bind(
        self,
        next_tuple: Callable[..., Any],
        on_ack: Callable[[Any], Any] | None,
        on_fail: Callable[..., Any],
        on_settled: Callable[[Any, int, float], object] | None = None,
        *,
        on_acks: Callable[[list[Any]], Any] | None = None,
        polls_bursts: bool = False,
    ) -> None:
        """Serve a new instance. `on_ack` is None if it has no ack method. `on_fail` gets (message_id, failure)."""

    def limit_emits(self, more: int | None) -> None:
        """Stop the polls after this many more emits. A poll that emits several rows may pass the limit. None: there is no limit."""

    @property
    def at_limit(self) -> bool:
        """True if the polls have stopped at the limit."""

    def listen(self, on_settled: Callable[[Any, int, float], object] | None) -> None:
        """Report the settle of each receiving task from the next emit on. None stops the reports (task_port.on_settled)."""

    def run_burst(self, limit: int) -> int:
        """Deliver verdicts, then poll, with up to limit calls or 5 ms in all. Return a SpoutOutcome. Raises errors of the spout."""

    @property
    def in_poll(self) -> bool:
        """True if the call that runs, has raised or is awaited is a poll. Else it is an ack or a fail."""

    def forget_returned(self) -> None:
        """Release the value that a call returned, because the executor has it."""

    def note_returned(self) -> None:
        """Note that an awaited method has returned. If it was not a poll, count its verdict as delivered."""

    def polled_in_vain(self) -> bool:
        """True if the awaited call was a poll that emitted nothing."""

    @property
    def handed_out(self) -> int: ...
    def note_settled(self, root: int, task: int, at: float) -> None:
        """Report that a bolt task settled its part of an open tree at this time (task_port.on_settled)."""

    def begin_flush(self) -> None:
        """Send a mark through each acker, behind all signals that have been sent."""

    def take_failures(self) -> None:
        """Handle the failures and marks among the waiting verdicts, and leave the acks to the next burst.

        For a spout whose `on_fail` is the engine's own, because it may run while a call of the spout is awaited.
        """

    @property
    def is_flushing(self) -> bool:
        """True until all marks are back."""

    def hold_acks(self, on: bool) -> None:
        """Hold acks until a commit, or pass them on at once."""

    def cut_acks(self) -> None:
        """Let all acks that have arrived by now leave with the next `release_acks`. Called before a barrier is sent anywhere."""

    def release_acks(self) -> None:
        """Pass on the acks that have been cut, because the checkpoint is committed."""

    @property
    def held(self) -> int:
        """Number of acks that wait for a commit."""

    def fail_open_trees(self, reason: object) -> None:
        """Fail all trees whose ack is not on its way to the spout, because everything else is rolled back."""

    def drop_instance(self) -> int:
        """Forget the trees of a dead instance here and at the ackers. Return their number (ACK-13)."""

    def set_watch(self, watch: object) -> None:
        """Tell `watch` of each tree that opens, of each burst, and of dropped trees. None stops the calls.

        The methods are note_opened(task, root, message_id), note_burst(task) and note_dropped(task).
        """

    def message_of(self, root: int) -> Any:
        """Return the message id of an open tree of this task, None for any other root."""

    @property
    def returned(self) -> object: ...
    @property
    def pending(self) -> int:
        """Number of open trees."""

    @property
    def has_acks_to_flush(self) -> bool: ...
    @property
    def complete_latency(self) -> LatencyHistogram: ...
