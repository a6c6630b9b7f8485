"""Makes a topology of a plan, by the public `TopologyBuilder`."""

import importlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from engine.errors import TopologyError, UsageError
from engine.streams.feature import StreamsFeature
from engine.streams.graph import FlowGraph, SourceNode
from engine.streams.plan import Planned, plan
from engine.streams.readers import fields_fault, value_fault
from engine.streams.shapes import shape_of
from engine.topology import Topology, TopologyBuilder
from engine.topology.process_factory import dumps_factory
from engine.topology.validate import run_faults


def build_topology(graph: FlowGraph) -> Topology:
    """Return the topology of a flow. Raise TopologyError with all faults of its components, and UsageError for the first of its stages."""
    planned = plan(graph)
    builder = TopologyBuilder(graph.name, graph.config)
    for each in planned:
        _declare(builder, each)
    topology = builder.build()
    topology = _labelled(topology, planned).with_feature(StreamsFeature(_unnamed_stages(planned)))
    faults = [*_source_faults(graph, topology), *(run_faults(topology, graph.config) if graph.config is not None else ())]
    if faults:
        raise TopologyError(faults, topology_name=graph.name)
    return topology


def _declare(builder: TopologyBuilder, planned: Planned) -> None:
    if planned.role == "spout":
        builder.set_spout(planned.name, planned.factory, planned.parallelism, **planned.settings)
        return
    declare = builder.set_committer if planned.role == "committer" else builder.set_bolt
    factory = _for_processes(planned) if planned.settings.get("processes") else planned.factory
    declarer = declare(planned.name, factory, planned.parallelism, **planned.settings)
    for each in planned.inputs:
        if each.fields:
            declarer.fields_grouping(each.component, *each.fields, stream=each.stream)
        else:
            declarer.shuffle_grouping(each.component, stream=each.stream)


def _labelled(topology: Topology, planned: list[Planned]) -> Topology:
    """Let drawings say which sinks are exactly once."""
    components = dict(topology.components)
    for each in planned:
        if each.role == "committer":
            label = f"committer × {each.parallelism} · exactly once"
            components[each.name] = replace(components[each.name], label=label)
    return replace(topology, components=MappingProxyType(components))


def _unnamed_stages(planned: list[Planned]) -> tuple[str, ...]:
    return tuple(each.name for each in planned if each.node is not None and each.node.keeps_state and each.node.name is None)


def _source_faults(graph: FlowGraph, topology: Topology) -> Iterator[str]:
    """Yield a fault for each source whose fields do not make its rows."""
    for node in graph.nodes:
        if isinstance(node, SourceNode) and node.name is not None:
            spec = topology.components[node.name]
            fields = spec.given_fields or spec.streams.get(node.stream)
            fault = None if fields is None else _source_fault(node, fields.names)
            if fault is not None:
                yield f"source {node.name!r}: stream {node.stream!r} {fault}"


def _source_fault(node: SourceNode, fields: tuple[str, ...]) -> str | None:
    if node.value is not None:
        return value_fault(fields)
    return fields_fault(shape_of(node.row_type), node.row_type, fields)


def _for_processes(planned: Planned) -> Any:
    """Return a factory that can be pickled. Raise UsageError for a lambda or a local function, if cloudpickle is not installed."""
    try:
        dumps_factory(planned.factory)
    except Exception as error:  # noqa: BLE001 - code of the user's objects; it becomes an error
        try:
            cloudpickle = importlib.import_module("cloudpickle")
            return Pickled(cloudpickle.dumps(planned.factory))
        except ImportError:
            raise UsageError(
                f"stage {planned.name!r}: with processes=True its function must be picklable, but {error}",
                hint="Make it a def at the top of the module, or install cloudpickle.",
            ) from error
    return planned.factory


@dataclass(frozen=True, slots=True)
class Pickled:
    """Factory as bytes of cloudpickle, because it has lambdas or local functions."""

    pickled: bytes

    def create(self) -> Any:
        """Return a new bolt."""
        return pickle.loads(self.pickled).create()
