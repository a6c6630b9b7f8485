"""`WindowedBolt`: Storm's bolt of windows, for topologies that are built by hand (WI-7)."""

import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, cast, get_args

from engine.api import Burst, CallKind, Tuple, call_kind
from engine.api.fields import short_repr
from engine.api.grouping import FieldsGrouping
from engine.cancellation import CALL_ERRORS
from engine.errors import FatalError, UsageError
from engine.event_time.instants import to_micros
from engine.event_time.settings import TimeUnit
from engine.names import is_reserved
from engine.state import KeyValueState, LayeredState
from engine.streams.aggregates import Collect, ReductionPlan
from engine.streams.graph import LATE
from engine.streams.window_bolt import KeepsOpenWindows, WindowSpec, WindowStage
from engine.streams.windows import Windowed
from engine.streams.windows.results import window_error
from engine.topology import Topology
from engine.topology.spec import ChecksItsPlace, ComponentSpec, Subscription

TURN_SECS: Final = 0.005
"""The loop runs again after this time, however many windows there are (BP-4)."""


class WindowedBolt(KeepsOpenWindows, ChecksItsPlace):
    """Gets the tuples of each window at once, when the watermark closes the window.

    Its sources need event times: `set_spout(..., event_time=EventTime("at"))`. Without them no watermark comes, and no window closes. Give
    the component a fields grouping by `key_field`, or no key. Tuples of an open window are in the state, as lists of their values, so
    windows survive whatever the state survives.

    Late tuples are counted (`late_rows`) and acked. If the bolt declares a stream `late` with two fields, they are emitted there:
    the values, and by how many microseconds they are late.

    >>> from engine.streams import minutes, tumbling
    >>> class Busiest(WindowedBolt):
    ...     window, time_field, key_field = tumbling(minutes(1)), "at", "page"
    ...     output_fields = "page", "minute", "visits"
    ...     def execute_window(self, window):
    ...         self.collector.emit((window.key, window.start, len(window.value)))
    """

    window: ClassVar[WindowSpec]
    """`tumbling`, `sliding`, `session` or `calendar` of engine.streams."""
    time_field: ClassVar[str]
    """Field with the time of a tuple, as the `event_time` of its source takes it."""
    unit: ClassVar[TimeUnit | None] = None
    """What a number counts, as in `EventTime`."""
    key_field: ClassVar[str | None] = None
    """Field that the tuples are grouped by: each of its values has windows of its own. None: all tuples of a task are in one window."""

    def execute_window(self, window: Windowed[Any, list[tuple[Any, ...]]]) -> None:
        """Process a window. Its `value` has the values of its tuples, as they came; those of a sliding window come pane by pane.

        What it emits is as safe as a result of a flow (WI-5). If it raises, the run ends, and the window stays in the state.
        """
        raise NotImplementedError

    @staticmethod
    def place_faults(declared: Any, spec: ComponentSpec, topology: Topology) -> Iterator[str]:
        """Yield the mistakes of the class, and of its place in a topology. What an `__init__` sets is checked when the task starts."""
        faults = [*_class_faults(declared, spec)]
        if not isinstance(declared, type) or getattr(declared, "__init__", None) is WindowedBolt.__init__:
            faults += _attribute_faults(declared)
            faults += [fault for each in spec.subscriptions for fault in _subscription_faults(declared, spec, each, topology)]
        yield from (f"{spec.where}: {fault}" for fault in faults)
        for source in _spouts_before(spec, topology):
            if topology.components[source].settings.event_time is None:
                yield (
                    f"{spec.where} has windows, but spout {source!r} in front of it has no event time, so no watermark would close them. "
                    f"Say where its rows have their times: set_spout({source!r}, ..., event_time=EventTime(field))."
                )

    @cached_property
    def _stage(self) -> WindowStage:  # type: ignore[override]
        by = f" by {self.key_field}" if self.key_field else ""
        return WindowStage(self.context.component_id, self.window, ReductionPlan(Collect, None, Any), of=by)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        for fault in _attribute_faults(self):
            raise FatalError(f"bolt {self.context.component_id!r}: {fault}")
        assert isinstance(state, LayeredState)
        if state.place.tasks > 1 and state.place.keyed == (self.key_field is None):
            by = "no key_field" if self.key_field is None else f"the key_field {self.key_field!r}"
            text = f"bolt {self.context.component_id!r} has {state.place.tasks} tasks, and {type(self).__name__} has {by}"
            raise FatalError(text, hint="Use a fields grouping by the key_field, or none of both.")
        self._reduction = self._stage.reduction.live(None, self._stage.name)
        super().init_state(state)

    def columns(self, burst: Burst) -> tuple[list[Any], list[int], list[Any]]:
        """Return keys, times and values of tuples."""
        times = [to_micros(time, self.unit) for time in burst[self.time_field]]
        keys = [None] * len(burst) if self.key_field is None else burst[self.key_field]
        return keys, times, [tup.values for tup in burst]

    def give(self, part: list[Any]) -> Iterator[None]:
        """Hand out windows, for a few milliseconds at a time."""
        now = self.context.clock.now
        until = now() + TURN_SECS
        for window in part:
            try:
                returned = cast(object, self.execute_window(window))
                if returned is not None:
                    if inspect.iscoroutine(returned):
                        returned.close()
                    raise UsageError(f"execute_window returned {short_repr(returned)}", hint="Emit results with self.collector.emit().")
            except FatalError:
                raise
            except CALL_ERRORS as error:
                raise window_error(self._stage.name, window.key, window.start_us, window.end_us, error) from error
            if now() >= until:
                yield
                until = now() + TURN_SECS
        yield

    def give_late(self, row: Any, late_by_us: int, tup: Tuple) -> None:
        """Emit the values of a late tuple, if the bolt has a stream for them."""
        if isinstance(self.output_fields, Mapping) and LATE in self.output_fields:
            self.collector.emit((row, late_by_us), tup, LATE)


def _class_faults(bolt: Any, spec: ComponentSpec) -> Iterator[str]:
    """Yield the mistakes of a class in its methods, its streams and its settings. bolt: the class, or an instance."""
    bolt_class: type[WindowedBolt] = bolt if isinstance(bolt, type) else type(bolt)
    name, kind = bolt_class.__name__, call_kind(bolt_class.execute_window)
    if bolt_class.execute_window is WindowedBolt.execute_window:
        yield f"{name} has no execute_window. Write def execute_window(self, window)."
    elif kind is not CallKind.PLAIN:
        hint = "Emit with self.collector.emit(), and await in the next bolt."
        yield f"execute_window of {name} is no plain function: {kind.value}. {hint}"
    if bolt_class.key_of is not WindowedBolt.key_of:
        yield f"{name} has a key_of, but the keys of its windows are the values of its key_field. Remove key_of."
    if LATE in spec.streams and len(spec.streams[LATE]) != 2:
        yield f"the stream {LATE!r} of {name} needs two fields, the values of a late tuple and by how many microseconds it is late."
    if spec.settings.processes:
        yield f"windows do not work with processes=True. Remove it, or do the heavy work in a bolt behind {name}."
    if spec.settings.tick_tuple_freq_secs is not None:
        yield f"{name} gets windows, and no ticks. Remove tick_tuple_freq_secs."


def _attribute_faults(bolt: Any) -> Iterator[str]:
    """Yield the mistakes in the attributes of a class or of an instance."""
    name = bolt.__name__ if isinstance(bolt, type) else type(bolt).__name__
    window, field, unit, key_field = (getattr(bolt, each, None) for each in ("window", "time_field", "unit", "key_field"))
    if not isinstance(window, WindowSpec) and not isinstance(window, property):
        yield f"window of {name} is {window!r}. Write window = tumbling(minutes(1)), sliding(...), session(...) or calendar(...)."
    if not isinstance(field, str):
        yield f"{name} has no time_field. Name the field with the time of a tuple: time_field = 'at'."
    if unit is not None and unit not in get_args(TimeUnit):
        yield f"unit of {name} is {unit!r}. It is one of {', '.join(map(repr, get_args(TimeUnit)))}."
    if key_field is not None and not isinstance(key_field, str):
        yield f"key_field of {name} is {key_field!r}. Name one field, or None for windows of all tuples."


def _subscription_faults(bolt: Any, spec: ComponentSpec, subscription: Subscription, topology: Topology) -> Iterator[str]:
    """Yield the mistakes in the fields and the grouping of an input."""
    name = bolt.__name__ if isinstance(bolt, type) else type(bolt).__name__
    source, grouping = topology.components.get(subscription.source), subscription.grouping
    fields = None if source is None else source.streams.get(subscription.stream)
    for attribute in ("time_field", "key_field"):
        field = getattr(bolt, attribute, None)
        if isinstance(field, str) and fields is not None and field not in fields:
            where = f"stream {subscription.stream!r} of {subscription.source!r}"
            yield f"{where} has no field {field!r}, which is the {attribute} of {name} (it has: {', '.join(fields)})."
    if spec.parallelism == 1:
        return
    if bolt.key_field is None:
        if isinstance(grouping, FieldsGrouping):
            yield f"it has {spec.parallelism} tasks and a fields grouping, but {name} has no key_field. Set it to the grouped field."
    elif not isinstance(grouping, FieldsGrouping) or grouping.names != (bolt.key_field,):
        yield (
            f"it has {spec.parallelism} tasks, so the tuples of a key must come to one of them. Use "
            f"fields_grouping({subscription.source!r}, {bolt.key_field!r}), the key_field of {name}."
        )


def _spouts_before(spec: ComponentSpec, topology: Topology) -> list[str]:
    """Return the spouts from which tuples come to a component, directly or through bolts."""
    found: dict[str, None] = {}
    waiting = [spec]
    while waiting:
        for subscription in waiting.pop().subscriptions:
            if subscription.source not in found and subscription.source in topology.components:
                found[subscription.source] = None
                waiting.append(topology.components[subscription.source])
    return [name for name in found if topology.components[name].kind == "spout" and not is_reserved(name)]
