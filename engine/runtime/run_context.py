"""The parts of a run that all its executors share."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.api import Calls, InletHandle
from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError
from engine.kernel import BoltBacklog
from engine.metrics import UserMetrics
from engine.names import is_reserved
from engine.randomness import RunRandom
from engine.runtime.error_report import ErrorReport, ErrorReporter
from engine.runtime.latest_failures import LatestFailures
from engine.runtime.plan import TaskInfo
from engine.topology import ComponentSpec, Topology
from engine.topology.task_port import RunPort


@dataclass(frozen=True, slots=True)
class RunContext:
    """Settings, clock, randomness, ids and callbacks of a run, for its executors."""

    topology: Topology
    config: Config
    clock: Clock
    random: RunRandom
    loop: asyncio.AbstractEventLoop
    backlog: BoltBacklog
    task_ids: Mapping[str, tuple[int, ...]]
    """Task ids of each component, ascending, ackers included."""
    metrics: UserMetrics
    port: RunPort
    calls: Calls
    """The calls that wait at the inlets."""
    publish: Callable[[ErrorReport], None]
    """Sends an error report to the listeners of the run."""
    end_run: Callable[[ComponentError], None]
    """Ends the run with this error, because a component cannot continue."""
    note_idle: Callable[[], None]
    """Makes the run check whether it is complete. Every executor calls it before it waits for work."""
    failures: LatestFailures
    """The latest failed trees, for snapshots."""
    is_abandoned: Callable[[], bool] = lambda: False
    """Returns True if the event loop ends and cancels all its asyncio tasks, although the run was not closed."""
    inlets: dict[str, InletHandle] = field(default_factory=dict)
    """Sender's handle of each Inlet component. All tasks and instances of the component share one."""

    def reporter_of(self, info: TaskInfo) -> ErrorReporter:
        """Create the error reporter of a task."""
        full = self.config.full_traceback
        return ErrorReporter(info.component_id, info.task_id, self.loop, self.publish, full_traceback=full)

    def sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """Return the tasks that send to a component, ascending. Includes tasks of the engine's own components."""
        return tuple(sorted({task for subscription in spec.subscriptions for task in self.task_ids[subscription.source]}))

    def user_sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """Return the tasks of user components that send to a component, ascending."""
        own = {task for component_id, tasks in self.task_ids.items() if is_reserved(component_id) for task in tasks}
        return tuple(task for task in self.sources_of(spec) if task not in own)

    def targets_of(self, component_id: str, stream: str) -> tuple[int, ...]:
        """Return the tasks that subscribe to a stream, ascending."""
        subscribers = {spec.component_id for spec, _ in self.topology.subscribers(component_id, stream)}
        return tuple(sorted(task for subscriber in subscribers for task in self.task_ids[subscriber]))
