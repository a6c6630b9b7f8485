"""The watermark of a bolt task, from the marks of the tasks that feed it (ET-1, ET-3)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

NO_WATERMARK: Final = -(2**63)
"""Watermark of a task that has had no mark."""
END_OF_TIME: Final = 2**63 - 1
"""Watermark of a source that is exhausted and settled. All windows close."""


class Mark(NamedTuple):
    """What a task tells all tasks behind it."""

    watermark: int
    """Microseconds since 1970."""
    is_active: bool
    """False: the task is idle, so nobody waits for its watermark."""


class TaskWatermark:
    """The watermark of one task: the least of its active sources.

    A source that is at its end holds nobody back. If no other source is active, the greatest watermark of the idle ones counts, because
    each of them is read to its end.

    >>> task = TaskWatermark([1, 2])
    >>> task.note(1, Mark(30, True)), task.note(2, Mark(20, True))
    (None, Mark(watermark=20, is_active=True))
    >>> task.note(2, Mark(20, False))
    Mark(watermark=30, is_active=True)
    """

    def __init__(self, sources: Iterable[int]) -> None:
        """sources: ids of the tasks that send marks to this one."""
        self.marks: Final = dict.fromkeys(sources, Mark(NO_WATERMARK, True))
        self.mark = Mark(NO_WATERMARK, True)

    def note(self, source_task: int, mark: Mark) -> Mark | None:
        """Note the mark of a source. Return the mark of this task if it has changed. The watermark never falls."""
        before = self.marks[source_task].watermark
        self.marks[source_task] = Mark(max(mark.watermark, before), mark.is_active)
        now = self._least()
        if now == self.mark:
            return None
        self.mark = now
        return now

    def _least(self) -> Mark:
        going_on = [mark for mark in self.marks.values() if mark.watermark != END_OF_TIME]
        if not going_on:
            return Mark(END_OF_TIME, True)
        active = [mark.watermark for mark in going_on if mark.is_active]
        least = min(active) if active else max(mark.watermark for mark in going_on)
        return Mark(max(least, self.mark.watermark), bool(active))

    def go_back(self) -> None:
        """Forget all marks, because the run goes back. The sources send those of the last commit again (ET-4)."""
        self.marks.update(dict.fromkeys(self.marks, Mark(NO_WATERMARK, True)))
        self.mark = Mark(NO_WATERMARK, True)

    def holders(self) -> list[int]:
        """Return the sources that hold this task back."""
        return holders_of(self.marks)


def holders_of(marks: Mapping[int, Mark]) -> list[int]:
    """Return the active sources with the least watermark. If all are idle: those with the greatest one. Empty at the end of time."""
    going_on = {task: mark for task, mark in marks.items() if mark.watermark != END_OF_TIME}
    active = {task: mark.watermark for task, mark in going_on.items() if mark.is_active}
    counts = min(active.values()) if active else max((mark.watermark for mark in going_on.values()), default=END_OF_TIME)
    among = active or {task: mark.watermark for task, mark in going_on.items()}
    return [task for task, watermark in among.items() if watermark == counts]
