"""Edges between the components of a topology, found once. A start asks for them at each of its tasks."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from engine.topology.spec import ComponentSpec, Subscription

Edge: TypeAlias = tuple[str, str]
"""(source, target), by component id."""


class Edges:
    """Edges of the components of one topology, which never change. Each answer is computed at the first question."""

    def __init__(self, components: "Mapping[str, ComponentSpec]") -> None:
        self._components = components

    def __reduce__(self) -> "tuple[type[Edges], tuple[Mapping[str, ComponentSpec]]]":
        return Edges, (self._components,)  # another process finds the answers again

    def subscriptions_to(self, component_id: str) -> "list[tuple[str, Subscription]]":
        """Return the subscribers of all streams of a component with their subscriptions, in the order of declaration."""
        return self._subscriptions.get(component_id, [])

    def targets(self, component_id: str) -> tuple[str, ...]:
        """Return the subscribers of all streams of a component, each once, in the order of declaration."""
        return tuple(dict.fromkeys(target for target, _ in self.subscriptions_to(component_id)))

    @cached_property
    def _subscriptions(self) -> "dict[str, list[tuple[str, Subscription]]]":
        found: dict[str, list[tuple[str, Subscription]]] = {}
        for component_id, spec in self._components.items():
            for subscription in spec.subscriptions:
                if not isinstance(cast(object, subscription.source), str):
                    continue  # a fault that `build` reports
                found.setdefault(subscription.source, []).append((component_id, subscription))
        return found

    @cached_property
    def closing(self) -> frozenset[Edge]:
        """The edges that close a cycle."""
        return self._search[0]

    @cached_property
    def layers(self) -> Mapping[str, int]:
        """Depth of each component, in the order of declaration."""
        closing, order = self._search
        depths = dict.fromkeys(self._components, 0)
        for source in order:
            for target in self.targets(source):
                if (source, target) not in closing:
                    depths[target] = max(depths[target], depths[source] + 1)
        return MappingProxyType(depths)

    @cached_property
    def _search(self) -> tuple[frozenset[Edge], list[str]]:
        """Search depth-first. Return the edges that close a cycle, and an order with each component before those behind it."""
        closing: set[Edge] = set()
        done: dict[str, None] = {}
        for start in sorted(self._components, key=lambda component_id: self._components[component_id].kind != "spout"):
            self._walk(start, done, closing)
        return frozenset(closing), list(reversed(done))

    def _walk(self, start: str, done: dict[str, None], closing: set[Edge]) -> None:
        """Search behind one component. A component is done after all components behind it."""
        if start in done:
            return
        path = {start: iter(self.targets(start))}
        while path:
            current, targets = next(reversed(path.items()))
            target = next(targets, None)
            if target is None:
                del path[current]
                done[current] = None
            elif target in path:
                closing.add((current, target))
            elif target not in done:
                path[target] = iter(self.targets(target))
