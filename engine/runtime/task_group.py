"""`TaskGroup`: a part of a run, with some of its bolt tasks. The other tasks of the topology run in other processes."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from engine.api import Calls
from engine.api import Tuple as AnyTuple
from engine.api.fields import Values
from engine.clock import Clock
from engine.config import Config
from engine.errors import ComponentError, Failure
from engine.kernel import BoltBacklog, Mailbox, SignalRing, Source, Tuple
from engine.metrics import UserMetrics
from engine.names import DEFAULT_STREAM
from engine.randomness import RunRandom
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.error_report import ErrorReport, ErrorReporter
from engine.runtime.latest_failures import LatestFailures
from engine.runtime.plan import TaskInfo, plan_tasks
from engine.runtime.run_context import RunContext
from engine.runtime.run_port import LiveRunPort
from engine.runtime.task_ports import ExecutorBoltPort
from engine.runtime.wiring import Wiring
from engine.topology import Topology


class GroupListener(Protocol):
    """Hears of the events in a TaskGroup. The methods are called on the loop's thread, and must not block."""

    def on_progress(self) -> None:
        """A task waits for work, or a mailbox of another process has tuples."""

    def on_control(self, task_id: int, values: Values, stream: str) -> None:
        """A task has sent a control tuple."""

    def on_reply(self, task_id: int, answer: Any) -> None:
        """A task has answered a control tuple."""

    def on_settled(self, task_id: int, tup: AnyTuple, failure: Failure | None) -> None:
        """A task has acked a control tuple, or failed it."""

    def on_death(self, task_id: int, failure: Failure) -> None:
        """The instance of a task has died, or has been replaced."""

    def on_report(self, report: ErrorReport) -> None:
        """A task has reported an error."""

    def on_end(self, error: ComponentError) -> None:
        """A task cannot continue, so the run must end."""


class TaskGroup:
    """Actors of the `local` tasks of a topology. A mailbox of the group holds the tuples for each other task.

    The actors, their wiring and their task ids are those of a run of the whole topology. No tuple is tracked, so the group has no ackers.
    """

    def __init__(
        self, topology: Topology, config: Config, local: Collection[int], *, seed: int, apart: Collection[str], listener: GroupListener
    ) -> None:
        """local: task ids. apart: components with no tuples between their tasks here and elsewhere, because no shuffle separates them.

        seed: of all random choices. Groups of one batch must have the same seed.
        """
        loop = asyncio.get_running_loop()
        plan, clock = plan_tasks(topology, config), Clock.of(loop)
        self.topology = topology
        self.component_of: Mapping[int, str] = plan.component_of
        self.metrics = UserMetrics()
        self._listener = listener
        self._is_abandoned = False
        self.run_context = RunContext(
            topology=topology,
            config=config,
            clock=clock,
            random=RunRandom(seed),
            loop=loop,
            backlog=BoltBacklog(),
            task_ids=plan.task_ids,
            metrics=self.metrics,
            port=LiveRunPort(),
            calls=Calls(_no_commit, has_ackers=False),
            publish=listener.on_report,
            end_run=listener.on_end,
            note_idle=listener.on_progress,
            failures=LatestFailures(clock),
            is_abandoned=lambda: self._is_abandoned,
        )
        ring = SignalRing()  # control tuples here belong to no tree, so nothing is ever sent to it
        self.bolts: Mapping[int, BoltExecutor] = {
            info.task_id: _GroupBoltExecutor(info, topology.components[info.component_id], self.run_context, [ring], listener)
            for tasks in plan.tasks.values()
            for info in tasks
            if info.task_id in local
        }
        self.elsewhere: dict[int, Mailbox] = {}
        """Mailboxes of the tasks that run elsewhere, by task id. Drain them with `take_runs`."""
        self._wire(plan.task_ids, apart)

    def _wire(self, task_ids: Mapping[str, tuple[int, ...]], apart: Collection[str]) -> None:
        mailboxes = {task: bolt.core.mailbox for task, bolt in self.bolts.items()}
        for component in {target for bolt in self.bolts.values() for target in self.topology.targets(bolt.info.component_id)}:
            for task in task_ids[component]:
                if task not in mailboxes and component not in apart:
                    capacity = self.run_context.config.executor_receive_buffer_size
                    self.elsewhere[task] = mailboxes[task] = Mailbox(capacity, self._listener.on_progress)
        wiring = Wiring(self.run_context, mailboxes)
        for bolt in self.bolts.values():
            wiring.wire_task(bolt.core, bolt.info, bolt.spec)
        cores = {task: bolt.core for task, bolt in self.bolts.items()}
        for bolt in self.bolts.values():
            sources = self.run_context.sources_of(bolt.spec)
            bolt.core.connect({task: cores[task] for task in sources if task in cores}, {})

    def source(self, task: int, stream: str) -> Source:
        """Return the origin of tuples that a task of another process emitted."""
        component = self.component_of[task]
        return Source(component, stream, task, self.topology.components[component].streams[stream])

    def reporter_of(self, task: int) -> ErrorReporter:
        """Return the reporter of errors of a task, which may run elsewhere."""
        if task in self.bolts:
            return self.bolts[task].reporter
        component = self.component_of[task]
        return self.run_context.reporter_of(TaskInfo(component, task, self.run_context.task_ids[component].index(task)))

    async def begin(self) -> None:
        """Make and prepare all instances, then start the actors. Raises the ComponentError of an instance that cannot begin."""
        for bolt in self.bolts.values():
            await bolt.begin()
        for bolt in self.bolts.values():
            bolt.start()

    async def close(self) -> None:
        """End all actors, in the order of the stream, and close their instances. If this is cancelled, the others are abandoned."""
        layers = self.topology.layers()
        for bolt in self.bolts.values():
            bolt.core.closing = True
        try:
            for bolt in sorted(self.bolts.values(), key=lambda bolt: layers[bolt.info.component_id]):
                await bolt.close()
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Cancel all actors at once, because the owner of this group has died. Otherwise the event loop could never end."""
        self._is_abandoned = True
        for bolt in self.bolts.values():
            bolt.abandon()


def _no_commit() -> None:
    """Do nothing, because a group has no inlets that wait for a commit."""


class _GroupBoltExecutor(BoltExecutor):
    """Actor of a task in a group. Its control tuples belong to no tree, so the listener hears of them instead of an acker."""

    def __init__(self, *arguments: Any) -> None:
        *arguments_of_executor, listener = arguments
        super().__init__(*arguments_of_executor)
        self._listener: GroupListener = listener
        self.port = _GroupPort(self, listener)

    def _fail_instance(self, failure: Failure) -> None:
        if not self.core.closing:
            self._listener.on_death(self.info.task_id, failure)
        super()._fail_instance(failure)

    async def _serve_control_in_pause(self, tup: Tuple, failure: Failure) -> None:
        await super()._serve_control_in_pause(tup, failure)
        self._listener.on_settled(self.info.task_id, tup, failure)


class _GroupPort(ExecutorBoltPort):
    def __init__(self, task: BoltExecutor, listener: GroupListener) -> None:
        super().__init__(task)
        self._task_id = task.info.task_id
        self._listener = listener

    def emit_control(self, values: Values, anchor: AnyTuple | None = None, stream: str = DEFAULT_STREAM) -> None:
        super().emit_control(values, anchor, stream)
        self._listener.on_control(self._task_id, values, stream)

    def settle_control(self, tup: AnyTuple, failure: Failure | None = None) -> None:
        super().settle_control(tup, failure)
        self._listener.on_settled(self._task_id, tup, failure)

    def reply(self, tup: AnyTuple, answer: object) -> None:
        self._listener.on_reply(self._task_id, answer)
