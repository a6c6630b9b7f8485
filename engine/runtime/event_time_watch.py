"""Watches the watermarks of a run: what they are, since when they stand, and who holds them (ET-6).

It looks once a second and at each snapshot, and takes nothing from the path of the rows.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from engine.event_time import END_OF_TIME
from engine.event_time.holder import Holders, TaskView
from engine.event_time.watermark import holders_of
from engine.log import EngineLogger
from engine.runtime.assembly import Assembly
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.event_time_entry import ComponentEventTime, EventTimeEntry, KeepsWindows, TaskEventTime, of_component, shown_watermark
from engine.runtime.run_context import RunContext
from engine.runtime.spout_executor import SpoutExecutor

LOOK_SECS: Final = 1.0
WARN_SECS: Final = 60.0
"""A watermark that has stood for this time, although rows come, is logged. So long is also the pause until the next line."""
LOGGER: Final = EngineLogger("engine.runtime")


class EventTimeWatch:
    """The watermarks of one run."""

    def __init__(self, assembly: Assembly, run_context: RunContext, timed: Collection[str]) -> None:
        """timed: the components with watermarks."""
        self._context = run_context
        self._tasks: Final = {task.info.task_id: task for task in assembly.tasks if task.info.component_id in timed}
        self._bolts: Final = assembly.bolts
        self._sources: Final = [task for task in self._tasks.values() if isinstance(task, SpoutExecutor)]
        self._by_component: Final[dict[str, list[int]]] = {}
        for task_id, task in self._tasks.items():
            self._by_component.setdefault(task.info.component_id, []).append(task_id)
        self._rose: Final[dict[str, tuple[int, float, int]]] = {}
        """By component: the watermark of its slowest task, when it rose to it, and the rows that the sources had emitted then."""
        self._owing: str | None = None
        """The bolt task with the oldest input that is not settled, at the last look."""
        self._warned_at = run_context.clock.now()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Look once a second."""
        self._timer = self._context.loop.call_later(LOOK_SECS, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self.begin()
        now, rows = self._context.clock.now(), self._note_risen()
        if now - self._warned_at < WARN_SECS:
            return
        standing = [
            component_id
            for component_id, (watermark, since, emitted) in self._rose.items()
            if watermark != END_OF_TIME and now - since >= WARN_SECS and rows > emitted
        ]
        if standing:
            self._warn([each for each in self.entry().value if each.component_id in standing and not each.is_idle])

    def _warn(self, standing: list[ComponentEventTime]) -> None:
        if not standing:
            return
        self._warned_at = self._context.clock.now()
        first = max(standing, key=lambda each: each.stood_secs)
        others = f" (and those of {len(standing) - 1} more components)" if len(standing) > 1 else ""
        where = "has not begun" if first.time is None else f"stands at {first.time}"
        LOGGER.warning(
            "%r: the watermark of %r%s %s for %.0f s, although rows come. Who holds it: %s",
            *(self._context.topology.name, first.component_id, others, where, first.stood_secs, first.holder),
        )

    def _note_risen(self) -> int:
        """Note which watermarks have risen since the last look. Return the number of rows that the sources have emitted."""
        now, rows = self._context.clock.now(), sum(source.core.emitted for source in self._sources)
        for component_id, task_ids in self._by_component.items():
            watermark = self._tasks[self._slowest(task_ids)].sent_mark.watermark
            before = self._rose.get(component_id)
            if before is None or watermark != before[0]:
                self._rose[component_id] = (watermark, now, rows)
        return rows

    def _slowest(self, task_ids: Sequence[int]) -> int:
        """Return the task that holds its component: the active one with the least watermark."""
        slowest = holders_of({task_id: self._tasks[task_id].sent_mark for task_id in task_ids})
        return slowest[0] if slowest else task_ids[0]

    def entry(self) -> EventTimeEntry:
        """Return the watermarks of now."""
        self._note_risen()
        clock, holders = self._context.clock, Holders(self._view)
        now, wall_us = clock.now(), round(clock.wall() * 1_000_000)
        self._owing = self._longest_owed(now)
        shown = []
        for component_id, task_ids in self._by_component.items():
            slowest, since = self._slowest(task_ids), self._rose[component_id][1]
            tasks = [self._task(task_id) for task_id in task_ids]
            mark, holder = self._tasks[slowest].sent_mark, holders.holder(slowest)
            shown.append(of_component(component_id, tasks, mark, stood_secs=now - since, holder=holder, wall_us=wall_us))
        return EventTimeEntry(tuple(shown))

    def _task(self, task_id: int) -> TaskEventTime:
        task = self._tasks[task_id]
        held = len(task.marks.clock.held) if isinstance(task, SpoutExecutor) and task.marks is not None else 0
        bolt = task.component if isinstance(task, BoltExecutor) else None
        opened, late = (bolt.open_windows, bolt.late_rows) if isinstance(bolt, KeepsWindows) else (None, None)
        return TaskEventTime(task_id, shown_watermark(task.sent_mark), not task.sent_mark.is_active, held, opened, late)

    def _view(self, task_id: int) -> TaskView:
        task = self._tasks[task_id]
        name, now = f"{task.info.component_id}[{task_id}]", self._context.clock.now()
        if isinstance(task, SpoutExecutor):
            assert task.marks is not None
            return TaskView(name, task.sent_mark, task.marks.why(now, self._owing))
        return task.mark_view(name, _oldest_secs(task, now))

    def _longest_owed(self, now: float) -> str | None:
        """Return the bolt task with the oldest input that is not settled."""
        ages = {bolt: age for bolt in self._bolts if (age := _oldest_secs(bolt, now)) is not None}
        longest = max(ages, key=lambda bolt: ages[bolt], default=None)
        return None if longest is None else f"{longest.info.component_id}[{longest.info.task_id}], for {ages[longest]:.0f} s"


def _oldest_secs(bolt: BoltExecutor, now: float) -> float | None:
    oldest = bolt.core.oldest_taken(1)
    return bolt.core.taken_age_ms(oldest[0], now) / 1000 if oldest else None
