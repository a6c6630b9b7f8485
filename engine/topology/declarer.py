"""Results of `set_spout` and `set_bolt`: methods that declare the inputs of a component."""

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
from engine.names import DEFAULT_STREAM, plain_text
from engine.topology.spec import Subscription


class BoltDeclarer:
    """Declared bolt, the result of `set_bolt`. Each grouping method subscribes it to one stream of a component.

    Every method returns the declarer, for chains. Nothing is raised here: `build()` reports all faults.

    >>> from engine import TopologyBuilder, bolt, spout
    >>> @spout("user", "amount")
    ... def orders():
    ...     yield ("ada", 3)
    >>> @bolt()
    ... def keep(tup):
    ...     pass
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("orders", orders)
    >>> _ = builder.set_bolt("keep", keep, parallelism=4).fields_grouping("orders", "user")
    >>> [each.grouping.label for each in builder.build().components["keep"].subscriptions]
    ['fields(user)']
    """

    __slots__ = ("_subscriptions", "component_id")

    def __init__(self, component_id: str, subscriptions: list[Subscription]) -> None:
        self.component_id = component_id
        self._subscriptions = subscriptions

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send the tuples to the tasks in turn, from a random start."""
        return self.grouping(component, Shuffle(), stream)

    def fields_grouping(self, component: str, *fields: str | Fields | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples with equal values of these fields to the same task.

        A value may be None, a bool, int, float, str, bytes, datetime, Decimal, UUID or Enum, or a tuple or list of these. An object
        with `__stable_hash__` is allowed, too (GRP-2). Any other value fails the emit with UsageError.
        """
        return self.grouping(component, FieldsGrouping(_names(fields)), stream)

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send every tuple to every task."""
        return self.grouping(component, All(), stream)

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send every tuple to the task with the lowest id."""
        return self.grouping(component, Global(), stream)

    def none_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Leave the choice to the engine, which shuffles today."""
        return self.grouping(component, NoneGrouping(), stream)

    def direct_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Let the emitter choose the task by `emit_direct`, on a stream declared `Fields(..., direct=True)`."""
        return self.grouping(component, Direct(), stream)

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Shuffle over the tasks in the emitter's process if there are any, else over all tasks."""
        return self.grouping(component, LocalOrShuffle(), stream)

    def partial_key_grouping(self, component: str, *fields: str | Fields | Sequence[str], stream: str = DEFAULT_STREAM) -> Self:
        """Send tuples with equal values of these fields to the less used one of two tasks.

        Use it if some keys are much more frequent than others.
        """
        return self.grouping(component, PartialKey(_names(fields)), stream)

    def load_aware_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> Self:
        """Send each tuple to the task with the least queued work."""
        return self.grouping(component, LoadAware(), stream)

    def custom_grouping(
        self, component: str, grouping: CustomGrouping | Callable[[], CustomGrouping], stream: str = DEFAULT_STREAM
    ) -> Self:
        """Let a `CustomGrouping` choose the tasks.

        Each emitting task gets its own object: the result of a class or callable, or a deep copy of an instance.
        """
        return self.grouping(component, Custom(grouping), stream)

    def grouping(self, component: str, grouping: Grouping, stream: str = DEFAULT_STREAM) -> Self:
        """Subscribe with a grouping object, such as `Shuffle()`."""
        self._subscriptions.append(Subscription(plain_text(component), plain_text(stream), grouping))
        return self


class SpoutDeclarer:
    """Declared spout, the result of `set_spout`. A spout has no inputs, so `build()` reports each grouping method called on it."""

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
    """Return the names in order. Objects that are not names stay in place, and `build()` reports them."""
    names: list[object] = []
    for field in fields:
        if isinstance(field, Fields):
            names.extend(field.names)
        elif isinstance(field, (tuple, list)):
            names.extend(field)
        else:
            names.append(field)
    return tuple(names)  # type: ignore[arg-type]
