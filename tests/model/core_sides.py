"""Each task of a core program twice: the compiled core, and the state of the model."""

from collections import deque
from dataclasses import dataclass, field

from engine.kernel import AckerCore, BoltCollector, BoltCore, Burst, SpoutCollector, SpoutCore, Tuple
from tests.model.tree_model import AckerModel, Delivery, Message, Verdict

Event = tuple[str, object, str]
"""Verdict as a spout sees it: (acked or failed, message id, reason)."""

Row = tuple[tuple[int, ...], int]
"""Values of a tuple: the tasks to which it goes, and its label."""


@dataclass
class SpoutSide:
    """One spout task, compiled and in the model."""

    core: SpoutCore
    emitter: SpoutCollector
    got: list[Event] = field(default_factory=list)
    open: dict[int, object] = field(default_factory=dict)
    """Model: message id by root."""
    acked_now: list[object] = field(default_factory=list)
    verdicts: deque[Verdict | int] = field(default_factory=deque)
    """Model: verdicts that wait for the spout. A number is an acker that died."""
    expected: list[Event] = field(default_factory=list)
    """Model: events of the running turn."""
    planned: deque[Row] = field(default_factory=deque)
    """Rows for its next polls."""
    takes_bursts: bool = False


@dataclass
class BoltSide:
    """One bolt task, compiled and in the model."""

    core: BoltCore
    emitter: BoltCollector
    held: list[Tuple] = field(default_factory=list)
    settled: list[Tuple] = field(default_factory=list)
    ghosts: list[Tuple] = field(default_factory=list)
    """Tuples that a dead instance took, or that were lost on their way."""
    waiting: deque[Delivery] = field(default_factory=deque)
    """Model: the mailbox."""
    settled_twice: int = 0
    takes_bursts: bool = False
    open_burst: Burst | None = None
    """Burst of a call that is awaited."""
    has_acked: bool = False
    """Whether the running call has acked a tuple itself."""
    again: deque[Tuple] = field(default_factory=deque)
    """Tuples that run again one by one."""


@dataclass
class AckerSide:
    """One acker, compiled and in the model."""

    core: AckerCore
    model: AckerModel
    inbox: deque[Message | int] = field(default_factory=deque)
    """Model: messages that wait for the acker. A number is a spout task whose instance died."""
