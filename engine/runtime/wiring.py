"""Wiring: from the groupings of a topology to the outlets of each emitting task. What can be decided once is decided here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.api import All, Custom, Direct, FieldsGrouping, Global, LoadAware, LocalOrShuffle, NoneGrouping, PartialKey, Shuffle
from engine.errors import ComponentError
from engine.kernel import Choice, Mailbox, Outlet, OutStream, Source, TaskCore
from engine.raised import raised_text
from engine.runtime.surroundings import RunSurroundings, TaskPlace
from engine.runtime.task_context import ExecutorContext, NoBackgroundTasks
from engine.topology import ComponentSpec, Subscription

CHOICES: Mapping[type, Choice] = {
    Shuffle: Choice.SHUFFLE,
    NoneGrouping: Choice.SHUFFLE,
    LocalOrShuffle: Choice.SHUFFLE,  # every task of a run is in this process
    FieldsGrouping: Choice.BY_FIELDS,
    PartialKey: Choice.PARTIAL_KEY,
    All: Choice.TO_ALL,
    Global: Choice.TO_FIRST,
    Direct: Choice.DIRECT,
    LoadAware: Choice.LEAST_LOADED,
    Custom: Choice.CUSTOM,
}


def wire_task(core: TaskCore, place: TaskPlace, spec: ComponentSpec, around: RunSurroundings, mailboxes: Mapping[int, Mailbox]) -> None:
    """Give a task's core its streams, each with an outlet for each subscription."""
    closing = around.topology.closing_edges()
    emitter = _EmittingTask(place, spec, around)
    streams: dict[str, OutStream] = {}
    for stream, fields in spec.streams.items():
        outlets = []
        for subscriber, subscription in around.topology.subscribers(spec.component_id, stream):
            targets = [(task, mailboxes[task]) for task in around.task_ids[subscriber.component_id]]
            stops = (spec.component_id, subscriber.component_id) not in closing
            outlets.append(emitter.outlet(stream, subscription, subscriber.component_id, targets, stops=stops))
        streams[stream] = OutStream(Source(spec.component_id, stream, place.task_id, fields), outlets, direct=fields.direct)
    core.wire(streams)


@dataclass(frozen=True, slots=True)
class _EmittingTask:
    """One task as it emits."""

    place: TaskPlace
    spec: ComponentSpec
    around: RunSurroundings

    def outlet(
        self, stream: str, subscription: Subscription, subscriber_id: str, targets: Sequence[tuple[int, Mailbox]], *, stops: bool
    ) -> Outlet:
        """The outlet of one subscription."""
        grouping = subscription.grouping
        names: tuple[str, ...] = ()
        chooser: Any = None
        if isinstance(grouping, (FieldsGrouping, PartialKey)):
            names = grouping.names
        elif isinstance(grouping, Custom):
            chooser = self._chooser(grouping, stream, [task for task, _ in targets])
        random = self.around.random.stream("shuffle", self.place.task_id, stream, subscriber_id)
        return Outlet(
            CHOICES[type(grouping)],
            list(targets),
            start=random.randrange(len(targets)),
            positions=[self.spec.streams[stream].index(name) for name in names],
            names=names,
            key_groups=self.around.config.key_groups,
            chooser=chooser,
            stops=stops,
        )

    def _chooser(self, grouping: Custom, stream: str, task_ids: Sequence[int]) -> Any:
        """This task's own copy of a custom grouping, as a function of the values."""
        background = NoBackgroundTasks(self.around.loop, "custom grouping", lambda error: None)
        context = ExecutorContext(self.place, self.spec, self.around, wake=lambda: None, background=background)
        try:
            copy = grouping.create()
            copy.prepare(context, stream, task_ids)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            message = f"its custom grouping of stream {stream!r} could not be prepared: {raised_text(error)}"
            raise ComponentError(self.place.component_id, self.place.task_id, error, message=message, hint="Fix its prepare().") from error
        choose, source_task = copy.choose_tasks, self.place.task_id
        return lambda values: choose(source_task, values)
