"""`WindowedBolt`: Storm's bolt of windows, for topologies that are built by hand (WI-7)."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from engine.api import Burst, CallKind, Tuple, call_kind
from engine.errors import FatalError
from engine.event_time.instants import to_micros
from engine.event_time.settings import TimeUnit
from engine.state import KeyValueState, LayeredState
from engine.streams.aggregates import Collect, ReductionPlan
from engine.streams.graph import LATE
from engine.streams.window_bolt import KeepsOpenWindows, WindowSpec, WindowStage
from engine.streams.windows import Windowed
from engine.streams.windows.results import window_error


class WindowedBolt(KeepsOpenWindows):
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

    @cached_property
    def _stage(self) -> WindowStage:  # type: ignore[override]
        name, method, window = type(self).__name__, type(self).execute_window, getattr(self, "window", None)
        if not isinstance(window, WindowSpec):
            hint = "Write window = tumbling(minutes(1)), sliding(...), session(...) or calendar(...)."
            raise FatalError(f"the class {name} has no windows: window is {window!r}", hint=hint)
        if not hasattr(self, "time_field"):
            raise FatalError(f"the class {name} has no time_field", hint="Name the field with the time of a tuple: time_field = 'at'.")
        if method is WindowedBolt.execute_window:
            raise FatalError(f"the class {name} has no execute_window", hint="Write def execute_window(self, window).")
        kind = call_kind(method)
        if kind is not CallKind.PLAIN:
            hint = "Emit with self.collector.emit(), and await in the next bolt."
            raise FatalError(f"execute_window of {name} is no plain function: {kind.value}", hint=hint)
        by = f" by {self.key_field}" if self.key_field else ""
        return WindowStage(self.context.component_id, window, ReductionPlan(Collect, None, Any), of=by)

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self._reduction = self._stage.reduction.live(None, self._stage.name)
        assert isinstance(state, LayeredState)
        if state.place.tasks > 1 and state.place.keyed == (self.key_field is None):
            name, where = type(self).__name__, f"bolt {self._stage.name!r} has {state.place.tasks} tasks"
            if self.key_field is None:
                raise FatalError(f"{where} and a fields grouping, but {name} has no key_field", hint="Set it to the grouped field.")
            raise FatalError(f"{where}, and is not grouped by {self.key_field!r}, the key_field of {name}", hint="Use fields_grouping.")
        super().init_state(state)

    def columns(self, burst: Burst) -> tuple[list[Any], list[int], list[Any]]:
        """Return keys, times and values of tuples."""
        for attribute in ("time_field", "key_field"):
            field = getattr(self, attribute)
            if field is not None and field not in burst[0].fields:
                text = f"{self._stage.name!r} got a tuple without the field {field!r}, which is the {attribute} of {type(self).__name__}"
                raise FatalError(text, hint=f"The tuple has the fields {', '.join(burst[0].fields)}.")
        times = [to_micros(time, self.unit) for time in burst[self.time_field]]
        keys = [None] * len(burst) if self.key_field is None else burst[self.key_field]
        return keys, times, [tup.values for tup in burst]

    def give(self, part: list[Any]) -> None:
        """Hand out windows."""
        for window in part:
            try:
                self.execute_window(window)
            except FatalError:
                raise
            except Exception as error:
                raise window_error(self._stage.name, window.key, window.start_us, window.end_us, error) from error

    def give_late(self, row: Any, late_by_us: int, tup: Tuple) -> None:
        """Emit the values of a late tuple, if the bolt has a stream for them."""
        if isinstance(self.output_fields, Mapping) and LATE in self.output_fields:
            self.collector.emit((row, late_by_us), tup, LATE)
