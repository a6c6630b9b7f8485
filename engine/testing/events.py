"""Source for tests of event time: a test says which rows come, and when the watermark moves."""

import asyncio
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from engine.api import Spout, SpoutExhausted, Streams
from engine.errors import FAILED, Failure, FatalError, UsageError
from engine.event_time import NO_WATERMARK, EventTime
from engine.event_time.instants import datetime_of, to_micros
from engine.event_time.settings import TimeUnit
from engine.names import DEFAULT_STREAM
from engine.testing.event_rows import EventRows
from engine.testing.feeder import Verdict
from engine.topology.task_port import SpoutPortUser
from engine.waiters import Waiters


class FedRow(NamedTuple):
    """A row."""

    message_id: int
    values: tuple[Any, ...]


class Move(NamedTuple):
    """The watermark moves, or the source becomes idle."""

    watermark: int | None
    """None: the source becomes idle."""
    wait: bool


class Pause(NamedTuple):
    """Time passes."""

    secs: float


Step: TypeAlias = FedRow | Move | Pause


@dataclass(slots=True)
class TaskSteps:
    """How far one task has played the steps, over all its instances."""

    next: int = 0
    """Index of the step that comes next."""
    first: int = 0
    """Position of the first step. Above 0 if the store knows an earlier source of this name."""
    most: int = 0
    """Steps that have been played, also if a rollback has taken the task back."""
    watermark: int = NO_WATERMARK
    is_idle: bool = False
    due: float | None = None
    """When the step may be over that is being played."""
    open: dict[int, FedRow] = field(default_factory=dict)
    again: deque[FedRow] = field(default_factory=deque)
    """Rows to emit again."""
    tries: Counter[int] = field(default_factory=Counter)
    spout: "EventsSpout | None" = None


class Events:
    """Rows and watermarks that a test gives, step by step: `builder.set_spout("clicks", events, event_time=EventTime("at"))`.

    Name the fields of the rows, or give their type. Tell the steps before or during the run. They are played in order, in the time of the
    run. In a finished topology or a flow, put the events in the place of a source by `replaced`. Its settings of event time stay, so the
    rows get their times as those of the source did.

    >>> from datetime import UTC, datetime
    >>> from engine import Bolt, TopologyBuilder
    >>> from engine.event_time import EventTime
    >>> from engine.testing import Events, run_topology
    >>> class Show(Bolt):
    ...     def execute(self, tup):
    ...         print(tup["page"])
    ...         self.collector.ack(tup)
    ...     def pass_watermark(self, watermark):
    ...         print("watermark", watermark)
    ...         return iter(())
    >>> clicks = Events("page", "at", event_time=EventTime("at", unit="s"))
    >>> clicks.feed(("home", 10)), clicks.watermark(60), clicks.feed(("late", 20))
    (1, None, 2)
    >>> clicks.close()
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("clicks", clicks)
    >>> _ = builder.set_bolt("show", Show).shuffle_grouping("clicks")
    >>> _ = run_topology(builder.build())
    home
    watermark 60000000
    late
    watermark 9223372036854775807
    """

    def __init__(self, *row: Any, time: str | None = None, event_time: EventTime | None = None, max_retries: int = 0) -> None:
        """row: names of fields, or the type of the rows. time: the field that `feed(at=...)` sets, by default that of `event_time`.

        event_time: for `set_spout`; a source that is replaced keeps its own. max_retries: how often a failed row comes again in a topology
        without state.
        """
        if time is None and event_time is not None and isinstance(event_time.time, str):
            time = event_time.time
        self._rows = EventRows(row, time)
        self.output_fields: Final[Streams] = {DEFAULT_STREAM: self._rows.fields}
        self.event_time: Final = event_time
        self.max_retries: Final = max_retries
        self.verdicts: Final[list[Verdict]] = []
        """Every ack and fail, in order."""
        self._steps: Final[list[Step]] = []
        self._behind: Final[list[int]] = []
        """For each step, how many steps all tasks must have played before it: up to the last one that is no row."""
        self._given: int | None = None
        """The last watermark that the test has given."""
        self._is_closed = False
        self._tasks: dict[int, TaskSteps] = {}
        self._waiters = Waiters()
        self._fed = 0

    def create(self) -> "EventsSpout":
        """Return a new spout that plays these steps. The engine calls it for each instance of a task."""
        return EventsSpout(self)

    # Called by tests.

    def feed(self, row: Any, *, at: datetime | float | None = None) -> int:
        """Add a row, and return its message id: 1, 2, 3, … at: its time, which replaces the value of the field for the time.

        Its time may be before the watermark, because the row may be late. Of several tasks of the source, each one emits its share.
        """
        values = self._rows.values(row, at)
        self._add(FedRow(self._fed + 1, values))
        self._fed += 1
        return self._fed

    def watermark(self, at: datetime | float, *, unit: TimeUnit | None = None, wait: bool = True) -> None:
        """Move the watermark of the source to this time, when all rows before this step are settled.

        The steps behind it wait for that. With `wait=False` they go on at once, so that a test can see which rows hold the watermark.
        With `EventTime(wait_for_acks=False)` it never waits. `max_out_of_order` does not count here. Without any such step, the watermark
        follows from the times of the rows, as that of any source. unit: that of a number, by default the unit of `event_time`.
        """
        if unit is None and self.event_time is not None:
            unit = self.event_time.unit
        watermark = to_micros(at, unit)
        if self._given is not None and watermark < self._given:
            last = datetime_of(self._given)
            raise UsageError(f"the watermark {at!r} is before the one given last, {last}", hint="A watermark never falls.")
        self._add(Move(watermark, wait))
        self._given = watermark

    def idle(self, *, wait: bool = True) -> None:
        """Let the source be idle until the next row, so that nobody waits for its watermark (ET-3).

        It waits for the rows before it as `watermark` does.
        """
        self._add(Move(None, wait))

    def advance(self, secs: float) -> None:
        """Let time pass before the next step: virtual time in `run_topology`."""
        if not 0 <= secs < math.inf:
            raise UsageError(f"advance() takes a number of seconds of at least 0, not {secs!r}")
        self._add(Pause(secs))

    def close(self) -> None:
        """Refuse more steps. The source is exhausted behind the last one, and sends the end of time when its rows are settled."""
        self._is_closed = True
        self._wake()

    async def played(self) -> None:
        """Wait until all steps that have been given are played. The last rows may be open."""
        while not self._tasks or any(task.next < len(self._steps) for task in self._tasks.values()):
            await self._waiters.wait()

    @property
    def sent(self) -> datetime | None:
        """The watermark that has left, the least of all tasks. None: none has."""
        watermarks = [task.spout.sent for task in self._tasks.values() if task.spout is not None]
        least = min(watermarks, default=NO_WATERMARK)
        return None if least == NO_WATERMARK else datetime_of(least)

    @property
    def acked(self) -> list[object]:
        """The acked message ids, in order."""
        return [verdict.message_id for verdict in self.verdicts if verdict.failure is None]

    @property
    def failed(self) -> list[tuple[object, Failure]]:
        """The failed message ids with their failures, in order. A row that comes again may be in it several times."""
        return [(verdict.message_id, verdict.failure) for verdict in self.verdicts if verdict.failure is not None]

    @property
    def open(self) -> list[int]:
        """The message ids that are emitted and have no verdict."""
        return [message_id for task in self._tasks.values() for message_id in task.open]

    def _add(self, step: Step) -> None:
        if self._is_closed:
            raise UsageError("these events are closed", hint="Give all steps before close().")
        last = len(self._steps) - 1
        self._behind.append(0 if last < 0 else self._behind[last] if isinstance(self._steps[last], FedRow) else last + 1)
        self._steps.append(step)
        self._wake()

    def _wake(self) -> None:
        for task in self._tasks.values():
            if task.spout is not None:
                task.spout.context.wake()

    # Called by its spouts.

    def attach_spout(self, spout: "EventsSpout") -> TaskSteps:
        """Return what the task has played. Rows that were open at the death of an instance come again, or are lost."""
        for index in range(spout.context.tasks):
            self._tasks.setdefault(index, TaskSteps())
        task = self._tasks[spout.context.task_index]
        task.spout = spout
        left = [*task.open.values()]
        task.open.clear()
        if not spout.is_exact:
            task.again.extend(row for row in left if self.may_come_again(task, row))
        return task

    def may_come_again(self, task: TaskSteps, row: FedRow) -> bool:
        """Tell whether a row that has failed is emitted again."""
        return task.tries[row.message_id] <= self.max_retries

    def next_step(self, task: TaskSteps) -> Step | None:
        """Return the next step of a task. None: it waits for the test, or for other tasks. Raises SpoutExhausted behind the last one."""
        if task.next == len(self._steps):
            if self._is_closed:
                raise SpoutExhausted
            return None
        if min(each.next for each in self._tasks.values()) < self._behind[task.next]:
            return None
        return self._steps[task.next]

    def note_played(self, task: TaskSteps) -> None:
        """Note that a task has played its next step."""
        is_row = isinstance(self._steps[task.next], FedRow)
        task.next += 1
        task.most = max(task.most, task.next)
        self._waiters.wake_all()
        if not is_row:
            self._wake()

    def go_to(self, task: TaskSteps, position: int) -> None:
        """Let a task go on behind a position. One of another source, or of another store, is that of its first step."""
        if not 0 <= position - task.first <= task.most:
            task.first, task.most = position, 0
        task.next = position - task.first
        task.due, task.watermark, task.is_idle = None, NO_WATERMARK, False
        task.open.clear()
        for step in self._steps[: task.next]:
            if isinstance(step, Move):
                task.watermark = task.watermark if step.watermark is None else step.watermark
                task.is_idle = step.watermark is None
            elif isinstance(step, FedRow):
                task.is_idle = False

    @property
    def gives_watermarks(self) -> bool:
        """True if the test says what the watermark is."""
        return self._given is not None


class EventsSpout(Spout, SpoutPortUser):
    """Instance of a task that plays the steps of `Events`."""

    needs_acks: ClassVar[bool] = True

    def __init__(self, events: Events) -> None:
        self.events = events
        self.output_fields = dict(events.output_fields)
        self.event_time = events.event_time
        self.is_exact = False
        """True in a topology with state."""
        self.task = TaskSteps()

    def let_engine_track_rows(self) -> None:
        """Retry nothing, because a failed row is repeated with its interval (EO-6)."""
        self.is_exact = True

    def open(self) -> None:
        """Go on where the instance before has stopped."""
        self.task = self.events.attach_spout(self)

    def seek(self, position: int | None) -> None:
        """Go back behind a committed position. Without state there is none."""
        if self.is_exact:
            self.events.go_to(self.task, position or 0)

    def position(self) -> int:
        """Return the number of steps that the task has played."""
        return self.task.first + self.task.next

    def watermark(self) -> int | None:
        """Return the watermark of the last step that says one."""
        return self.task.watermark if self.events.gives_watermarks else None

    def partitions(self) -> tuple[()] | None:
        """Return no partitions while the source is idle."""
        return () if self.task.is_idle else None

    def caught_up(self, partition: object = None) -> bool:
        """Return False, because only the test makes the source idle."""
        return False

    @property
    def sent(self) -> int:
        """The watermark that has left, without the end."""
        times = self.port.take_times()
        return NO_WATERMARK if times is None else times[0]

    def next_tuple(self) -> None:
        """Emit a failed row again, or play steps until one of them emits a row or waits."""
        if self.task.again:
            self._emit(self.task.again.popleft())
            return
        while (step := self.events.next_step(self.task)) is not None:
            if isinstance(step, FedRow):
                self.events.note_played(self.task)
                if (step.message_id - 1) % self.context.tasks == self.context.task_index:
                    self._wake_up()
                    self._emit(step)
                    return
            elif self._is_over(step):
                self.events.note_played(self.task)
            else:
                return

    def _emit(self, row: FedRow) -> None:
        self.task.open[row.message_id] = row
        self.task.tries[row.message_id] += 1
        before = self.port.emitted
        self.collector.emit(row.values, row.message_id)
        if self.port.emitted == before:  # the engine leaves it out, because it was given up
            self.task.open.pop(row.message_id, None)

    def _wake_up(self) -> None:
        if self.task.is_idle:
            self.task.is_idle = False
            self.port.send_watermark()

    def _is_over(self, step: Move | Pause) -> bool:
        """Play a step, or go on with it. Return True when it is over."""
        if isinstance(step, Pause):
            return self._has_passed(step.secs)
        if step.watermark is None:
            self.task.is_idle = True
        else:
            self.task.is_idle = False
            self.task.watermark = step.watermark
        has_left, now = self.port.send_watermark(), self.context.clock.now()
        if has_left is None:
            what = "idle" if step.watermark is None else "watermark"
            hint = "Write Events(..., event_time=EventTime('at')), or set event_time of the source."
            raise FatalError(f"spout {self.context.component_id!r}: {what}() was called, and its rows have no event time", hint=hint)
        if not has_left and self.task.due is None:
            self.task.due = now
        if not has_left and (step.wait or now == self.task.due):  # rows of the same instant would hold the watermark, too
            return False
        self.task.due = None
        return True

    def _has_passed(self, secs: float) -> bool:
        now = self.context.clock.now()
        if self.task.due is None:
            self.task.due = now + secs
            asyncio.get_running_loop().call_later(secs, self.context.wake)
        if now < self.task.due:
            return False
        self.task.due = None
        return True

    def ack(self, message_id: int) -> None:
        """Note an ack."""
        self._note(message_id, None)

    def fail(self, message_id: int) -> None:
        """Note a failure, and emit the row again if it has a retry left."""
        row = self.task.open.get(message_id)
        self._note(message_id, self.context.failure or Failure(FAILED))
        if row is not None and self.events.may_come_again(self.task, row):
            self.task.again.append(row)

    def sends_again(self, message_id: int) -> bool:
        """Tell whether a failed row is emitted again."""
        return any(row.message_id == message_id for row in self.task.again)

    def note_failed_row(self, message_id: int, failure: Failure) -> None:
        """Note a failure. The engine repeats the row."""
        self._note(message_id, failure)

    def _note(self, message_id: int, failure: Failure | None) -> None:
        self.task.open.pop(message_id, None)
        self.events.verdicts.append(Verdict(message_id, failure, self.context.task_id, self.context.clock.now()))
