"""How a subscriber chooses the tasks that get a tuple (GRP-1): one value object for each grouping; wiring makes them work."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, cast, runtime_checkable

from engine.api.fields import Values

if TYPE_CHECKING:
    from engine.api.context import TaskContext


@runtime_checkable
class CustomGrouping(Protocol):
    """A grouping of the user's own. Each emitting task has its own copy, so it may keep state without care."""

    def prepare(self, context: "TaskContext", stream: str, targets: Sequence[int]) -> None:
        """Take the emitting task's context, the stream, and the task ids of the subscriber in order; called once, before any tuple."""

    def choose_tasks(self, source_task: int, values: Values) -> Sequence[int]:
        """Return the task ids, out of `targets`, that get this tuple; none of them is allowed."""


class _Plain:
    """A grouping without parameters: all of its kind are equal. (Not a dataclass each: seven of them took 5 ms of every import.)"""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Shuffle(_Plain):
    """Exactly even round-robin over the tasks, from a random start."""

    __slots__ = ()
    method: ClassVar[str] = "shuffle_grouping"
    label: ClassVar[str] = "shuffle"


@dataclass(frozen=True, slots=True)
class FieldsGrouping:
    """Equal values of these fields go to the same task, by the stable hash and the key groups (GRP-2)."""

    names: tuple[str, ...]
    method: ClassVar[str] = "fields_grouping"

    @property
    def label(self) -> str:
        """What a drawing writes on the edge."""
        return f"fields({', '.join(self.names)})"


class All(_Plain):
    """Every task gets every tuple."""

    __slots__ = ()
    method: ClassVar[str] = "all_grouping"
    label: ClassVar[str] = "all"


class Global(_Plain):
    """The task with the lowest id gets every tuple."""

    __slots__ = ()
    method: ClassVar[str] = "global_grouping"
    label: ClassVar[str] = "global"


class NoneGrouping(_Plain):
    """The subscriber does not care; today the same as shuffle."""

    __slots__ = ()
    method: ClassVar[str] = "none_grouping"
    label: ClassVar[str] = "none"


class Direct(_Plain):
    """The emitter names the task, by `emit_direct`, on a stream declared `Fields(..., direct=True)`."""

    __slots__ = ()
    method: ClassVar[str] = "direct_grouping"
    label: ClassVar[str] = "direct"


class LocalOrShuffle(_Plain):
    """Shuffle over the tasks of the emitter's own process if there are any, else over all."""

    __slots__ = ()
    method: ClassVar[str] = "local_or_shuffle_grouping"
    label: ClassVar[str] = "local or shuffle"


@dataclass(frozen=True, slots=True)
class PartialKey:
    """Of two candidate tasks by hash of these fields, the one that this emitter has used less."""

    names: tuple[str, ...]
    method: ClassVar[str] = "partial_key_grouping"

    @property
    def label(self) -> str:
        """What a drawing writes on the edge."""
        return f"partial key({', '.join(self.names)})"


class LoadAware(_Plain):
    """The task with the least queued work."""

    __slots__ = ()
    method: ClassVar[str] = "load_aware_grouping"
    label: ClassVar[str] = "load aware"


@dataclass(frozen=True, slots=True)
class Custom:
    """The user's own grouping.

    `grouping` is a class, any other callable without arguments that makes one (called once for each emitting task),
    or an instance (deep-copied for each emitting task, never used itself).
    """

    grouping: CustomGrouping | Callable[[], CustomGrouping]
    method: ClassVar[str] = "custom_grouping"

    @property
    def label(self) -> str:
        """What a drawing writes on the edge."""
        named = self.grouping if isinstance(self.grouping, type) else type(self.grouping)
        name = getattr(self.grouping, "__name__", named.__name__)
        return "custom" if name == "<lambda>" else f"custom({name})"

    def create(self) -> CustomGrouping:
        """Return the copy for one emitting task; not prepared yet."""
        if self.is_factory:
            return cast(Callable[[], CustomGrouping], self.grouping)()
        return copy.deepcopy(cast(CustomGrouping, self.grouping))

    @property
    def is_factory(self) -> bool:
        """True where each emitting task's copy is made by a call, False where it is a deep copy."""
        return isinstance(self.grouping, type) or not hasattr(self.grouping, "choose_tasks")


Grouping: TypeAlias = Shuffle | FieldsGrouping | All | Global | NoneGrouping | Direct | LocalOrShuffle | PartialKey | LoadAware | Custom
"""Any grouping. Each has `method`, the declarer's method that makes it, and `label`, for drawings and errors."""
