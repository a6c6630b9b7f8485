"""The watermark of a bolt task, from the marks of the tasks that feed it (ET-1, ET-3)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
    before_end: int = NO_WATERMARK
    """With END_OF_TIME: the watermark of before."""

    @property
    def if_idle(self) -> int:
        """The watermark of the task if it were idle, which the end is not."""
        return self.before_end if self.watermark == END_OF_TIME else self.watermark


class TaskWatermark:
    """The watermark of one task: the least of its active senders.

    A sender that is at its end holds nobody back. If no other sender is active, the greatest watermark of the idle ones counts, because
    each of them is read to its end. Those at their end count among them, with their watermark of before, until all are at their end.

    >>> task = TaskWatermark([1, 2])
    >>> for sender, mark in [(1, Mark(30, True)), (2, Mark(20, True)), (2, Mark(20, False)), (1, Mark(END_OF_TIME, True, before_end=40))]:
    ...     _ = task.note(sender, mark)
    ...     print(task.mark.watermark if task.mark.watermark != NO_WATERMARK else None, task.mark.is_active)
    None True
    20 True
    30 True
    40 False

    Senders that stand behind the same sources hear of them at different times. If one of them says that a source goes on, what another one
    said of it before is out of date. So its watermark counts until it has heard of it, too: it may have results to emit before that.

    >>> task = TaskWatermark([1, 2], {1: frozenset([7]), 2: frozenset([7])})
    >>> for sender, mark in [(1, Mark(10, False)), (2, Mark(10, False)), (1, Mark(30, True)), (2, Mark(30, True))]:
    ...     _ = task.note(sender, mark)
    ...     print(task.mark.watermark if task.mark.watermark != NO_WATERMARK else None, task.mark.is_active)
    None True
    10 False
    10 True
    30 True
    """

    def __init__(self, senders: Iterable[int], sources: Mapping[int, frozenset[int]] = MappingProxyType({})) -> None:
        """senders: ids of the tasks that send marks to this one. sources: those behind each of them, which a source need not have."""
        self.marks: Final = dict.fromkeys(senders, Mark(NO_WATERMARK, True))
        self.mark = Mark(NO_WATERMARK, True)
        groups: dict[frozenset[int], list[int]] = {}
        for task in self.marks:
            groups.setdefault(sources.get(task, frozenset([task])), []).append(task)
        self._groups: Final = groups
        """Senders by the sources behind them."""
        self._within: Final = {own: [each for each in groups if each < own] for own in groups}
        """The groups that have some of the sources of a group, and no others."""

    def note(self, sender: int, mark: Mark) -> Mark | None:
        """Note the mark of a sender. Return the mark of this task if it has changed. The watermark never falls."""
        before = self.marks[sender]
        self.marks[sender] = Mark(max(mark.watermark, before.watermark), mark.is_active, max(mark.before_end, before.before_end))
        now = self._least()
        if now == self.mark:
            return None
        self.mark = now
        return now

    def _least(self) -> Mark:
        least: dict[frozenset[int], int] = {}
        ended: dict[frozenset[int], int] = {}
        active = set[frozenset[int]]()
        for group, tasks in self._groups.items():
            marks = [self.marks[task] for task in tasks]
            going_on = [mark for mark in marks if mark.watermark != END_OF_TIME]
            if not going_on:
                ended[group] = min(mark.if_idle for mark in marks)
                continue
            least[group] = min(mark.watermark for mark in going_on)
            if any(mark.is_active for mark in going_on) or len(going_on) < len(marks):
                active.add(group)
        if not least:
            return Mark(END_OF_TIME, True, max([*ended.values(), self.mark.if_idle]))
        if active:
            watermark = min(least[group] for group in least if group in active or not active.isdisjoint(self._within[group]))
        else:
            read = least | ended
            watermark = max(min(read[each] for each in read if each >= group) for group in read)
        return Mark(max(watermark, self.mark.watermark), bool(active))

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
