"""Levels of a job: the stage of Spark of each component, and the partition of each task. Plain computation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.api import LocalOrShuffle, NoneGrouping, Shuffle
from engine.topology import ComponentSpec

_NEEDS_NO_SHUFFLE: Final = (Shuffle, NoneGrouping, LocalOrShuffle)


@dataclass(frozen=True, slots=True)
class Group:
    """Components of equal parallelism that run together. Task i of each component runs in the same partition."""

    level: int
    first_partition: int
    components: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The levels of a job, from the source on. `Level n` is one stage of Spark."""

    groups: tuple[Group, ...]
    task_ids: Mapping[str, tuple[int, ...]]
    """Of all components, by id."""
    places: Mapping[int, tuple[int, int]] = field(init=False)
    """Level and partition of each task of the job, by task id."""

    def __post_init__(self) -> None:
        places = {
            task: (group.level, group.first_partition + index)
            for group in self.groups
            for component in group.components
            for index, task in enumerate(self.task_ids[component])
        }
        object.__setattr__(self, "places", places)

    @property
    def partitions(self) -> tuple[int, ...]:
        """Number of partitions of each level."""
        depth = 1 + max(group.level for group in self.groups)
        return tuple(sum(group.partitions for group in self.groups if group.level == level) for level in range(depth))

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """Components of each level."""
        levels = range(len(self.partitions))
        return tuple(tuple(name for group in self.groups if group.level == level for name in group.components) for level in levels)

    @property
    def apart(self) -> frozenset[str]:
        """Components that get all their tuples from tasks of the same partition."""
        return frozenset(component for group in self.groups for component in group.components[1:])

    def tasks_at(self, level: int, partition: int) -> Iterator[int]:
        """Yield the ids of the tasks that run in a partition."""
        return (task for task, place in self.places.items() if place == (level, partition))


def plan_job(components: Mapping[str, ComponentSpec], task_ids: Mapping[str, tuple[int, ...]], *, source_is_apart: bool) -> JobPlan:
    """Return the levels of these components, which are the source and the bolts of the processing phase.

    A bolt joins the group of its sources if no shuffle is needed between them. Otherwise it begins a level below its deepest source.
    source_is_apart: the emitters run in the engine's process, so no bolt joins them.
    """
    group_of: dict[str, _Open] = {}
    waiting = dict(components)
    while waiting:
        ready = [spec for spec in waiting.values() if all(each.source not in waiting for each in spec.subscriptions)]
        for spec in ready:
            del waiting[spec.component_id]
            group_of[spec.component_id] = _join(spec, group_of, source_is_apart=source_is_apart)
    groups: list[Group] = []
    filled: dict[int, int] = {}
    for opened in dict.fromkeys(group_of.values()):
        first = filled.get(opened.level, 0)
        groups.append(Group(opened.level, first, tuple(opened.components), opened.partitions))
        filled[opened.level] = first + opened.partitions
    return JobPlan(tuple(groups), task_ids)


@dataclass(eq=False, slots=True)
class _Open:
    """A group that may still get components."""

    level: int
    partitions: int
    components: list[str]


def _join(spec: ComponentSpec, group_of: Mapping[str, _Open], *, source_is_apart: bool) -> _Open:
    sources = {group_of[each.source] for each in spec.subscriptions}
    if len(sources) == 1 and not (source_is_apart and next(iter(sources)).level == 0):
        [group] = sources
        if group.partitions == spec.parallelism and all(isinstance(each.grouping, _NEEDS_NO_SHUFFLE) for each in spec.subscriptions):
            group.components.append(spec.component_id)
            return group
    return _Open(1 + max((group.level for group in sources), default=-1), spec.parallelism, [spec.component_id])
