"""Describes a topology for the page: components, streams, groupings, and a layout from left to right. Plain computation."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from engine.runtime.snapshot import ComponentSnapshot, Snapshot
from engine.topology import ComponentSpec, Topology
from engine.topology.graph import ordered_columns
from engine.topology.spec import Edge

MOST_PASSED_LAYERS: Final = 5_000
"""Layers that all edges together pass. The longest edges beyond are left out of the layout, which would take seconds otherwise."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of the user's components: the centre of each box, and the width and height of the picture."""

    centres: dict[str, tuple[float, float]]
    width: int
    height: int


def describe_topology(topology: Topology, layout: Layout, now: Snapshot, inlets: Collection[str], *, can_steer: bool) -> dict[str, Any]:
    """Return the answer of `/api/topology`.

    `x` and `y` are the centre of a box, and 1 is the place of one box. Components that the engine adds have `system` true, and stand below
    the others. inlets: component ids that HTTP may call.
    """
    added = [component for component_id, component in now.components.items() if component_id not in topology.components]
    rows = [_component(spec, *layout.centres[component_id]) for component_id, spec in topology.components.items()]
    rows += [_added_component(component, number + 0.5, layout.height + 0.5) for number, component in enumerate(added)]
    return {
        "topology": topology.name,
        "components": rows,
        "edges": [*_edges(topology), *_added_edges(topology, now)],
        "width": max(layout.width, len(added)),
        "height": layout.height + bool(added),
        "inlets": sorted(inlets),
        "can_steer": can_steer,
    }


def lay_out(topology: Topology) -> Layout:
    """Return the places of the components. 1,000 of them take some 50 ms."""
    layers = topology.layers()
    closing = topology.closing_edges()
    edges = {(subscription.source, spec.component_id): None for spec in topology.bolts for subscription in spec.subscriptions}
    forward = _without_longest([edge for edge in edges if edge not in closing], layers)
    columns = ordered_columns(layers, forward)
    height = max(map(len, columns), default=1)
    centres = {
        slot: (column + 0.5, (height - len(slots)) / 2 + row + 0.5)
        for column, slots in enumerate(columns)
        for row, slot in enumerate(slots)
        if isinstance(slot, str)
    }
    return Layout(centres, max(len(columns), 1), height)


def _without_longest(edges: list[Edge], layers: Mapping[str, int]) -> list[Edge]:
    """Return the edges, without the longest ones if all together pass too many layers."""
    passed = {edge: layers[edge[1]] - layers[edge[0]] for edge in edges}
    sums = zip(sorted(edges, key=passed.__getitem__), accumulate(sorted(passed.values())), strict=True)
    kept = {edge for edge, total in sums if total <= MOST_PASSED_LAYERS + len(edges)}
    return [edge for edge in edges if edge in kept]


def _component(spec: ComponentSpec, x: float, y: float) -> dict[str, Any]:
    streams = {stream: list(fields.names) for stream, fields in spec.streams.items()}
    return {
        "id": spec.component_id,
        "kind": spec.kind,
        "tasks": spec.parallelism,
        "system": False,
        "streams": streams,
        "x": x,
        "y": y,
    }


def _added_component(component: ComponentSnapshot, x: float, y: float) -> dict[str, Any]:
    return {
        "id": component.component_id,
        "kind": component.kind,
        "tasks": len(component.tasks),
        "system": True,
        "streams": {},
        "x": x,
        "y": y,
    }


def _edges(topology: Topology) -> Iterable[dict[str, Any]]:
    for spec in topology.components.values():
        for subscription in spec.subscriptions:
            yield _edge(subscription.source, spec.component_id, subscription.stream, subscription.grouping.label)


def _added_edges(topology: Topology, now: Snapshot) -> Iterable[dict[str, Any]]:
    """Return the edges from or to a component that the engine adds. Their groupings are unknown here."""
    own = topology.components
    for edge in now.edges:
        if edge.source not in own or edge.target not in own:
            yield _edge(edge.source, edge.target, edge.stream, "")


def _edge(source: str, target: str, stream: str, grouping: str) -> dict[str, Any]:
    return {"source": source, "target": target, "stream": stream, "grouping": grouping}
