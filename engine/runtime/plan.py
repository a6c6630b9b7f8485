"""Which tasks a run has: a pure function of the topology and the settings, so ids are the same through restarts."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.config import Config
from engine.names import ACKER_COMPONENT
from engine.runtime.surroundings import TaskPlace
from engine.topology import Topology


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a run, by component, in the order of declaration; ackers last."""

    places: Mapping[str, tuple[TaskPlace, ...]]

    @property
    def task_ids(self) -> Mapping[str, tuple[int, ...]]:
        """The task ids of each component, ascending."""
        return {component_id: tuple(place.task_id for place in places) for component_id, places in self.places.items()}

    @property
    def component_of(self) -> Mapping[int, str]:
        """The component of each task id."""
        return {place.task_id: place.component_id for places in self.places.values() for place in places}


def plan_tasks(topology: Topology, config: Config) -> Plan:
    """Number the tasks of every component, then the ackers, from 1 on."""
    sizes = {spec.component_id: spec.parallelism for spec in topology.components.values()}
    sizes[ACKER_COMPONENT] = config.acker_executors
    places: dict[str, tuple[TaskPlace, ...]] = {}
    first = 1
    for component_id, tasks in sizes.items():
        places[component_id] = tuple(TaskPlace(component_id, first + index, index) for index in range(tasks))
        first += tasks
    return Plan(places)
