"""`StoredTimes`: the watermarks and the greatest times of exact sources, which belong to their positions (ET-4)."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, cast

from engine.checkpoint.stored_positions import CODEC, SourceLayout, times_name


class SourceTime(NamedTuple):
    """The watermark of a task, and the greatest time of each of its partitions by their texts, in microseconds since 1970."""

    watermark: int
    greatest: dict[str, int]


class StoredTimes:
    """The times of all exact sources of a run. Those of a PREPARE count when it is committed."""

    def __init__(self, layouts: Collection[SourceLayout]) -> None:
        self._layouts: Final = {layout.component_id: layout for layout in layouts}
        self._committed: dict[str, dict[int, SourceTime]] = {}
        """By component and task index."""
        self._taken: dict[str, dict[int, SourceTime]] = {}

    def take_up(self, entries: Mapping[str, object]) -> None:
        """Read the times of the last commit."""
        for component_id in self._layouts:
            encoded = entries.get(times_name(component_id))
            if isinstance(encoded, bytes):
                tasks = cast(Any, CODEC.decode(encoded))
                self._committed[component_id] = {index: SourceTime(time, dict(greatest)) for index, time, greatest in tasks}

    def begin_prepare(self) -> None:
        """Forget the times of an earlier PREPARE."""
        self._taken = {}

    def note_taken(self, component_id: str, task_index: int, times: SourceTime | None) -> None:
        """Note the times of a task at the barrier. None: its rows have none."""
        if times is not None:
            self._taken.setdefault(component_id, {})[task_index] = times

    def entries(self) -> dict[str, object]:
        """Return the entries of the ledger with the times of the PREPARE."""
        entries: dict[str, object] = {}
        for component_id, tasks in self._taken.items():
            stored = [[index, times.watermark, list(times.greatest.items())] for index, times in sorted(tasks.items())]
            entries[times_name(component_id)] = bytes(CODEC.encode(stored))
        return entries

    def note_committed(self) -> None:
        """The times of the PREPARE are those of the last commit now."""
        self._committed |= self._taken
        self._taken = {}

    def of_task(self, component_id: str, task_index: int) -> SourceTime | None:
        """Return the committed times of a task.

        Any task of a partitioned spout may get any partition, so it gets the times of all of them.
        """
        tasks = self._committed.get(component_id, {})
        if not self._layouts[component_id].partitioned:
            return tasks.get(task_index)
        if not tasks:
            return None
        greatest = {partition: time for each in tasks.values() for partition, time in each.greatest.items()}
        return SourceTime(min(each.watermark for each in tasks.values()), greatest)
