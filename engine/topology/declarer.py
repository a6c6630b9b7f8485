"""What `set_spout` and `set_bolt` return: the inputs of one component, declared in a chain."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from engine.api.fields import Fields
from engine.api.grouping import (
    All,
    Custom,
    CustomGrouping,
    Direct,
    FieldsGrouping,
    Global,
    Grouping,
    LoadAware,
    LocalOrShuffle,
    NoneGrouping,
    PartialKey,
    Shuffle,
)
from engine.names import DEFAULT_STREAM
from engine.topology.spec import Subscription


class BoltDeclarer:
    """A bolt that was declared; each grouping subscribes it to one stream of a component, and returns the declarer.

    Nothing is judged here: `build()` reports all faults at once.
    """

    __slots__ = ("_subscriptions", "component_id")

    def __init__(self, component_id: str, subscriptions: list[Subscription]) -> None:
        self.component_id = component_id
        self._subscriptions = subscriptions

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Spread the tuples evenly over the tasks."""
        return self.grouping(component, Shuffle(), stream)

    def fields_grouping(self, component: str, *fields: str | Fields | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send equal values of these fields to the same task."""
        return self.grouping(component, FieldsGrouping(_names(fields)), stream)

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send every tuple to every task."""
        return self.grouping(component, All(), stream)

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send every tuple to the task with the lowest id."""
        return self.grouping(component, Global(), stream)

    def none_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Leave the choice to the engine; today it shuffles."""
        return self.grouping(component, NoneGrouping(), stream)

    def direct_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Let the emitter name the task, by `emit_direct`, on a stream declared `Fields(..., direct=True)`."""
        return self.grouping(component, Direct(), stream)

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Shuffle over the tasks of the emitter's own process if there are any, else over all."""
        return self.grouping(component, LocalOrShuffle(), stream)

    def partial_key_grouping(self, component: str, *fields: str | Fields | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send equal values of these fields to one of two tasks, to the less used."""
        return self.grouping(component, PartialKey(_names(fields)), stream)

    def load_aware_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send each tuple to the task with the least queued work."""
        return self.grouping(component, LoadAware(), stream)

    def custom_grouping(
        self, component: str, grouping: CustomGrouping | Callable[[], CustomGrouping], stream: str = DEFAULT_STREAM
    ) -> Self:
        """Let the user's grouping choose; each emitting task has its own: made by the class or callable, or a deep copy of the instance."""
        return self.grouping(component, Custom(grouping), stream)

    def grouping(self, component: str, grouping: Grouping, stream: str = DEFAULT_STREAM) -> Self:
        """Subscribe with a grouping that is a value already."""
        self._subscriptions.append(Subscription(component, stream, grouping))
        return self


class SpoutDeclarer:
    """A spout that was declared. It takes no input: a grouping that is called on it is a fault, which `build()` reports."""

    __slots__ = ("_inputs", "component_id")

    def __init__(self, component_id: str, subscriptions: list[Subscription]) -> None:
        self.component_id = component_id
        self._inputs = BoltDeclarer(component_id, subscriptions)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.endswith("grouping"):
                return getattr(self._inputs, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _names(fields: tuple[object, ...]) -> tuple[str, ...]:
    """Return the names in order; what is no name stays as it is, for `build()` to report."""
    names: list[object] = []
    for field in fields:
        if isinstance(field, Fields):
            names.extend(field.names)
        elif isinstance(field, (tuple, list)):
            names.extend(field)
        else:
            names.append(field)
    return tuple(names)  # type: ignore[arg-type]
