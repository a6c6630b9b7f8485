"""Adds the checkpoint spout, and the streams of its barriers, to a topology with state (CP-1)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from engine.api import All, FieldsGrouping, TaskContext
from engine.checkpoint.barrier_handler import BarrierHandler, StatefulBarrierHandler
from engine.checkpoint.checkpoint_spout import BARRIER_FIELDS, CheckpointSpout
from engine.checkpoint.checkpoints import Checkpoints
from engine.config import Config
from engine.names import CHECKPOINT_COMPONENT, CHECKPOINT_STREAM
from engine.state import StatePlace
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology
from engine.topology.task_port import BoltPort

KEEPS_STATE: Final = "keeps_state"
"""Class attribute of stateful bolts."""


def state_places(topology: Topology, config: Config) -> tuple[StatePlace, ...]:
    """Return the places of all stateful tasks."""
    return tuple(
        StatePlace(spec.component_id, index, spec.parallelism, is_keyed(spec), config.key_groups)
        for spec in topology.bolts
        if KEEPS_STATE in spec.marks
        for index in range(spec.parallelism)
    )


def is_keyed(spec: ComponentSpec) -> bool:
    """Tell whether fields groupings alone feed a component, so that its state follows its keys (CP-9)."""
    return bool(spec.subscriptions) and all(isinstance(each.grouping, FieldsGrouping) for each in spec.subscriptions)


def with_checkpoints(topology: Topology, checkpoints: Checkpoints, config: Config) -> Topology:
    """Return the topology with a checkpoint spout behind the user's components; every bolt sends its barriers on.

    A bolt takes barriers from every task of each bolt that feeds it, and from the checkpoint spout where a spout feeds it. All of
    them hear of a new round from the checkpoint spout at once (docs/decisions/0002).
    """
    components = dict(topology.components)
    for spec in topology.bolts:
        components[spec.component_id] = _bolt(spec, topology, checkpoints, config)
    components[CHECKPOINT_COMPONENT] = ComponentSpec(
        CHECKPOINT_COMPONENT,
        "spout",
        _SpoutFactory(checkpoints),
        1,
        MappingProxyType({CHECKPOINT_STREAM: BARRIER_FIELDS}),
        (),
        ComponentSettings(),
        renewed_at_each_error=True,
    )
    return replace(topology, components=MappingProxyType(components))


def _bolt(spec: ComponentSpec, topology: Topology, checkpoints: Checkpoints, config: Config) -> ComponentSpec:
    sources = dict.fromkeys(subscription.source for subscription in spec.subscriptions)
    bolts = [source for source in sources if topology.components[source].kind == "bolt"]
    by_spout = len(bolts) < len(sources)
    barriers = tuple(Subscription(source, CHECKPOINT_STREAM, All()) for source in (CHECKPOINT_COMPONENT, *bolts))
    keeps_state = KEEPS_STATE in spec.marks
    return replace(
        spec,
        defers_acks=keeps_state,
        progress="a committed checkpoint" if keeps_state else spec.progress,
        streams=MappingProxyType({**spec.streams, CHECKPOINT_STREAM: BARRIER_FIELDS}),
        subscriptions=(*spec.subscriptions, *barriers),
        control_handler=_HandlerFactory(spec, checkpoints, config, frozenset([*bolts, *([CHECKPOINT_COMPONENT] if by_spout else [])])),
    )


@dataclass(frozen=True, slots=True)
class _SpoutFactory:
    checkpoints: Checkpoints

    def create(self) -> CheckpointSpout:
        return CheckpointSpout(self.checkpoints)


@dataclass(frozen=True, slots=True)
class _HandlerFactory:
    """Makes the barrier handler of each instance of one bolt."""

    spec: ComponentSpec
    checkpoints: Checkpoints
    config: Config
    barriers_from: frozenset[str]

    def __call__(self, bolt: Any, context: TaskContext, port: BoltPort, task_ids: Mapping[str, tuple[int, ...]]) -> BarrierHandler:
        sources = frozenset(task for component in self.barriers_from for task in task_ids[component])
        if KEEPS_STATE not in self.spec.marks:
            return BarrierHandler(self.checkpoints, context, port, sources)
        place = StatePlace(self.spec.component_id, context.task_index, self.spec.parallelism, is_keyed(self.spec), self.config.key_groups)
        return StatefulBarrierHandler(self.checkpoints, bolt, context, port, sources, place)
