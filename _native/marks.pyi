"""Marks: the watermarks of event time, which travel like rows (ET-1)."""

from _native.bolt import BoltCore
from _native.task import TaskCore
from _native.tuples import Tuple

def emit_mark(core: TaskCore, stream: str, values: tuple[int, bool, int]) -> None:
    """Send a mark to every task of every subscriber of the stream of marks, behind all earlier emits of the task."""

def keep_mark(core: BoltCore, mark: Tuple) -> None:
    """Put a mark on the list of taken inputs, because earlier ones are not settled."""

def take_due_marks(core: BoltCore) -> list[Tuple]:
    """Remove the marks that are the oldest inputs now, and return them in order."""

def requeue_marks(core: BoltCore) -> None:
    """Let the marks wait again, before all inputs that have not been taken, because the instance ends and its inputs may run again."""

def put_back_marks(core: BoltCore, marks: list[Tuple]) -> None:
    """Let marks that have been taken wait again, before all other inputs."""

def is_mark_due(core: BoltCore) -> bool:
    """Tell whether a mark is the oldest input now."""
