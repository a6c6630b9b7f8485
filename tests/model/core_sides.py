"""The two sides of each task of a core program: the compiled core, and what the model knows of it."""

from collections import deque
from dataclasses import dataclass, field

from engine.kernel import AckerCore, BoltCore, BoltEmitter, SpoutCore, SpoutEmitter, Tuple
from tests.model.tree_model import AckerModel, Delivery, Message, Verdict

Event = tuple[str, object, str]
"""(acked or failed, message id, reason)."""


@dataclass
class SpoutSide:
    """One spout task, here and in the model."""

    core: SpoutCore
    emitter: SpoutEmitter
    got: list[Event] = field(default_factory=list)
    open: dict[int, object] = field(default_factory=dict)
    """Model: root to message id."""
    acked_now: list[object] = field(default_factory=list)
    verdicts: deque[Verdict | int] = field(default_factory=deque)
    """Model: what waits for the spout; a number is an acker that died."""


@dataclass
class BoltSide:
    """One bolt task, here and in the model."""

    core: BoltCore
    emitter: BoltEmitter
    held: list[Tuple] = field(default_factory=list)
    settled: list[Tuple] = field(default_factory=list)
    ghosts: list[Tuple] = field(default_factory=list)
    """Taken by an instance that died, or lost on the way."""
    waiting: deque[Delivery] = field(default_factory=deque)
    """Model: the mailbox."""
    settled_twice: int = 0


@dataclass
class AckerSide:
    """One acker, here and in the model."""

    core: AckerCore
    model: AckerModel
    inbox: deque[Message | int] = field(default_factory=deque)
    """Model: what waits for the acker; a number is a spout task whose instance died."""
