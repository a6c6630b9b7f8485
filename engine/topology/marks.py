"""Adds the streams of the watermarks to a topology whose sources have event times (ET-1)."""

from collections.abc import Container
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from engine.api import All, Fields
from engine.names import MARK_STREAM, is_reserved
from engine.topology.spec import ComponentSpec, Subscription, Topology

MARK_FIELDS: Final = Fields("watermark", "is_active", "before_end")


def timed_components(topology: Topology) -> frozenset[str]:
    """Return the components that send marks: the sources with event times, and each bolt of which all inputs come from such components.

    An edge that closes a cycle does not count, because its mark would wait for itself.
    """
    closing = topology.closing_edges()
    timed: set[str] = set()
    for component_id, spec in sorted(topology.components.items(), key=lambda item: topology.layers()[item[0]]):
        if spec.kind == "spout":
            is_timed = spec.settings.event_time is not None
        else:
            inputs = _inputs(spec, closing)
            is_timed = bool(inputs) and all(source in timed for source in inputs)
        if is_timed:
            timed.add(component_id)
    return frozenset(timed)


def _inputs(spec: ComponentSpec, closing: Container[tuple[str, str]]) -> list[str]:
    """Return the components from which a bolt takes rows."""
    rows = (each.source for each in spec.subscriptions if not is_reserved(each.source) and not is_reserved(each.stream))
    return [source for source in dict.fromkeys(rows) if (source, spec.component_id) not in closing]


def with_marks(topology: Topology) -> Topology:
    """Return the topology that runs, in which each timed component sends marks to all tasks behind it."""
    timed = timed_components(topology)
    if not timed:
        return topology
    closing = topology.closing_edges()
    components = dict(topology.components)
    for component_id in timed:
        spec = components[component_id]
        marks = tuple(Subscription(source, MARK_STREAM, All()) for source in _inputs(spec, closing)) if spec.kind == "bolt" else ()
        components[component_id] = replace(
            spec,
            streams=MappingProxyType({**spec.streams, MARK_STREAM: MARK_FIELDS}),
            subscriptions=(*spec.subscriptions, *marks),
        )
    return replace(topology, components=MappingProxyType(components))


def timed_spouts_behind(topology: Topology, component_id: str) -> set[str]:
    """Return the spouts whose watermarks reach a component of a topology that runs. A spout stands behind itself."""
    waiting, found = [component_id], set[str]()
    while waiting:
        spec = topology.components[waiting.pop()]
        if spec.component_id not in found:
            found.add(spec.component_id)
            waiting += [each.source for each in spec.subscriptions if each.stream == MARK_STREAM]
    return {each for each in found if topology.components[each].kind == "spout"}


def time_words(spec: ComponentSpec) -> str:
    """Return the event time of a source for a drawing, and how it becomes idle: by knowledge, or by silence (ET-3)."""
    settings = spec.settings.event_time
    assert settings is not None
    field = settings.time if isinstance(settings.time, str) else "of a function"
    bound = settings.max_out_of_order.total_seconds()
    order = f", {bound:g} s out of order" if bound else ""
    knows = "knowledge" if spec.knows_its_end else "silence"
    return f"event time: {field}{order}; idle by {knows} after {settings.idle_secs:g} s"
