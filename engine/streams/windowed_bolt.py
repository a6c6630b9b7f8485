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
from engine.state import KeyValueState
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

    @classmethod
    def place_faults(cls, spec: ComponentSpec, topology: Topology) -> Iterator[str]:
        """Yield the mistakes of the class, and of its place in a topology."""
        yield from (f"{spec.where}: {fault}" for fault in cls._class_faults(spec))
        yield from (f"{spec.where}: {fault}" for each in spec.subscriptions for fault in cls._subscription_faults(spec, each, topology))
        for source in _spouts_before(spec, topology):
            if topology.components[source].settings.event_time is None:
                yield (
                    f"{spec.where} has windows, but spout {source!r} in front of it has no event time, so no watermark would close them. "
                    f"Say where its rows have their times: set_spout({source!r}, ..., event_time=EventTime(field))."
                )

    @classmethod
    def _class_faults(cls, spec: ComponentSpec) -> Iterator[str]:
        name, kind = cls.__name__, call_kind(cls.execute_window)
        window, field, unit, key_field = (getattr(cls, each, None) for each in ("window", "time_field", "unit", "key_field"))
        if not isinstance(window, WindowSpec):
            yield f"window of {name} is {window!r}. Write window = tumbling(minutes(1)), sliding(...), session(...) or calendar(...)."
        if not isinstance(field, str):
            yield f"{name} has no time_field. Name the field with the time of a tuple: time_field = 'at'."
        if unit is not None and unit not in get_args(TimeUnit):
            yield f"unit of {name} is {unit!r}. It is one of {', '.join(map(repr, get_args(TimeUnit)))}."
        if key_field is not None and not isinstance(key_field, str):
            yield f"key_field of {name} is {key_field!r}. Name one field, or None for windows of all tuples."
        if cls.execute_window is WindowedBolt.execute_window:
            yield f"{name} has no execute_window. Write def execute_window(self, window)."
        elif kind is not CallKind.PLAIN:
            hint = "Emit with self.collector.emit(), and await in the next bolt."
            yield f"execute_window of {name} is no plain function: {kind.value}. {hint}"
        if cls.key_of is not WindowedBolt.key_of:
            yield f"{name} has a key_of, but the keys of its windows are the values of its key_field. Remove key_of."
        if LATE in spec.streams and len(spec.streams[LATE]) != 2:
            yield f"the stream {LATE!r} of {name} needs two fields, the values of a late tuple and by how many microseconds it is late."
        if spec.settings.processes:
            yield f"windows do not work with processes=True. Remove it, or do the heavy work in a bolt behind {name}."
        if spec.settings.tick_tuple_freq_secs is not None:
            yield f"{name} gets windows, and no ticks. Remove tick_tuple_freq_secs."

    @classmethod
    def _subscription_faults(cls, spec: ComponentSpec, subscription: Subscription, topology: Topology) -> Iterator[str]:
        source, grouping = topology.components.get(subscription.source), subscription.grouping
        fields = None if source is None else source.streams.get(subscription.stream)
        for attribute in ("time_field", "key_field"):
            field = getattr(cls, attribute, None)
            if isinstance(field, str) and fields is not None and field not in fields:
                where = f"stream {subscription.stream!r} of {subscription.source!r}"
                yield f"{where} has no field {field!r}, which is the {attribute} of {cls.__name__} (it has: {', '.join(fields)})."
        if spec.parallelism == 1:
            return
        if cls.key_field is None:
            if isinstance(grouping, FieldsGrouping):
                text = f"it has {spec.parallelism} tasks and a fields grouping, but {cls.__name__} has no key_field"
                yield f"{text}. Set it to the grouped field."
        elif not isinstance(grouping, FieldsGrouping) or grouping.names != (cls.key_field,):
            yield (
                f"it has {spec.parallelism} tasks, so the tuples of a key must come to one of them. Use "
                f"fields_grouping({subscription.source!r}, {cls.key_field!r}), the key_field of {cls.__name__}."
            )

    @cached_property
    def _stage(self) -> WindowStage:  # type: ignore[override]
        by = f" by {self.key_field}" if self.key_field else ""
        return WindowStage(self.context.component_id, self.window, ReductionPlan(Collect, None, Any), of=by)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
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
