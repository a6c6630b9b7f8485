"""Turns groupings into the outlets of each emitting task, so that an emit needs no lookup by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import All, Custom, Direct, FieldsGrouping, Global, LoadAware, LocalOrShuffle, NoneGrouping, PartialKey, Shuffle
from engine.errors import ComponentError
from engine.kernel import Choice, Mailbox, Outlet, OutStream, Source, TaskCore
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


def wire_task(core: TaskCore, info: TaskInfo, spec: ComponentSpec, run_context: RunContext, mailboxes: Mapping[int, Mailbox]) -> None:
    """Set the streams of a task's core, with one outlet for each subscription. Only tasks with a mailbox are targets."""
    closing = run_context.topology.closing_edges()
    emitter = _EmittingTask(info, spec, run_context)
    streams: dict[str, OutStream] = {}
    for stream, fields in spec.streams.items():
        outlets = []
        for subscriber, subscription in run_context.topology.subscribers(spec.component_id, stream):
            targets = [(task, mailboxes[task]) for task in run_context.task_ids[subscriber.component_id] if task in mailboxes]
            stops = (spec.component_id, subscriber.component_id) not in closing
            outlets.append(emitter.outlet(stream, subscription, subscriber.component_id, targets, stops=stops))
        streams[stream] = OutStream(Source(spec.component_id, stream, info.task_id, fields), outlets, direct=fields.direct)
    core.wire(streams)


@dataclass(frozen=True, slots=True)
class _EmittingTask:
    """Builder of the outlets of one emitting task."""

    info: TaskInfo
    spec: ComponentSpec
    run_context: RunContext

    def outlet(
        self, stream: str, subscription: Subscription, subscriber_id: str, targets: Sequence[tuple[int, Mailbox]], *, stops: bool
    ) -> Outlet:
        """Create the outlet of one subscription."""
        grouping = subscription.grouping
        names: tuple[str, ...] = ()
        chooser: Any = None
        if isinstance(grouping, (FieldsGrouping, PartialKey)):
            names = grouping.names
        elif isinstance(grouping, Custom):
            chooser = self._chooser(grouping, stream, subscriber_id, [task for task, _ in targets])
        random = self.run_context.random.stream("shuffle", self.info.task_id, stream, subscriber_id)
        return Outlet(
            CHOICES[type(grouping)],
            list(targets),
            start=random.randrange(len(targets)),
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
