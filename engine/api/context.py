"""Defines the Protocols of `self.context`, which gives a task its ids, settings, clock, metrics, and other services.

The executors implement these Protocols.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextvars import Context
from random import Random
from typing import Any, Protocol

from engine.clock import Clock
from engine.config import Config
from engine.errors import Failure
from engine.names import DEFAULT_STREAM


class UserCounter(Protocol):
    """Count that only grows."""

    def add(self, amount: float = 1, /) -> None:
        """Increase the count. Raise UsageError unless `amount` is a finite number of at least 0."""


class UserGauge(Protocol):
    """Value that goes up and down."""

    def set(self, value: float, /) -> None:
        """Replace the value. NaN stands for an unknown value. Raise UsageError unless it is a number."""


class UserHistogram(Protocol):
    """Distribution of values."""

    def record(self, value: float, /) -> None:
        """Add one value to the distribution."""


class TaskContext(Protocol):
    """Context of one task. Task ids stay the same when the engine replaces an instance.

    >>> from engine import BasicBolt, TopologyBuilder
    >>> from engine.testing import Feeder, run_topology
    >>> class Check(BasicBolt):
    ...     def prepare(self):
    ...         self.long_words = self.context.counter("long_words")
    ...     def execute(self, tup):
    ...         if len(tup["word"]) > 3:
    ...             self.long_words.add()
    >>> words = Feeder("word")
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("words", words)
    >>> _ = builder.set_bolt("check", Check).shuffle_grouping("words")
    >>> _ = words.feed(("be",)), words.feed(("question",))
    >>> words.close()
    >>> [(metric.name, metric.value) for metric in run_topology(builder.build()).snapshot.user_metrics]
    [('long_words', 1)]
    """

    @property
    def topology_name(self) -> str:
        """Name of the topology."""

    @property
    def component_id(self) -> str:
        """Id of the component of this task."""

    @property
    def task_id(self) -> int:
        """Id of this task, unique in the run."""

    @property
    def task_index(self) -> int:
        """Index of this task among the tasks of its component: 0 to `tasks` - 1."""

    @property
    def tasks(self) -> int:
        """Number of tasks of this component."""

    @property
    def config(self) -> Config:
        """Settings of the run."""

    @property
    def clock(self) -> Clock:
        """Clock of the run. `now()` returns monotonic seconds, `wall()` seconds since 1970. Under `engine.testing` the clock is virtual."""

    @property
    def random(self) -> Random:
        """Random generator of this task, seeded from the seed of the run."""

    @property
    def failure(self) -> Failure | None:
        """Reason of the failure during `fail(message_id)` (ACK-16). None at any other time."""

    def task_ids(self, component: str) -> Sequence[int]:
        """Return the task ids of a component, ascending. Raise UsageError if the topology has no such component."""

    def sources(self) -> Sequence[int]:
        """Return the ids of all tasks that send to this component, on any stream, ascending."""

    def targets(self, stream: str = DEFAULT_STREAM) -> Sequence[int]:
        """Return the ids of all tasks that subscribe to a stream of this component, ascending. Raise UsageError for an unknown stream."""

    def wake(self) -> None:
        """End the pause after an empty poll, and poll this spout at once. Raise UsageError on any thread but the loop's."""

    def create_task(self, coroutine: Coroutine[Any, Any, object], /, *, context: "Context | None" = None) -> asyncio.Task[Any]:
        """Start background work of this instance.

        An exception of the coroutine counts as an exception of the component (ACK-12). The engine cancels the coroutine when the instance
        closes or dies. Afterwards, and on any thread but the loop's, this method raises UsageError. The coroutine must await
        `self.collector.ready()` before each emit.
        context: its context variables, as in `asyncio.create_task`. By default a copy of the caller's.
        """

    def counter(self, name: str, /, **labels: str) -> UserCounter:
        """Return the counter of this task with this name and these labels. The first call creates it.

        Labels divide the count, for example `partition="3"`. The export adds the labels topology, component and task. All metrics of one
        name must have the same labels. Each combination of label values is a separate metric, so use labels with few values. Raises
        UsageError for a wrong name, other labels, or another type of the same name.
        """

    def gauge(self, name: str, /, **labels: str) -> UserGauge:
        """Return the gauge of this task with this name and these labels. The first call creates it. See `counter`."""

    def histogram(self, name: str, /, **labels: str) -> UserHistogram:
        """Return the histogram of this task with this name and these labels. The first call creates it. See `counter`."""

    def drop_metric(self, name: str, /, **labels: str) -> None:
        """Remove the metrics of this task with this name and these labels. Without labels, remove all metrics of this name.

        The export no longer contains them. Metric objects that were returned earlier have no effect any more. A counter that is created
        again starts at 0.
        """
