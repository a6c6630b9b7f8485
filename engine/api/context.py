"""What a task knows of its place and can ask of the engine: `self.context`. The working context belongs to the executors."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import Failure
from engine.names import DEFAULT_STREAM

if TYPE_CHECKING:
    from random import Random

    from engine.clock import Clock
    from engine.config import Config


class UserCounter(Protocol):
    """A count that only grows."""

    def add(self, amount: float = 1, /) -> None:
        """Count `amount` more."""


class UserGauge(Protocol):
    """A value that goes up and down."""

    def set(self, value: float, /) -> None:
        """Replace the value."""


class UserHistogram(Protocol):
    """A distribution of values."""

    def record(self, value: float, /) -> None:
        """Count one value."""


class TaskContext(Protocol):
    """One task's view of the run. Task ids and their order stay the same through restarts of an instance."""

    @property
    def topology_name(self) -> str:
        """The name of the topology."""

    @property
    def component_id(self) -> str:
        """The id of this task's component."""

    @property
    def task_id(self) -> int:
        """The id of this task, unique in the run."""

    @property
    def task_index(self) -> int:
        """Where this task stands among the tasks of its component: 0 to `tasks` - 1."""

    @property
    def tasks(self) -> int:
        """How many tasks this component has."""

    @property
    def config(self) -> "Config":
        """The settings of the run."""

    @property
    def clock(self) -> "Clock":
        """The run's time: `now()` in seconds, monotonic; `wall()` in seconds since the epoch."""

    @property
    def random(self) -> "Random":
        """This task's own generator, seeded from the run's seed."""

    @property
    def failure(self) -> Failure | None:
        """Inside `fail(message_id)`: why (ACK-16). None everywhere else."""

    def task_ids(self, component: str) -> Sequence[int]:
        """Return the task ids of a component, in order; raise UsageError for one that is not there."""

    def sources(self) -> Sequence[int]:
        """Return the ids of the tasks that this component's inputs come from, on any stream, ascending."""

    def targets(self, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        """Return the ids of the tasks that subscribe to this stream of this component, ascending; UsageError for an unknown stream."""

    def wake(self) -> None:
        """Have this spout polled at once, though it emitted nothing last time. Only from the loop's thread."""

    def create_task(self, coroutine: Coroutine[Any, Any, object], /) -> asyncio.Task[Any]:
        """Start background work of this task.

        What it raises counts as raised by the component itself (ACK-12); it is cancelled when the instance closes or
        dies, and from then on this raises UsageError. Before it emits it awaits `self.collector.ready()`.
        """

    def counter(self, name: str, /, **labels: str) -> UserCounter:
        """Return this task's counter of this name and labels, made at the first call; shown and exported with the engine's.

        The labels say what it counts, such as `partition="3"`, and the export has them beside the component and the task.
        All metrics of one name have the same labels, with few values each: every combination is a metric of its own.
        """

    def gauge(self, name: str, /, **labels: str) -> UserGauge:
        """Return this task's gauge of this name and labels, made at the first call; NaN is a value that is not known."""

    def histogram(self, name: str, /, **labels: str) -> UserHistogram:
        """Return this task's histogram of this name and labels, made at the first call."""

    def drop_metric(self, name: str, /, **labels: str) -> None:
        """Forget this task's metrics of this name that have these labels, all of the name where none are given.

        They are no longer shown; what is still held of them counts for nothing, and the next call begins a new one.
        """
