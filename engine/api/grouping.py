"""Defines the groupings. A grouping decides which tasks of a subscriber get a tuple (GRP-1).

The classes hold only parameters. `engine.runtime.wiring` selects the `Choice` of a grouping, and `_native.task` chooses the tasks.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, cast, runtime_checkable

from engine.api.context import TaskContext
from engine.api.fields import Values


@runtime_checkable
class CustomGrouping(Protocol):
    """Grouping of the user, for `custom_grouping`. Each emitting task has its own object, so a grouping may keep state.

    >>> from engine import TopologyBuilder
    >>> from engine.testing import Capture, Feeder, run_topology
    >>> class ByLength:
    ...     def prepare(self, context, stream, targets):
    ...         self.targets = targets
    ...     def choose_tasks(self, source_task, values):
    ...         return [self.targets[len(values[0]) % len(self.targets)]]
    >>> words, sink = Feeder("word"), Capture()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("words", words)
    >>> _ = builder.set_bolt("sink", sink, parallelism=2).custom_grouping("words", ByLength)
    >>> _ = words.feed(("to",)), words.feed(("not",)), words.feed(("be",))
    >>> words.close()
    >>> _ = run_topology(builder.build())
    >>> task_of = {arrival.tup["word"]: arrival.task_id for arrival in sink.arrivals}
    >>> task_of["to"] == task_of["be"] != task_of["not"]
    True
    """

    def prepare(self, context: TaskContext, stream: str, targets: Sequence[int]) -> None:
        """Store the task ids of the subscriber, ascending. Called once, before any tuple, with the context of the emitting task."""

    def choose_tasks(self, source_task: int, values: Values) -> Sequence[int]:
        """Return the ids of the tasks, out of `targets`, that get this tuple. An empty list sends it to no task."""


class _Plain:
    """Base class of groupings without parameters. Objects of one class are equal.

    These classes are not dataclasses, because seven dataclasses would add 5 ms to every import.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Shuffle(_Plain):
    """Sends tuples round robin to the tasks, from a random first task on."""

    __slots__ = ()
    method: ClassVar[str] = "shuffle_grouping"
    label: ClassVar[str] = "shuffle"


@dataclass(frozen=True, slots=True)
class FieldsGrouping:
    """Sends tuples with equal values of these fields to the same task, by stable hash and key group (GRP-2)."""

    names: tuple[str, ...]
    method: ClassVar[str] = "fields_grouping"

    @property
    def label(self) -> str:
        """Text for the edge of a drawing."""
        return f"fields({', '.join(self.names)})"


class All(_Plain):
    """Sends every tuple to all tasks."""

    __slots__ = ()
    method: ClassVar[str] = "all_grouping"
    label: ClassVar[str] = "all"


class Global(_Plain):
    """Sends every tuple to the task with the lowest id."""

    __slots__ = ()
    method: ClassVar[str] = "global_grouping"
    label: ClassVar[str] = "global"


class NoneGrouping(_Plain):
    """Leaves the choice to the engine. Works like `Shuffle` today."""

    __slots__ = ()
    method: ClassVar[str] = "none_grouping"
    label: ClassVar[str] = "none"


class Direct(_Plain):
    """Lets the emitter choose the task by `emit_direct`, on a stream declared `Fields(..., direct=True)`."""

    __slots__ = ()
    method: ClassVar[str] = "direct_grouping"
    label: ClassVar[str] = "direct"


class LocalOrShuffle(_Plain):
    """Shuffles over the tasks in the emitter's process if there are any, else over all tasks."""

    __slots__ = ()
    method: ClassVar[str] = "local_or_shuffle_grouping"
    label: ClassVar[str] = "local or shuffle"


@dataclass(frozen=True, slots=True)
class PartialKey:
    """Sends each tuple to the less used of two tasks.

    A hash of these fields selects the two tasks. Each emitting task counts its own tuples.
    """

    names: tuple[str, ...]
    method: ClassVar[str] = "partial_key_grouping"

    @property
    def label(self) -> str:
        """Text for the edge of a drawing."""
        return f"partial key({', '.join(self.names)})"


class LoadAware(_Plain):
    """Sends each tuple to the task with the least queued work."""

    __slots__ = ()
    method: ClassVar[str] = "load_aware_grouping"
    label: ClassVar[str] = "load aware"


@dataclass(frozen=True, slots=True)
class Custom:
    """Grouping of the user.

    `grouping` is a class or another callable without arguments, called once for each emitting task. If `grouping` is an instance, each
    emitting task gets a deep copy.
    """

    grouping: CustomGrouping | Callable[[], CustomGrouping]
    method: ClassVar[str] = "custom_grouping"

    @property
    def label(self) -> str:
        """Text for the edge of a drawing."""
        named = self.grouping if isinstance(self.grouping, type) else type(self.grouping)
        name = getattr(self.grouping, "__name__", named.__name__)
        return "custom" if name == "<lambda>" else f"custom({name})"

    def create(self) -> CustomGrouping:
        """Return the object for one emitting task. `prepare` has not been called yet."""
        if self.is_factory:
            return cast(Callable[[], CustomGrouping], self.grouping)()
        return copy.deepcopy(cast(CustomGrouping, self.grouping))

    @property
    def is_factory(self) -> bool:
        """True if a call of `grouping` makes the object of each emitting task. False if the object is a deep copy of `grouping`."""
        return isinstance(self.grouping, type) or not hasattr(self.grouping, "choose_tasks")


Grouping: TypeAlias = Shuffle | FieldsGrouping | All | Global | NoneGrouping | Direct | LocalOrShuffle | PartialKey | LoadAware | Custom
"""Any grouping. `method` is the declarer's method for this grouping. `label` is the text of the grouping in drawings and errors."""
