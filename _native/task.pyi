from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from _native.ids import EdgeIds
from _native.queues import Backpressure, Mailbox, SignalRing
from _native.tuples import Source

@final
class Targets:
    """The tasks of one subscriber, as (task id, Mailbox) in order of task ids. The outlets of all emitting tasks share them."""

    def __init__(self, targets: list[tuple[int, Mailbox]]) -> None: ...
    @property
    def tasks(self) -> int: ...
    @property
    def task_ids(self) -> list[int]: ...

@final
class Outlet:
    """One subscription of one stream at one emitting task.

    `targets` are Targets, or the list for them. `start` is the first shuffled target. `positions` and `names` belong to the grouped fields.
    `chooser(values)` returns the task ids of a custom grouping. `stops` is False if the edge closes a cycle (BP-5).
    """

    def __init__(
        self,
        choice: int,
        targets: Targets | list[tuple[int, Mailbox]],
        *,
        start: int = 0,
        positions: Sequence[int] = (),
        names: Iterable[str] = (),
        key_groups: int = 128,
        chooser: Callable[[tuple[Any, ...]], Iterable[int]] | None = None,
        stops: bool = True,
    ) -> None: ...
    @property
    def choice(self) -> int: ...
    @property
    def tasks(self) -> int: ...
    @property
    def task_ids(self) -> list[int]:
        """Task ids of the targets, ascending."""
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def picks_one(self) -> bool: ...
    @property
    def stops(self) -> bool: ...
    @property
    def sent(self) -> int: ...
    def choose(self, values: tuple[Any, ...]) -> list[int]:
        """Return the task ids that an emit of these values would go to, for tests and microbenchmarks."""

@final
class OutStream:
    """One stream that a task emits, with its Source and the outlets of all subscribers.

    `origins` is for a direct stream of a task in another process: the Source for each target task. `given` are the fields that a spout
    emits, if a RowStamp makes other rows of them.
    """

    def __init__(
        self,
        origin: Source,
        outlets: list[Outlet],
        *,
        direct: bool = False,
        origins: dict[int, Source] | None = None,
        given: object = None,
    ) -> None: ...
    @property
    def outlets(self) -> list[Outlet]: ...
    @property
    def direct(self) -> bool: ...

@final
class SentCounts:
    """Number of tuples that a task has sent to each of its targets, since a mark or for one batch."""

    def __init__(self, targets: int) -> None: ...

@final
class BoltBacklog:
    """Number of bolts of a run that have more than a burst waiting. Spouts give way to them."""

    def __init__(self) -> None: ...
    @property
    def bolts_behind(self) -> int: ...

@final
class UserMethod:
    """A callable of user code. A bound method is stored as its function and its owner."""

    def __init__(self, function: Callable[..., Any]) -> None: ...

class TaskCore:
    """Base of a spout's and a bolt's core.

    `now()` returns seconds. `misuse(kind, **what)` returns the error for a wrong use of the API.
    """

    closing: bool
    most_calls_per_lap: int
    """Most calls between two readings of the clock. The default is 32."""
    def __init__(
        self,
        task_id: int,
        *,
        ids: EdgeIds,
        ackers: list[SignalRing],
        now: Callable[[], float],
        misuse: Callable[..., BaseException],
        backlog: BoltBacklog,
        slow_call_secs: float = 0.5,
    ) -> None: ...
    def wire(self, streams: dict[str, OutStream]) -> None:
        """Set the streams of the task, by name."""

    def add_plain_secs(self, secs: float) -> None:
        """Count time of emits that the executor made on the loop between two turns."""

    def add_awaited_secs(self, secs: float) -> None:
        """Count the time of a call that the executor awaited, from begin to end. A bolt's call that returns uses `end_call`."""

    def sent_by_outlet(self) -> list[tuple[str, list[int], int]]:
        """Return (stream, task ids of the targets, number of tuples sent) for each outlet."""

    def take_slow_call(self) -> float:
        """Return and forget the longest call over slow_call_secs, in seconds. 0 if there was none."""

    def count_sent(self, on: bool) -> dict[int, int]:
        """Return the tuples sent to each task since the last mark. Then set a new mark if `on`, else stop counting."""

    def set_trace(self, trace: Callable[[str, Sequence[int], int], object] | None) -> None:
        """Call trace(event, roots, task) for every delivery and settle of a tracked tuple. None stops the calls."""

    @property
    def is_traced(self) -> bool:
        """True while the task calls a trace or a watch."""

    @property
    def task_id(self) -> int: ...
    @property
    def backpressure(self) -> Backpressure: ...
    @property
    def slow_call_secs(self) -> float: ...
    @property
    def slowest_call(self) -> float: ...
    @property
    def busy_secs(self) -> float:
        """Time of all calls in seconds. Awaited calls count from begin to end."""

    @property
    def plain_secs(self) -> float:
        """Part of `busy_secs` that plain calls and emits held the loop."""

    @property
    def executed(self) -> int: ...
    @property
    def emitted(self) -> int: ...
    @property
    def transferred(self) -> int:
        """Number of tuples sent, one for each task that an emit went to."""

    @property
    def acked(self) -> int: ...
    @property
    def failed(self) -> int: ...
