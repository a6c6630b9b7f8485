"""Turns groupings into the outlets of each emitting task, so that an emit needs no lookup by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.api import All, Custom, Direct, FieldsGrouping, Global, LoadAware, LocalOrShuffle, NoneGrouping, PartialKey, Shuffle
from engine.errors import ComponentError
from engine.kernel import Choice, Mailbox, Outlet, OutStream, Source, Targets, TaskCore
from engine.raised import raised_text
from engine.runtime.plan import TaskInfo
from engine.runtime.run_context import RunContext
from engine.runtime.task_context import ExecutorContext
from engine.topology import ComponentSpec, Subscription

CHOICES: Mapping[type, Choice] = {
    Shuffle: Choice.SHUFFLE,
    NoneGrouping: Choice.SHUFFLE,
    LocalOrShuffle: Choice.SHUFFLE,  # all tasks of a run are in this process
    FieldsGrouping: Choice.BY_FIELDS,
    PartialKey: Choice.PARTIAL_KEY,
    All: Choice.TO_ALL,
    Global: Choice.TO_FIRST,
    Direct: Choice.DIRECT,
    LoadAware: Choice.LEAST_LOADED,
    Custom: Choice.CUSTOM,
}


@dataclass(frozen=True, slots=True)
class Wiring:
    """Connects the tasks of a run with their targets. Only tasks with a mailbox are targets.

    The tasks share what depends only on the component: with 5,000 tasks on each side of an edge, 25,000,000 entries are not affordable.
    """

    run_context: RunContext
    mailboxes: Mapping[int, Mailbox]
    """By task id."""
    _targets: dict[str, Targets] = field(init=False, default_factory=dict)
    """By the component id of the subscriber."""

    def wire_task(self, core: TaskCore, info: TaskInfo, spec: ComponentSpec) -> None:
        """Set the streams of a task's core, with one outlet for each subscription."""
        topology = self.run_context.topology
        closing = topology.closing_edges()
        emitter = _EmittingTask(info, spec, self.run_context)
        streams: dict[str, OutStream] = {}
        for stream, fields in spec.streams.items():
            outlets = []
            for subscriber, subscription in topology.subscribers(spec.component_id, stream):
                stops = (spec.component_id, subscriber.component_id) not in closing
                targets = self._targets_of(subscriber.component_id)
                outlets.append(emitter.outlet(stream, subscription, subscriber.component_id, targets, stops=stops))
            given = spec.given_fields if stream in spec.timed_streams else None
            streams[stream] = OutStream(Source(spec.component_id, stream, info.task_id, fields), outlets, direct=fields.direct, given=given)
        core.wire(streams)

    def _targets_of(self, component_id: str) -> Targets:
        if component_id not in self._targets:
            tasks = [(task, self.mailboxes[task]) for task in self.run_context.task_ids[component_id] if task in self.mailboxes]
            self._targets[component_id] = Targets(tasks)
        return self._targets[component_id]


@dataclass(frozen=True, slots=True)
class _EmittingTask:
    """Builder of the outlets of one emitting task."""

    info: TaskInfo
    spec: ComponentSpec
    run_context: RunContext

    def outlet(self, stream: str, subscription: Subscription, subscriber_id: str, targets: Targets, *, stops: bool) -> Outlet:
        """Create the outlet of one subscription."""
        grouping = subscription.grouping
        names: tuple[str, ...] = ()
        chooser: Any = None
        if isinstance(grouping, (FieldsGrouping, PartialKey)):
            names = grouping.names
        elif isinstance(grouping, Custom):
            chooser = self._chooser(grouping, stream, subscriber_id, list(targets.task_ids))
        random = self.run_context.random.stream("shuffle", self.info.task_id, stream, subscriber_id)
        return Outlet(
            CHOICES[type(grouping)],
            targets,
            start=random.randrange(targets.tasks),
            positions=[self.spec.streams[stream].index(name) for name in names],
            names=names,
            key_groups=self.run_context.config.key_groups,
            chooser=chooser,
            stops=stops,
        )

    def _chooser(self, grouping: Custom, stream: str, subscriber_id: str, task_ids: Sequence[int]) -> Any:
        """Create this task's instance of a custom grouping. Return its choice of tasks as a function of the values."""
        context = ExecutorContext(self.info, self.spec, self.run_context, wake=lambda: None, background=None)
        try:
            copy = grouping.create()
            copy.prepare(context, stream, task_ids)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            message = (
                f"the custom grouping by which bolt {subscriber_id!r} reads stream {stream!r} could not be prepared: {raised_text(error)}"
            )
            hint = "Correct the prepare() of the grouping."
            raise ComponentError(self.info.component_id, self.info.task_id, error, message=message, hint=hint) from error
        choose, source_task = copy.choose_tasks, self.info.task_id
        return lambda values: choose(source_task, values)
