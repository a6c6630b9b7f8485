"""What every executor of a run shares, and the place of one task in it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.api import InletHandle
from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError
from engine.kernel import BoltBacklog
from engine.metrics import UserMetrics
from engine.names import is_reserved
from engine.randomness import RunRandom
from engine.runtime.error_report import ErrorReport, ErrorReporter
from engine.topology import ComponentSpec, Topology
from engine.topology.task_port import RunPort


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """One task: its component, its id (unique in the run, the same through restarts) and its index among its component's tasks."""

    component_id: str
    task_id: int
    task_index: int


@dataclass(frozen=True, slots=True)
class RunSurroundings:
    """The run, as its executors see it."""

    topology: Topology
    config: Config
    clock: Clock
    random: RunRandom
    loop: asyncio.AbstractEventLoop
    backlog: BoltBacklog
    task_ids: Mapping[str, tuple[int, ...]]
    """The task ids of each component, ascending, ackers included."""
    metrics: UserMetrics
    port: RunPort
    publish: Callable[[ErrorReport], None]
    """Tells the run's listeners of an error."""
    give_up: Callable[[ComponentError], None]
    """Ends the run: a component failed for good."""
    came_to_rest: Callable[[], None]
    """Has the run look whether it is complete; called whenever an executor parks."""
    is_abandoned: Callable[[], bool] = lambda: False
    """Tells whether the host's loop cancels all of its tasks: the run was never closed."""
    inlets: dict[str, InletHandle] = field(default_factory=dict)
    """The service's end of each component that is an Inlet: one for all of its tasks and their instances."""

    def reporter_of(self, place: TaskPlace) -> ErrorReporter:
        """Return what reports the errors of a task."""
        full = self.config.full_traceback
        return ErrorReporter(place.component_id, place.task_id, self.loop, self.publish, full_traceback=full)

    def sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """The tasks that a component's inputs come from, ascending; the engine's own among them."""
        return tuple(sorted({task for subscription in spec.subscriptions for task in self.task_ids[subscription.source]}))

    def user_sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """The same without the engine's own tasks."""
        own = {task for component_id, tasks in self.task_ids.items() if is_reserved(component_id) for task in tasks}
        return tuple(task for task in self.sources_of(spec) if task not in own)

    def targets_of(self, component_id: str, stream: str) -> tuple[int, ...]:
        """The tasks that subscribe to a stream, ascending."""
        subscribers = {spec.component_id for spec, _ in self.topology.subscribers(component_id, stream)}
        return tuple(sorted(task for subscriber in subscribers for task in self.task_ids[subscriber]))
