"""Internal API between the engine's own components and their tasks.

Checkpoints, transactions, flow control and the Kafka spout use this API, and never an executor. A component that derives from
`SpoutPortUser` or `BoltPortUser` gets its port before `open` or `prepare`. For other components the API has no cost.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

from engine.api.collector import Tuple
from engine.errors import Failure
from engine.topology.ports import BoltPort, RunPort, SpoutPort, SpoutStatus
from engine.undone import Undone

__all__ = [
    "SEVERAL_ROWS",
    "BoltPort",
    "BoltPortUser",
    "ControlHandler",
    "RemoteInstance",
    "RunPort",
    "SourceHandler",
    "SpoutPort",
    "SpoutPortUser",
    "SpoutStatus",
]

SEVERAL_ROWS: Final = object()
"""Stands for the id of a failed tuple in which any of several rows may have failed. In the next pass they come one by one."""


class SpoutPortUser:
    """Base of the engine's own spouts that need more than a collector."""

    port: SpoutPort
    """Set before `open`."""
    needs_acks: ClassVar[bool] = False
    """True for a spout that gets acks although the engine tracks its rows."""

    def let_engine_track_rows(self) -> None:
        """Keep no rows for a retry, because a failed one is repeated with its interval (EO-6). The spout gets no verdicts."""

    def row_id(self, message_id: Any) -> Any:
        """Return the id by which the row of a tuple is known again in the next pass. None: by its values. Or SEVERAL_ROWS."""
        return message_id

    def note_failed_row(self, message_id: Any, failure: Failure) -> None:
        """Note that a tuple has failed, and that its interval is repeated."""

    @property
    def is_busy(self) -> bool:
        """True while the spout has work left although no tree is open. Completion and drain of the run wait for it."""
        return False

    @property
    def progress(self) -> int | None:
        """Progress count over all instances. A death without progress counts as a failed restart (ACK-12). None: count verdicts."""
        return None

    def undone(self, open_trees: int) -> Undone:
        """Return the messages that the spout has taken and not processed, at the end of the run. open_trees: open trees of the task."""
        return Undone(open_trees)

    def on_drop(self) -> Awaitable[None] | None:
        """Release what outlives the instance, because it was killed, or its `open` raised. `close` is not called then."""
        return None


class BoltPortUser:
    """Base of the engine's own bolts that need more than a collector."""

    port: BoltPort
    """Set before `prepare`."""

    @property
    def is_busy(self) -> bool:
        """True while calls run that the engine does not await. When the last one has returned, call `port.wake()`."""
        return False

    def on_control(self, tup: Tuple) -> Awaitable[None] | None:
        """Handle a control tuple when all earlier inputs have returned. Settle it by `port.settle_control`."""
        self.port.settle_control(tup)
        return None

    def on_restart(self) -> None:
        """Note that an earlier instance of this task has died. Called before `prepare`; the port keeps its state."""

    def on_drop(self) -> Awaitable[None] | None:
        """Release threads and connections, because the instance was killed, or its `prepare` raised. `cleanup` is not called then."""
        return None


class SourceHandler(ABC):
    """Handles the positions and the failed rows of one task of a spout, through all its instances.

    The trees of the task have rows as message ids: (values, stream, message id of the user or None, mark). Each emitted row has a tree.
    """

    @abstractmethod
    async def begin(self, spout: Any) -> None:
        """Begin with a new instance, after its `open`."""

    @abstractmethod
    def note_died(self) -> None:
        """Note that an instance has died, and that its trees are dropped. Not called for the end of an instance in a rollback."""

    @abstractmethod
    def note_failed(self, row: tuple[tuple[Any, ...], str, Any, Any], failure: Failure, *, had_no_effect: bool) -> None:
        """Note a failed tree. had_no_effect: its tuples are settled, and none of them has reached a bolt that keeps something of it."""

    @abstractmethod
    def give_up(self, values: tuple[Any, ...], failure: Failure) -> None:
        """Give up a row that cannot be emitted, such as one with an unhashable key."""

    @abstractmethod
    def note_limit(self) -> None:
        """Note that the polls have stopped at the limit (`limit_emits`). It may be called several times."""

    @abstractmethod
    def emit_due(self) -> None:
        """Emit the rows that wait to be retried and are due, because the spout may emit again."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Number of rows that wait to be retried."""


class RemoteInstance:
    """Stands for the instance of a stateful bolt that lives in another process."""

    has_changes: bool = False
    """True while the instance has changes of its state that no PREPARE has taken."""
    key_of: Callable[[Any], object]
    """The method of the bolt."""


class ControlHandler(ABC):
    """Handles the control tuples of one instance of a user's bolt. The bolt gets the same calls as without a handler."""

    @abstractmethod
    async def begin(self, *, restarted: bool) -> None:
        """Get ready, before the bolt's `prepare`. restarted: an earlier instance of this task has died. The port keeps its state."""

    @abstractmethod
    async def on_control(self, tup: Tuple) -> None:
        """Handle a control tuple when all earlier inputs have returned. Settle it by `port.settle_control`."""

    @property
    def survives_rollback(self) -> bool:
        """True if a rollback keeps the instance, because it keeps no rows."""
        return False

    async def forget_rows(self) -> None:  # noqa: B027 - only a handler whose instance may survive needs it
        """Let the instance forget its rows, because it survives a rollback. Its emits are dropped with all queues."""

    def go_back(self) -> None:  # noqa: B027 - the same
        """Forget the round of before the rollback. All queues are empty now."""
