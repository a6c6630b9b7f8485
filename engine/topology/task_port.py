"""What the engine's own packages may ask of a task beside the public component API.

Checkpoints, transactions, flow control and the Kafka spout stand on this contract, never on executors. A component
that derives from `SpoutPortUser` or `BoltPortUser` gets its port before `open` or `prepare`; it costs nothing where nobody does.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from engine.api.collector import Tuple
from engine.api.fields import Values
from engine.errors import Failure
from engine.kernel import BatchFeed, Layers
from engine.names import DEFAULT_STREAM
from engine.topology.spec import ComponentSpec

SpoutStatus = Literal["polling", "full", "exhausted", "drained", "waited_for", "inactive"]
"""What a spout task does: emits; has max_spout_pending open trees or full targets; is exhausted; is paused with no open
tree; an Inlet's senders wait and nothing else comes; is paused with open trees."""


class RunPort(Protocol):
    """What a task may ask of the whole run."""

    def request_commit(self) -> None:
        """Commit at once what waits for a periodic commit. Has no effect in a run without one."""

    def on_commit_request(self, begin: Callable[[], None]) -> None:
        """Call `begin` at each `request_commit`."""

    def hold_spouts(self, *, on: bool) -> None:
        """Have the user's spouts not be polled, or go on."""

    def spout_status(self) -> Mapping[int, SpoutStatus]:
        """Return what each of the user's spout tasks does, by task id."""

    def show_in_snapshot(self, entry: str, task_id: int, read: Callable[[], Any]) -> None:
        """Show the result of `read()` for this task in an entry of the run's snapshots, also after its instance is closed."""

    def shown(self, entry: str) -> tuple[Any, ...]:
        """Return the results for an entry of the snapshot, by task id ascending."""

    def ledger(self, name: str) -> Any:
        """Return the ledger of this name in the run's state provider (`engine.state.Ledger`): for spouts that keep a position."""


class SpoutPort(Protocol):
    """The port of a spout task."""

    @property
    def run(self) -> RunPort:
        """The run's port."""

    def emit_control(
        self, values: Values, message_id: object = None, stream: str = DEFAULT_STREAM, *, timeout_secs: float | None = None
    ) -> None:
        """Send values to every task of every subscriber, whatever the grouping, behind what was emitted before, into full mailboxes too.

        With a message id it is a tree; with `timeout_secs` that tree has a clock of its own, which runs though timeouts are off.
        """

    def on_settled(self, listener: Callable[[object, int, float], None] | None) -> None:
        """Have `listener(message_id, task_id, secs)` told of each receiving task's own ack: `secs` after the emit, undeferred.

        A fail comes as the verdict of the tree, which names the task.
        """

    def on_reply(self, listener: Callable[[object, int, Any], None] | None) -> None:
        """Have `listener(message_id, task_id, answer)` told of each `reply` to a control tuple, before the verdict of its tree."""

    def subscribers(self, stream: str = DEFAULT_STREAM) -> Sequence[ComponentSpec]:
        """Return the components that take in this stream, in the order of declaration."""

    def report(self, error: BaseException, next_step: str) -> None:
        """Report an error, and say what the engine does about it; at most 5 in 10 s are reported for each task."""

    def poll_again(self) -> None:
        """Have the spout be polled though it is exhausted, as after a fail: there is more to read than there was."""

    def wait_for_wake(self) -> None:
        """Said in a poll that emits nothing: poll no more before a verdict, a settle or a wake; what its source has meanwhile can wait."""

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        """Set a mark: return the tuples sent to each target task since the last one, and count on from here."""


class BoltPort(Protocol):
    """The port of a bolt task."""

    @property
    def run(self) -> RunPort:
        """The run's port."""

    @property
    def is_ending(self) -> bool:
        """True while the instance is being taken out of service: the engine cancels what it has running."""

    def hold(self, source_task: int) -> None:
        """Put aside, in order and outside the bound, what that task sends; that task alone is stopped."""

    def release(self, source_task: int) -> None:
        """Take what was put aside before anything else, and let that task go on."""

    def close_gate(self) -> None:
        """Put aside, in order and outside the bound, all that comes but control tuples, and stop nobody; no ticks come meanwhile."""

    def open_gate(self) -> None:
        """Take what was put aside by the gate before anything else."""

    def emit_control(self, values: Values, anchor: Tuple | None = None, stream: str = DEFAULT_STREAM) -> None:
        """Send values to every task of every subscriber, whatever the grouping, behind what was emitted before, into full mailboxes too."""

    def refresh_control(self, tup: Tuple) -> None:
        """Restart the clock of a control tuple that is held, and not settled: what it waits for has got further."""

    def settle_control(self, tup: Tuple, failure: Failure | None = None) -> None:
        """Ack a control tuple, or fail it."""

    def reply(self, tup: Tuple, answer: object) -> None:
        """Tell the spout task that emitted this control tuple something; it hears of it before the tree can be settled."""

    def batch_feed(self, runner: object, sources: Iterable[int], *, emits_results: bool = False) -> BatchFeed:
        """Return the feed of this task, which counts, executes and emits tuples of batches. BatchFeed describes the runner."""

    def report(self, error: BaseException, next_step: str, tup: Tuple | None = None) -> None:
        """Report an error, and say what the engine does about it; at most 5 in 10 s are reported for each task."""

    async def call(self, hook: Callable[..., object], *args: object) -> None:
        """Call a hook of the user's bolt, plain or async. Raises what it raises, and UsageError where it returns a value."""

    async def returned(self) -> None:
        """Wait until every input that was taken has returned; none is taken meanwhile."""

    def guard_state(self, state: Layers) -> None:
        """Have what a call changes in this state, and acks, count when the call returns; nothing of it where the call raises (SV-2)."""

    def defer_settles(self, *, on: bool = True) -> None:
        """Keep the task's acks as (root, value) from now on. They outlive the instance."""

    @property
    def deferred_settles(self) -> int:
        """How many roots wait for `release_settles`, prepared or not."""

    def prepare_settles(self) -> int:
        """Let what was acked so far wait for `release_settles` or `fail_prepared`; return how many roots do."""

    async def release_settles(self) -> None:
        """Send the prepared acks, in bursts."""

    async def fail_settles(self, failure: Failure, *, prepared: bool) -> None:
        """Fail the acks since the last `prepare_settles`, and the prepared ones too if asked, in bursts."""

    def fail_taken(self, failure: Failure) -> int:
        """Fail all that the task took up and has not settled; return how many. Later settles of it are ignored."""

    def count_sent(self, *, on: bool = True) -> Mapping[int, int]:
        """Set a mark: return the tuples sent to each target task since the last one, and count on from here."""


class SpoutPortUser:
    """Base of the engine's own spouts that need more than a collector."""

    port: SpoutPort
    """Set before `open`."""

    @property
    def is_busy(self) -> bool:
        """True while more follows by itself, though no tree is open: the run is not over, and a drain waits."""
        return False

    @property
    def progress(self) -> int | None:
        """Return how far all instances together have come; a death without any counts (ACK-12). None: verdicts are progress."""
        return None


class BoltPortUser:
    """Base of the engine's own bolts that need more than a collector."""

    port: BoltPort
    """Set before `prepare`."""

    def on_control(self, tup: Tuple) -> Awaitable[None] | None:
        """Handle a control tuple, once every input taken before it has returned; settle it by `port.settle_control`."""
        self.port.settle_control(tup)
        return None

    def on_restart(self) -> None:
        """Learn, on a fresh instance before `prepare`, that an instance of this task died; the port keeps what it kept."""


class ControlHandler(ABC):
    """Handles the control tuples of one instance of a user's bolt. The bolt itself is called as without a handler."""

    @abstractmethod
    async def begin(self, *, restarted: bool) -> None:
        """Get ready, before the bolt's `prepare`. restarted: an earlier instance of this task has died. The port keeps its state."""

    @abstractmethod
    async def on_control(self, tup: Tuple) -> None:
        """Handle a control tuple, once every input taken before it has returned; settle it by `port.settle_control`."""
