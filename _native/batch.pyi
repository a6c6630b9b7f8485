from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, final

from _native.bolt import BoltCore
from _native.queues import Backpressure, Mailbox
from _native.tuples import Source, Tuple

@final
class TaskBatch:
    """The batch of one attempt at one task. It has the tuple counts and the waiting tuples."""

    dead: bool
    over: bool
    waiting: deque[Tuple] | None
    tuples: list[Tuple] | None
    burst_rows: int
    def __init__(self, feed: BatchFeed, attempt: Any, execute: Callable[[Any], object] | None = None) -> None: ...
    @property
    def attempt(self) -> Any: ...
    def received_from(self, source: int) -> int:
        """Return the number of tuples that came from a task."""

    def sent_by_task(self) -> dict[int, int]:
        """Return task id -> number of tuples sent to the task. Omits tasks that got none."""

    def execute_by(self, execute: Callable[[Any], object]) -> None:
        """Pass each tuple to this method of the attempt's instance."""

    def execute_many_by(self, execute_many: Callable[[Any], object], settler: object, burst_rows: int) -> None:
        """Pass up to burst_rows tuples at once to this method, as a Burst with this settler."""

@final
class BatchFeed:
    """Passes the tuples of batches to the instances of a task. Its `execute` is called for every tuple."""

    def __init__(self, core: BoltCore, runner: Any, sources: Iterable[int], *, emits_results: bool = False) -> None: ...
    @property
    def core(self) -> BoltCore: ...
    @property
    def batches(self) -> dict[Any, TaskBatch]: ...
    @property
    def current(self) -> TaskBatch | None: ...
    @property
    def calling(self) -> TaskBatch | None: ...
    def execute(self, tup: Tuple) -> object:
        """Count a tuple, and pass it to the instance of its attempt, or queue it behind an awaited call."""

    def count_received(self, tup: Tuple) -> TaskBatch | None:
        """Count a tuple, and return its batch. None if the tuple was dropped and acked. For bolts whose calls the executor awaits."""

    def batch_or_begin(self, attempt: Any) -> TaskBatch | None:
        """Return the batch of an attempt. Create the batch if the attempt is new. None for an old attempt."""

    def drop_batch(self, attempt: Any) -> None:
        """Forget an attempt."""

    def end_tuple(self, batch: TaskBatch, tup: Tuple) -> None:
        """Ack the tuple of a call that has returned."""

    def call_next(self, batch: TaskBatch, tup: Tuple) -> None:
        """Pass a waiting tuple to the instance."""

    def flush_burst(self, batch: TaskBatch) -> None:
        """Pass the values that wait for a burst to the instance, because no more will arrive."""

class BatchEmitter:
    """Emits for one attempt. Base of the runners' collectors."""

    def __init__(self, batch: TaskBatch) -> None: ...
    @property
    def feed(self) -> BatchFeed: ...
    @property
    def batch(self) -> TaskBatch: ...
    def emit(self, values: tuple[Any, ...] | list[Any], stream: str = "default") -> None: ...
    def emit_many(self, rows: Iterable[tuple[Any, ...] | list[Any]], stream: str = "default") -> None: ...
    def emit_each(self, values: Iterable[Any], stream: str = "default") -> None: ...
    def emit_direct(self, task: int, values: tuple[Any, ...] | list[Any], stream: str = "default") -> None: ...

class DigestingEmitter(BatchEmitter):
    """Counts and digests the tuples that a user's emitter sends. So a replay with other tuples is detected."""

    def __init__(self, batch: TaskBatch, *, digests: bool = True) -> None: ...
    @property
    def emitted(self) -> int: ...
    def emit(self, values: tuple[Any, ...] | list[Any], stream: str = "default") -> None: ...
    def emit_many(self, rows: Iterable[tuple[Any, ...] | list[Any]], stream: str = "default") -> None: ...
    def emit_direct(self, task: int, values: tuple[Any, ...] | list[Any], stream: str = "default") -> None: ...
    def take_digest(self) -> tuple[int, int | None]:
        """Return (number of tuples, digest) since the last call. The digest is None if a tuple has no stable hash."""

def emit_batch_rows(feed: BatchFeed, stream: str, rows: list[tuple[Any, ...]], target: int | None) -> list[tuple[Any, Exception]]:
    """Emit rows that another process has made, and count them for the attempt that each begins with.

    target: task id for a direct stream, else None. Returns (attempt, error) for each row that could not be emitted.
    """

def reply(core: BoltCore, tup: Tuple, answer: object) -> None:
    """Send an answer to the spout task that emitted a control tuple. It arrives before the verdict (task_port.reply)."""

def post_rows(box: Mailbox, attempt: Any, rows: list[tuple[Any, ...]], begin: int, origin: Source, sender: Backpressure | None) -> int:
    """Post rows from `begin` on as tuples of an attempt, until the mailbox is full. Return the position of the next row."""

def post_control(box: Mailbox, values: tuple[Any, ...], origin: Source) -> None:
    """Post a control tuple that belongs to no tree."""

def take_runs(box: Mailbox) -> list[tuple[Source, list[tuple[Any, ...]]]]:
    """Take all tuples. Return runs of (origin, rows without the attempt), in order. The rows of a control tuple are its values alone."""
