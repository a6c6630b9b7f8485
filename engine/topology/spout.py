"""A source of tuples."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import ClassVar, Literal, TypeAlias

from engine.topology.collector import SpoutCollector
from engine.topology.context import TaskContext
from engine.topology.stream import OutputFields

OnError: TypeAlias = Literal["fail", "restart", "stop"]
"""After an exception: replace the instance by a fresh one, or keep it and fail the input alone (ACK-12)."""


MaxSpoutPending: TypeAlias = int | Literal["auto"] | None
"""So many open trees for each task; the fewest that bring full speed; no limit."""


class SpoutExhausted(Exception):
    """Raised by `next_tuple` of a finite source: nothing is left.

    The spout still gets acks and fails; it is polled again only after a `fail`, until it raises this again (RUN-2).
    """


class Spout(ABC):
    """Base of all spouts: emits tuples, and learns how the tree of each one ended.

    Every method may be `def` or `async def`; those of one task never overlap (ACK-10). While an async one waits, the
    verdicts of its task wait too: a source that waits for I/O does so in `self.context.create_task(...)` and calls
    `self.context.wake()`.
    """

    output_fields: OutputFields = None
    max_spout_pending: MaxSpoutPending = None
    """At most so many open trees for each task, or "auto"; None: as `Config.max_spout_pending` says."""
    on_error: OnError | None = None
    """None: as `Config.on_error` says (`fail`)."""

    chooses_tasks: ClassVar[bool] = False
    """True for spouts that choose the task of each tuple, and have a window for each task (FC-1)."""

    context: TaskContext
    """Set before `open`."""
    collector: SpoutCollector
    """Set before `open`."""

    def open(self) -> Awaitable[None] | None:
        """Get ready; called first, after all bolts are prepared."""
        return None

    def activate(self) -> Awaitable[None] | None:
        """Learn that polling starts or goes on."""
        return None

    def deactivate(self) -> Awaitable[None] | None:
        """Learn that polling pauses; acks and fails still come."""
        return None

    @abstractmethod
    def next_tuple(self) -> Awaitable[None] | None:
        """Emit zero or more tuples, or raise SpoutExhausted.

        One that emits nothing is polled again after 1 to 64 ms, and at once after `wake()`, an ack or a fail.
        """

    def ack(self, message_id: object) -> Awaitable[None] | None:
        """Learn that the whole tree of this message id is processed."""
        return None

    def fail(self, message_id: object) -> Awaitable[None] | None:
        """Learn that the tree of this message id failed or timed out; `self.context.failure` says why."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Give back what `open` took; called last. Not called for an instance whose `open` raised."""
        return None
