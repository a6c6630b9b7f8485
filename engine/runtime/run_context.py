"""The parts of a run that all its executors share."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain

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
    generator_errors: list[ComponentError] = field(default_factory=list)
    """Errors of generator spouts that have raised. The run drains, and ends with the first one (ACK-13)."""
    inlets: dict[str, InletHandle] = field(default_factory=dict)
    """Sender's handle of each Inlet component. All tasks and instances of the component share one."""

    def reporter_of(self, info: TaskInfo) -> ErrorReporter:
        """Create the error reporter of a task."""
        full = self.config.full_traceback
        return ErrorReporter(info.component_id, info.task_id, self.loop, self.publish, full_traceback=full)

    def sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """Return the tasks that send to a component, ascending. Includes tasks of the engine's own components."""
        return self._tasks_of({subscription.source for subscription in spec.subscriptions})

    def user_sources_of(self, spec: ComponentSpec) -> tuple[int, ...]:
        """Return the tasks of user components that send to a component, ascending."""
        return self._tasks_of({subscription.source for subscription in spec.subscriptions if not is_reserved(subscription.source)})

    def targets_of(self, component_id: str, stream: str) -> tuple[int, ...]:
        """Return the tasks that subscribe to a stream, ascending."""
        return self._tasks_of({spec.component_id for spec, _ in self.topology.subscribers(component_id, stream)})

    def _tasks_of(self, component_ids: Collection[str]) -> tuple[int, ...]:
        """Return the tasks of components, ascending. Each component has successive ids, so nothing is sorted task by task."""
        found = sorted(self.task_ids[component_id] for component_id in component_ids)
        return found[0] if len(found) == 1 else tuple(chain.from_iterable(found))
