"""Graph of a topology. `graphlib` is the judge of cycles."""

from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Fields, Shuffle
from engine.api.fields import declare_streams
from engine.topology import ComponentSettings, ComponentSpec, Subscription, Topology

STREAMS = declare_streams(Fields("a"))


def topology_of(spouts: int, edges: dict[str, list[str]]) -> Topology:
    """Return a topology whose first `spouts` components are spouts. `edges` has the sources of each component."""
    specs = {}
    for number, (component_id, sources) in enumerate(edges.items()):
        kind = "spout" if number < spouts else "bolt"
        subscriptions = tuple(Subscription(source, "default", Shuffle()) for source in sources if kind == "bolt")
        specs[component_id] = ComponentSpec(component_id, kind, None, 1, STREAMS, subscriptions, ComponentSettings())
    return Topology("test", MappingProxyType(specs))


def edges_of(topology: Topology) -> set[tuple[str, str]]:
    return {(source.source, spec.component_id) for spec in topology.bolts for source in spec.subscriptions}


def is_acyclic(edges: set[tuple[str, str]]) -> bool:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for source, target in edges:
        sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def reaches(edges: set[tuple[str, str]], start: str, end: str) -> bool:
    seen, todo = {start}, [start]
    while todo:
        current = todo.pop()
        fresh = {target for source, target in edges if source == current} - seen
        seen |= fresh
        todo.extend(fresh)
    return end in seen


@st.composite
def topologies(draw) -> Topology:
    names = [f"c{number}" for number in range(draw(st.integers(1, 9)))]
    spouts = draw(st.integers(1, 2))
    sources = st.lists(st.sampled_from(names), max_size=4, unique=True)
    return topology_of(spouts, {name: draw(sources) for name in names})


@given(topologies())
def test_without_its_closing_edges_a_graph_has_no_cycle(topology) -> None:
    edges, closing = edges_of(topology), topology.closing_edges()
    assert closing <= edges
    assert is_acyclic(edges - closing)
    assert bool(closing) == (not is_acyclic(edges))
    for source, target in closing:
        assert reaches(edges, target, source), "a closing edge lies on a cycle"


@given(topologies())
def test_each_component_is_one_layer_below_its_deepest_source(topology) -> None:
    forward, layers = edges_of(topology) - topology.closing_edges(), topology.layers()
    assert list(layers) == list(topology.components)
    for component_id, layer in layers.items():
        assert layer == max((layers[source] + 1 for source, target in forward if target == component_id), default=0)


def test_cycles_are_searched_from_the_spouts_in_the_order_of_declaration() -> None:
    topology = topology_of(1, {"spout": [], "a": ["c"], "b": ["a", "spout"], "c": ["b"]})
    assert topology.closing_edges() == {("a", "b")}
    assert topology.layers() == {"spout": 0, "b": 1, "c": 2, "a": 3}


def test_a_self_loop_closes_itself() -> None:
    assert topology_of(1, {"spout": [], "a": ["spout", "a"]}).closing_edges() == {("a", "a")}


@pytest.mark.guarantee("GRP-3")
def test_subscribers_are_listed_in_the_order_of_declaration() -> None:
    topology = topology_of(1, {"spout": [], "b": ["spout"], "a": ["spout", "b"]})
    assert [spec.component_id for spec, _ in topology.subscribers("spout", "default")] == ["b", "a"]
    assert topology.targets("spout") == ("b", "a")
    assert topology.targets("a") == ()
