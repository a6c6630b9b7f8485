"""The bolt of a stage with windows: rows into panes and sessions, and results when the watermark closes them (WI-1 to WI-6)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any, Final, cast

from engine.api import Burst, Fields, Tuple
from engine.checkpoint import StatefulBurstBolt
from engine.errors import EngineError, FatalError
from engine.kernel import key_group
from engine.metrics.user_metrics import Counter
from engine.state import KeyValueState, LayeredState
from engine.streams.aggregates import Reduction, ReductionPlan
from engine.streams.calls import OpenCalls
from engine.streams.graph import LATE
from engine.streams.rows import KEY, ROW, TIME
from engine.streams.shapes import shape_of, type_name
from engine.streams.times import FIRST
from engine.streams.windows import (
    Calendar,
    Late,
    RevisedSessionWindows,
    RevisedTimeWindows,
    Session,
    SessionWindows,
    Sliding,
    TimeWindows,
    Updates,
    open_keeper,
)

PROGRESS: Final = "progress"
"""Namespace of the watermark up to which the windows of each key group are closed."""
LATE_ROWS: Final = "late_rows"
"""Metric with the number of late rows."""
WindowSpec = Sliding | Calendar | Session


class KeepsOpenWindows(StatefulBurstBolt):
    """Keeps the open windows of the keys of one task, and gives the result of each key in a window when the watermark closes it."""

    survives_rollback = False
    emits_results = True
    keeper: TimeWindows | SessionWindows
    _stage: "WindowStage"
    _reduction: Reduction

    def columns(self, burst: Burst) -> tuple[list[Any], list[int], list[Any]]:
        """Return keys, times in microseconds, and rows of a burst."""
        raise NotImplementedError

    def give(self, part: list[Any]) -> Iterator[None]:
        """Emit some results, in the order of their ends. Yields when the loop should run."""
        raise NotImplementedError

    def give_late(self, row: Any, late_by_us: int, tup: Tuple) -> None:
        """Emit a late row."""
        raise NotImplementedError

    @cached_property
    def _late(self) -> Counter:
        return cast(Counter, self.context.counter(LATE_ROWS))

    @property
    def open_windows(self) -> int:
        """Sessions that are open, or panes of time windows that have rows."""
        keeper: TimeWindows | SessionWindows | None = getattr(self, "keeper", None)  # there is none before the state
        return 0 if keeper is None else keeper.open_windows

    @property
    def late_rows(self) -> int:
        """Rows that came when all their windows were closed."""
        return int(self._late.read())

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        """Take up the open windows, and the watermark up to which windows are closed (ET-4)."""
        assert isinstance(state, LayeredState)
        place, self._reduction.codec = state.place, state.codec
        self._slots = [_keys_of_slots(place.key_groups)[slot] for slot in place.slots] if place.keyed else [0]
        self._progress = state.namespace(PROGRESS)
        found = self._progress.get_many(self._slots)
        stored = [each for each in found if each is not None]
        for _, _, stage in stored:
            self._check(stage)
        if not stored and next(state.items(), None) is not None:
            self._check("running results")
        closed = [FIRST if each is None else each[0] for each in found]
        watermark = max((each[1] for each in stored), default=FIRST)
        progress, updates = (min(closed), watermark), self._stage.updates
        self.keeper = open_keeper(state, self._stage.spec, self._reduction, progress=progress, updates=updates)
        if min(closed) < max(closed):  # the slots come from tasks that had come to different watermarks
            by_slot, slot_of = dict(zip(place.slots, closed, strict=True)), place.slot_of
            self.keeper.closed_for = lambda key: by_slot[slot_of(key)]
        self._stored = self.keeper.progress if stored else None

    def execute_many(self, burst: Burst) -> None:
        self._finish_close()
        keys, times, rows = self.columns(burst)
        late = self.keeper.add_rows(keys, times, rows)
        if late:
            self._late.add(len(late))
            for index, late_by_us in late:
                self.give_late(rows[index], late_by_us, burst[index])

    def pass_watermark(self, watermark: int) -> Iterator[None]:
        """Close the windows that end at the watermark or before, and emit their results in slices."""
        for part in self._made(self.keeper.close(watermark)):
            yield from self.give(part)

    def _finish_close(self) -> None:
        """Finish a close that ended with the task that had these keys before."""
        if self.keeper.closed < self.keeper.watermark:
            self._give_all(self.keeper.close(self.keeper.watermark))

    def _give_all(self, parts: Iterator[list[Any]]) -> None:
        for part in self._made(parts):
            for _ in self.give(part):
                pass

    def _made(self, parts: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Yield the results. An error of the user's code ends the run, because it belongs to no row that could be sent again."""
        try:
            yield from parts
        except EngineError:
            raise
        except Exception as error:
            text = f"stage {self._stage.name!r} could not close its windows: {type(error).__name__}: {error}"
            raise FatalError(text, hint="Correct the function, and start again. The windows are still in the state.") from error

    def pre_prepare(self, txid: int) -> None:
        """Give the updates of before the checkpoint (WI-4), and store how far windows are closed (WI-5)."""
        self._finish_close()
        if isinstance(self.keeper, (RevisedTimeWindows, RevisedSessionWindows)):
            self._give_all(self.keeper.updates())
        if self.keeper.progress != self._stored:
            self._stored = self.keeper.progress
            entry = (*self._stored, self._stage.description)
            self._progress.put_many(dict.fromkeys(self._slots, entry))

    def _check(self, stored: str) -> None:
        """Raise FatalError unless the stored windows are those of this stage."""
        if stored != self._stage.description:
            text = f"stage {self._stage.name!r} has stored {stored}, and is {self._stage.description} now"
            hint = "Give the stage another name, or remove its state: python -m engine state delete."
            raise FatalError(text, hint=hint)


class WindowBolt(KeepsOpenWindows):
    """The bolt of a stage of a flow."""

    def __init__(self, stage: "WindowStage") -> None:
        self._stage = stage
        self.output_fields = {"default": Fields(*stage.layout), LATE: Fields(ROW)}

    async def prepare(self) -> None:
        self._open = OpenCalls(self.context)
        plan = self._stage.reduction
        function = None if plan.call is None else await self._open.function_of(plan.call)
        self._reduction = plan.live(function, self._stage.name)
        self._knows_rows = plan.row_type is not None or not self._reduction.keeps_rows
        self._seen: type | None = None
        """Type of the rows, if the flow does not know it."""

    async def cleanup(self) -> None:
        await self._open.close()

    def columns(self, burst: Burst) -> tuple[list[Any], list[int], list[Any]]:
        """Return the fields of the rows."""
        rows = burst[ROW]
        if not self._knows_rows and self._seen is not type(rows[0]):
            self._seen = type(rows[0])
            self._refuse_unknown(self._seen)
        return burst[KEY], burst[TIME], rows

    def give(self, part: list[Any]) -> Iterator[None]:
        """Emit results as rows, each with the last time of its window."""
        if self._stage.updates is None and isinstance(self.keeper, TimeWindows) and part[0].end_us == part[-1].end_us:
            self.collector.emit_many(list(zip(part, repeat(part[0].end_us - 1))))  # in the order of their ends, so all have this one
        elif self._stage.updates is None:
            self.collector.emit_many([(each, each.end_us - 1) for each in part])
        else:
            self.collector.emit_many([(each, each.value.end_us - 1) for each in part])
        yield

    def give_late(self, row: Any, late_by_us: int, tup: Tuple) -> None:
        """Emit a late row, anchored to its tuple."""
        self.collector.emit((Late(row, late_by_us, "late"),), tup, LATE)

    def _refuse_unknown(self, row_type: type) -> None:
        """Raise FatalError for rows that would come back from the state as plain dicts and lists."""
        shape = shape_of(row_type)
        if shape is not None:
            text = f"stage {self._stage.name!r} keeps rows of {type_name(row_type)} in its state, but the flow does not know their type"
            hint = f"Declare what the function before it returns, such as def parsed(line: str) -> {type_name(row_type)}."
            raise FatalError(text, hint=hint)


@lru_cache(maxsize=8)
def _keys_of_slots(key_groups: int) -> list[int]:
    """Return a key for each key group, under which its task can store something of its own."""
    keys: dict[int, int] = {}
    number = 0
    while len(keys) < key_groups:
        keys.setdefault(key_group(number, key_groups), number)
        number += 1
    return [keys[group] for group in range(key_groups)]


@dataclass(frozen=True, slots=True)
class WindowStage:
    """Factory of the bolts of one stage with windows."""

    name: str
    spec: WindowSpec
    reduction: ReductionPlan
    updates: Updates | None = None
    layout: tuple[str, ...] = (ROW, TIME)
    of: str = ""
    """What else the windows are of, for the description."""

    @property
    def description(self) -> str:
        """What the stored windows are."""
        updates = "" if self.updates is None else f" with {self.updates}"
        return f"{self.reduction.description} of {self.spec}{self.of}{updates}"

    def create(self) -> WindowBolt:
        """Return a new bolt."""
        return WindowBolt(self)
