"""Whose state it is: a task of a component, and which slots its keys fall into (CP-9)."""

from dataclasses import dataclass

from engine.kernel import key_group


@dataclass(frozen=True, slots=True)
class StatePlace:
    """A stateful task. `keyed`: fields groupings alone feed its component, and a slot is a key group; else the task's index is its slot."""

    component_id: str
    task_index: int
    tasks: int
    keyed: bool
    key_groups: int

    @property
    def slots(self) -> range:
        """The slots of the task: the key groups g with g * tasks // key_groups == task_index, or its index alone.

        >>> [StatePlace("count", index, 3, True, 128).slots for index in range(3)]
        [range(0, 43), range(43, 86), range(86, 128)]
        """
        if not self.keyed:
            return range(self.task_index, self.task_index + 1)
        return range(self._first_group(self.task_index), self._first_group(self.task_index + 1))

    def _first_group(self, task_index: int) -> int:
        return -(-task_index * self.key_groups // self.tasks)

    def slot_of(self, grouped_by: object) -> int:
        """Return the slot of what a key is grouped by; a 1-tuple counts as its item, as in a fields grouping. TypeError for no key."""
        return key_group(grouped_by, self.key_groups) if self.keyed else self.task_index

    def __str__(self) -> str:
        return f"{self.component_id!r} (task index {self.task_index})"
