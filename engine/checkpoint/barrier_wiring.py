"""Adds the checkpoint spout, and the streams of its barriers, to a topology with state (CP-1)."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from engine.api import All, FieldsGrouping, TaskContext
from engine.checkpoint.barrier_handler import BarrierHandler, StatefulBarrierHandler
from engine.checkpoint.checkpoint_spout import BARRIER_FIELDS, CheckpointSpout
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.guarantees import EMITS_RESULTS
from engine.checkpoint.output_handler import OutputHandler
from engine.checkpoint.source_task import SourceTask
from engine.names import CHECKPOINT_COMPONENT, CHECKPOINT_STREAM, DEFAULT_STREAM
from engine.state import StatePlace
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.spec import AT_CHECKPOINTS
from engine.topology.task_port import BoltPort
from engine.topology.validate import path_between


def state_places(stateful: Iterable[ComponentSpec], key_groups: int) -> tuple[StatePlace, ...]:
    """Return the places of all tasks of stateful bolts."""
    return tuple(
        StatePlace(spec.component_id, index, spec.parallelism, is_keyed(spec), key_groups)
        for spec in stateful
        for index in range(spec.parallelism)
    )


def is_keyed(spec: ComponentSpec) -> bool:
    """Tell whether a component has only fields groupings, so that its state is divided by key (CP-9)."""
    return bool(spec.subscriptions) and all(isinstance(each.grouping, FieldsGrouping) for each in spec.subscriptions)


def with_checkpoints(topology: Topology, checkpoints: Checkpoints, places: Iterable[StatePlace]) -> Topology:
    """Return the topology with a checkpoint spout after the user's components. Every bolt forwards its barriers.

    A bolt receives barriers from every task of each bolt and of each rewinding spout that feeds it. If another spout feeds it, it also
    receives them from the checkpoint spout.
    """
    components = dict(topology.components)
    place_of = {place.component_id: place for place in places}
    for component_id in checkpoints.sources.layouts:
        spec = components[component_id]
        components[component_id] = replace(
            spec,
            streams=MappingProxyType({**spec.streams, CHECKPOINT_STREAM: BARRIER_FIELDS}),
            source_handler=partial(SourceTask, checkpoints.sources, component_id, checkpoints.note_lost_task),
        )
    durable = {spec.component_id for spec in topology.bolts if spec.component_id in place_of or AT_CHECKPOINTS in spec.marks}
    for component_id in _holding(topology, durable) - set(checkpoints.sources.layouts):
        components[component_id] = replace(components[component_id], holds_acks=True)
    checkpoints.prepare.tasks = sum(spec.parallelism for spec in topology.bolts)
    layers = topology.layers()
    checkpoints.prepare.bolts = {
        spec.component_id: {each.source for each in spec.subscriptions}
        for spec in sorted(topology.bolts, key=lambda spec: layers[spec.component_id])
    }
    checkpoints.sources.passes.rowless.bolts = _without_other_rows(topology, checkpoints.sources.layouts)
    for spec in topology.bolts:
        components[spec.component_id] = _bolt(spec, topology, checkpoints, place_of.get(spec.component_id))
    components[CHECKPOINT_COMPONENT] = ComponentSpec(
        CHECKPOINT_COMPONENT,
        "spout",
        _SpoutFactory(checkpoints),
        1,
        MappingProxyType({CHECKPOINT_STREAM: BARRIER_FIELDS}),
        (),
        ComponentSettings(),
        replaced_at_each_error=True,
    )
    return replace(topology, components=MappingProxyType(components))


def _holding(topology: Topology, durable: Iterable[str]) -> set[str]:
    """Return the spouts whose rows can reach a stateful bolt or a committer."""
    return {spec.component_id for spec in topology.spouts for bolt in durable if path_between(topology, spec.component_id, bolt)}


def _without_other_rows(topology: Topology, exact: Container[str]) -> set[str]:
    """Return the bolts that no row of an inexact spout can reach. Such a row may be untracked, and a repetition would not bring it back.

    Behind windows there are only their results. A repetition brings these back, since it takes the state of the windows back, too.
    """
    waiting = [(spec.component_id, stream) for spec in topology.spouts if spec.component_id not in exact for stream in spec.streams]
    found = set[str]()
    while waiting:
        for spec, _ in topology.subscribers(*waiting.pop()):
            if spec.component_id not in found:
                found.add(spec.component_id)
                ends = EMITS_RESULTS in spec.marks
                waiting += [(spec.component_id, stream) for stream in spec.streams if not (ends and stream == DEFAULT_STREAM)]
    return {spec.component_id for spec in topology.bolts} - found


def _bolt(spec: ComponentSpec, topology: Topology, checkpoints: Checkpoints, place: StatePlace | None) -> ComponentSpec:
    sources = dict.fromkeys(subscription.source for subscription in spec.subscriptions)
    senders = [source for source in sources if topology.components[source].kind == "bolt" or source in checkpoints.sources.layouts]
    barriers_from = (*senders, *([CHECKPOINT_COMPONENT] if len(senders) < len(sources) else []))
    barriers = tuple(Subscription(source, CHECKPOINT_STREAM, All()) for source in barriers_from)
    is_durable = place is not None or AT_CHECKPOINTS in spec.marks
    return replace(
        spec,
        keeps_state=is_durable,
        has_effects=spec.has_effects or is_durable or spec.settings.tick_tuple_freq_secs is not None,
        progress="a committed checkpoint" if is_durable else spec.progress,
        streams=MappingProxyType({**spec.streams, CHECKPOINT_STREAM: BARRIER_FIELDS}),
        subscriptions=(*spec.subscriptions, *barriers),
        control_handler=_HandlerFactory(checkpoints, frozenset(barriers_from), place, AT_CHECKPOINTS in spec.marks),
    )


@dataclass(frozen=True, slots=True)
class _SpoutFactory:
    checkpoints: Checkpoints

    def create(self) -> CheckpointSpout:
        return CheckpointSpout(self.checkpoints)


@dataclass(frozen=True, slots=True)
class _HandlerFactory:
    """Makes the barrier handler of each instance of one bolt."""

    checkpoints: Checkpoints
    barriers_from: frozenset[str]
    place: StatePlace | None
    """Place of one of the tasks. None: the bolt is stateless."""
    is_at_checkpoints: bool

    def __call__(self, bolt: Any, context: TaskContext, port: BoltPort, task_ids: Mapping[str, tuple[int, ...]]) -> BarrierHandler:
        sources = frozenset(task for component in self.barriers_from for task in task_ids[component])
        if self.is_at_checkpoints:
            return OutputHandler(self.checkpoints, bolt, context, port, sources)
        if self.place is None:
            return BarrierHandler(self.checkpoints, bolt, context, port, sources)
        place = replace(self.place, task_index=context.task_index)
        return StatefulBarrierHandler(self.checkpoints, bolt, context, port, sources, place)
