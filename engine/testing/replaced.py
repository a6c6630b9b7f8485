"""Replaces a component of a topology in a test, such as a source by a feeder."""

from dataclasses import replace
from types import MappingProxyType

from engine.api import BoltFactory, SpoutFactory, declare_streams
from engine.errors import TopologyError, UsageError
from engine.names import did_you_mean
from engine.topology import Topology
from engine.topology.factory import Factory, FactoryFault
from engine.topology.features import marks_of
from engine.topology.settings import collect_settings
from engine.topology.timed_rows import with_timed_rows
from engine.topology.validate import graph_faults


def replaced(topology: Topology, component_id: str, factory: SpoutFactory | BoltFactory) -> Topology:
    """Return a copy of the topology in which this factory creates the instances of a component.

    The component keeps its id, parallelism and subscriptions, and a spout keeps its settings, also those of event time. Streams, and the
    settings of a bolt, come from the new instances. Raises UsageError for an unknown id, and TopologyError if the new component does not
    fit.

    >>> from engine import TopologyBuilder, bolt, spout
    >>> from engine.testing import Feeder, run_topology
    >>> @spout("line")
    ... def lines():
    ...     yield from open("/no/such/file")
    >>> @bolt()
    ... def show(tup):
    ...     print(tup["line"])
    >>> builder = TopologyBuilder("example")
    >>> _ = builder.set_spout("lines", lines)
    >>> _ = builder.set_bolt("show", show).shuffle_grouping("lines")
    >>> feeder = Feeder("line")
    >>> _ = feeder.feed(("to be",))
    >>> feeder.close()
    >>> _ = run_topology(replaced(builder.build(), "lines", feeder))
    to be
    """
    spec = topology.components.get(component_id)
    if spec is None:
        raise UsageError(f"the topology has no component {component_id!r}", hint=did_you_mean(component_id, topology.components))
    try:
        made = Factory(spec.kind, component_id, factory)
        declared = made.declared()
        streams = declare_streams(getattr(declared, "output_fields", None))
    except FactoryFault as fault:
        raise TopologyError([f"{spec.kind} {component_id!r}: {fault}"], topology_name=topology.name) from None
    settings, faults = collect_settings(spec.kind, f"{spec.kind} {component_id!r}", declared, {})
    given_fields = None
    if spec.kind == "spout":
        settings = spec.settings
        streams, given_fields, time_faults = with_timed_rows(spec.where, streams, settings.event_time)
        faults += time_faults
    marks = marks_of(spec.kind, declared)
    changed_spec = replace(spec, factory=made, streams=streams, settings=settings, marks=marks, given_fields=given_fields)
    changed = replace(topology, components=MappingProxyType({**topology.components, component_id: changed_spec}))
    faults += graph_faults(changed)
    if faults:
        raise TopologyError(faults, topology_name=topology.name)
    return changed
