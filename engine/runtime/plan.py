"""Numbers the tasks of a run. Depends on topology and settings only, so task ids stay the same through restarts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from engine.config import Config
from engine.names import ACKER_COMPONENT
from engine.topology import Topology


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """Identity of one task: its component, its id in the run, and its index among the component's tasks."""

    component_id: str
    task_id: int
    task_index: int


@dataclass(frozen=True)
class Plan:
    """Tasks of a run by component, in the order of declaration. Ackers come last."""

    tasks: Mapping[str, tuple[TaskInfo, ...]]

    @cached_property
    def task_ids(self) -> Mapping[str, tuple[int, ...]]:
        """Task ids of each component, ascending."""
        return {component_id: tuple(info.task_id for info in tasks) for component_id, tasks in self.tasks.items()}

    @cached_property
    def component_of(self) -> Mapping[int, str]:
        """Component of each task id."""
        return {info.task_id: info.component_id for tasks in self.tasks.values() for info in tasks}


def plan_tasks(topology: Topology, config: Config) -> Plan:
    """Number the tasks of all components, then the ackers, from 1."""
    sizes = {spec.component_id: spec.parallelism for spec in topology.components.values()}
    sizes[ACKER_COMPONENT] = config.acker_executors
    tasks: dict[str, tuple[TaskInfo, ...]] = {}
    first = 1
    for component_id, size in sizes.items():
        tasks[component_id] = tuple(TaskInfo(component_id, first + index, index) for index in range(size))
        first += size
    return Plan(tasks)
