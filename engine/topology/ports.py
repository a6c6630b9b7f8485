"""The ports of tasks: what the engine's own components may ask of their task and of the whole run. `task_port` describes who gets one."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from engine.api.collector import Tuple
from engine.api.fields import Values
from engine.errors import Failure
from engine.kernel import BatchFeed, Layers
from engine.names import DEFAULT_STREAM
from engine.topology.spec import ComponentSpec

SpoutStatus = Literal["polling", "full", "exhausted", "drained", "waited_for", "inactive"]
"""Status of a spout task.

"full": it has max_spout_pending open trees or full targets. "drained": it is paused without open trees. "waited_for": it is an Inlet, and
senders wait for their verdicts. "inactive": it is paused with open trees.
"""


class RunPort(Protocol):
    """Requests of a task or a feature to the whole run."""

    def request_commit(self) -> None:
        """Begin the next periodic commit at once. Has no effect in a run without periodic commits."""

    def on_commit_request(self, begin: Callable[[], None]) -> None:
        """Call `begin` at each `request_commit`."""

    def hold_spouts(self, *, on: bool) -> None:
        """Pause or resume the polls of the user's spouts."""

    def acked(self) -> Mapping[str, int]:
        """Return the number of inputs that each bolt of the user has acked, by component id."""

    def acked_by(self, component_id: str | None) -> int:
        """Return the number of inputs that one bolt of the user has acked. 0 if there is none."""

    @property
    def is_quiet(self) -> bool:
        """True while each bolt of the user serves, and has settled all inputs but those that it holds behind a barrier."""

    async def roll_back(self, failure: Failure, before_drop: Callable[[], Awaitable[None]]) -> None:
        """Take all bolts and exact spouts back: fresh instances, empty queues, failed trees (EO-5). Returns when all of them serve again.

        before_drop: called when none of them runs, and nothing is dropped yet. Cancelling the caller does not break the rollback off.
        """

    def tell_failures(self) -> None:
        """Tell the exact spouts of the rows that have failed, although not all their tuples are settled, because all are dropped soon."""

    def cut_acks(self) -> None:
        """Let the acks that have arrived by now leave with the next `release_acks`. Called before a barrier is sent anywhere (EO-4)."""

    def release_acks(self) -> None:
        """Tell the spouts of the acks that were cut, because the checkpoint is committed."""

    @property
    def held_acks(self) -> Collection[str]:
        """The user's spouts of which an ack waits for a commit now."""

    @property
    def all_spouts_wait(self) -> bool:
        """True while each of the user's spouts waits for a commit, or has nothing to do."""

    def show_in_snapshot(self, entry: str, task_id: int, read: Callable[[], Any]) -> None:
        """Show the result of `read()` for this task in an entry of each snapshot, also after its instance is closed."""

    def shown(self, entry: str) -> tuple[Any, ...]:
        """Return the results for an entry of the snapshot, in ascending order of task ids."""

    def ledger(self, name: str) -> Any:
        """Return the ledger of this name in the run's state provider (`engine.state.Ledger`)."""


class SpoutPort(Protocol):
    """The port of a spout task."""

    @property
    def run(self) -> RunPort:
        """The run's port."""

    def emit_control(
        self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM, *, timeout_secs: float | None = None
    ) -> None:
        """Send values to all tasks of all subscribers, behind earlier emits. Ignores groupings and mailbox limits.

        With a message id the engine tracks the values as a tree. `timeout_secs` sets the timeout of this tree, even if timeouts are off.
        """

    def on_settled(self, listener: Callable[[object, int, float], None] | None) -> None:
        """Call `listener(message_id, task_id, secs)` when a receiving task acks, also if the verdict waits for a commit.

        `secs` is the time since the emit. The listener gets no fails, because the verdict of the tree names the task that failed.
        """

    def on_reply(self, listener: Callable[[object, int, Any], None] | None) -> None:
        """Call `listener(message_id, task_id, answer)` at each `reply` to a control tuple, before the verdict of its tree."""

    def subscribers(self, stream: str = DEFAULT_STREAM) -> Sequence[ComponentSpec]:
        """Return the components that subscribe to this stream, in the order of declaration."""

    def report(self, error: BaseException, next_step: str) -> None:
        """Report an error and the engine's next step. Each task reports at most 5 errors in 10 s."""

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        """Call a hook of the user's spout, plain or async. Raises its errors, and UsageError if it returns a value."""

    async def rows_emitted(self) -> None:
        """Wait until no row of an `emit_many` is left to emit."""

    async def verdicts_arrived(self) -> None:
        """Wait until all failures that have been sent by now are handled."""

    def filter_rows(self, accepts: "Callable[[tuple[Any, ...], str, Any], bool] | None") -> None:
        """Emit only the rows that `accepts(values, stream, message_id)`. None: emit all."""

    def limit_emits(self, more: int | None) -> None:
        """Stop the polls after this many more emits, and tell the handler then (`note_limit`). None: poll without a limit."""

    def can_emit_row(self, stream: str) -> bool:
        """Tell whether `emit_again` can emit rows of a stream: it is declared, and not direct, since only the spout knows that task."""

    def mark_rows(self, mark: object) -> None:
        """Give all rows that are emitted from now on this mark, for `SourceHandler.note_failed`."""

    def emit_again(self, row: tuple[Any, ...]) -> None:
        """Emit a row (values, stream, message id, mark) that has failed, or was kept back, past the filter. Raises UsageError."""

    def hold_watermark(self, key: object, *, from_start: bool = False) -> None:
        """Let the watermark wait for a row that has just failed or is kept back, because it is emitted later (ET-1).

        key: the mark of the row, if `emit_again` emits it. The watermark goes on when its tree is done. from_start: the row belongs before
        all others of this run.
        """

    def release_watermark(self, key: object) -> None:
        """Let the watermark wait for this row no longer."""

    def send_watermark(self) -> bool | None:
        """Send the watermark of now at once, behind all rows, or as soon as these are settled. Return True if it has left.

        None: the rows of the spout have no times.
        """

    def take_times(self) -> tuple[int, dict[str, int]] | None:
        """Return the watermark and the greatest time of each partition, for a checkpoint. None: the rows have no times."""

    def restore_times(self, times: tuple[int, dict[str, int]]) -> None:
        """Begin with the watermark and the times of a checkpoint (ET-4)."""

    @property
    def may_emit_again(self) -> bool:
        """True while the spout is active, not held back, and no full mailbox stops it."""

    @property
    def emitted(self) -> int:
        """Number of emitted rows, over all instances."""

    def note_given_up(self, count: int, *, outlive_run: bool) -> None:
        """Count rows that are given up. outlive_run: their letters do. The end of the run tells of the others (RUN-4)."""

    def after_commit(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` between two calls of the spout. An error of it is handled as that of a call."""

    def hurry_commits(self, *, on: bool) -> None:
        """Request a commit now, and then whenever a verdict begins to wait for one. Has no effect in a run without periodic commits."""

    def poll_again(self) -> None:
        """Poll the spout again although it is exhausted, because its source has new data."""

    def wait_for_wake(self) -> None:
        """Stop polling until a verdict, a settle or a wake. Called in a poll that emits nothing."""

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        """Return the number of tuples sent to each target task since the last call. Count from zero again, or stop counting."""


class BoltPort(Protocol):
    """The port of a bolt task."""

    @property
    def run(self) -> RunPort:
        """The run's port."""

    @property
    def is_ending(self) -> bool:
        """True while the engine closes the instance, and cancels its running calls."""

    def wake(self) -> None:
        """Wake the coroutine of the task."""

    def hold(self, source_task: int) -> None:
        """Buffer the tuples of a source task, in order and beyond the mailbox limit. Stops only this source task."""

    def release(self, source_task: int) -> None:
        """Process the buffered tuples of a source task before all others, and let the source task continue."""

    def hold_all(self) -> None:
        """Hold all source tasks. Ticks still come."""

    def release_all(self) -> None:
        """Release all source tasks that are held."""

    @property
    def has_unsettled(self) -> bool:
        """True while the task has taken an input that is neither acked nor failed."""

    @property
    def oldest_unsettled(self) -> Tuple | None:
        """The first input taken of those that are neither acked nor failed. None if there is none, or if it waits to run again."""

    def close_gate(self) -> None:
        """Buffer all tuples except control tuples, in order and beyond the mailbox limit.

        The source tasks continue, and no ticks are sent.
        """

    def open_gate(self) -> None:
        """Process the tuples that the gate has buffered before all others."""

    def emit_control(self, values: Values, anchor: Tuple | None = None, stream: str = DEFAULT_STREAM) -> None:
        """Send values to all tasks of all subscribers, behind earlier emits. Ignores groupings and mailbox limits."""

    def refresh_control(self, tup: Tuple) -> None:
        """Restart the timeout of a control tuple that is not settled, because its work has made progress."""

    def settle_control(self, tup: Tuple, failure: Failure | None = None) -> None:
        """Ack a control tuple, or fail it."""

    def reply(self, tup: Tuple, answer: object) -> None:
        """Send an answer to the spout task whose tree this control tuple belongs to. The answer arrives before the tree is settled.

        The bolt must subscribe to the spout, also if another bolt has emitted the control tuple.
        """

    def batch_feed(self, runner: object, sources: Iterable[int], *, emits_results: bool = False) -> BatchFeed:
        """Return the feed of this task, which counts, executes and emits tuples of batches. BatchFeed describes the runner."""

    def report(self, error: BaseException, next_step: str, tup: Tuple | None = None) -> None:
        """Report an error and the engine's next step. Each task reports at most 5 errors in 10 s."""

    def warn(self, text: str) -> None:
        """Log a warning of the task."""

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        """Call a hook of the user's bolt, plain or async. Raises its errors, and UsageError if it returns a value."""

    def refusing_emits(self, error: Exception) -> AbstractContextManager[None]:
        """Raise an error in each emit without an anchor of this code, and of what it calls. Other background work may emit."""

    def between_calls(self, work: Callable[[], Awaitable[None]]) -> "asyncio.Future[None]":
        """Do `work` when all running calls have returned, ahead of all inputs. The result is cancelled if the instance dies before.

        An error of `work` kills the instance.
        """

    async def returned(self) -> None:
        """Wait until all started calls have returned. No new call starts meanwhile."""

    def guard_state(self, state: Layers) -> None:
        """Apply the state changes and acks of a call when it returns. Drop them if it raises (SV-2)."""

    def on_rootless_failure(self, listener: "Callable[[Tuple, Failure], None]") -> None:
        """Call the listener with each input of no tree that fails, dies with the instance, or is forgotten, and with the reason."""

    def fail_overdue(self) -> None:
        """Fail the inputs of no tree that have been with the instance for longer than T, as the trees of others time out."""

    def refuse(self, reasons: "Mapping[tuple[str, str], Failure] | None") -> None:
        """Fail the next inputs of no tree from these (component, stream) with the reasons, before their calls. None: take all."""

    def note_progress(self) -> None:
        """Count what the task has acked until now as progress, because its changes are committed (ACK-12)."""

    def note_given_up(self, count: int) -> None:
        """Count rows that the target of a committer refuses, when they become dead letters (EO-9)."""

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        """Return the number of tuples sent to each target task since the last call. Count from zero again, or stop counting."""
