"""A topology as data: what `TopologyBuilder.build()` returns and every later layer reads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from engine.api.fields import Streams
from engine.api.grouping import Grouping
from engine.api.spout import MaxSpoutPending, OnError

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.config import Config
    from engine.topology.task_port import MakesAttendant

Kind: TypeAlias = Literal["spout", "bolt"]


class InstanceFactory(Protocol):
    """Makes the instances of one component."""

    def create(self) -> Any:
        """Return a new instance; raise what the user's code raises, or UsageError where it returns the wrong thing."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One input of a bolt: a stream of a component, and how its tuples are shared among the bolt's tasks."""

    source: str
    stream: str
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class ComponentSettings:
    """The settings of one component, from class attributes and the keywords of `set_spout` and `set_bolt`."""

    concurrency: int = 1
    threads: int = 0
    on_error: OnError | None = None
    tick_tuple_freq_secs: float | None = None
    max_spout_pending: MaxSpoutPending = None


@dataclass(frozen=True, slots=True, eq=False)
class ComponentSpec:
    """One component: how to make its instances, how many tasks it has, what it emits and takes in."""

    component_id: str
    kind: Kind
    factory: InstanceFactory
    parallelism: int
    streams: Streams
    subscriptions: tuple[Subscription, ...]
    settings: ComponentSettings
    fields_declared_at: str = "its output_fields"
    """Where a person changes `streams`, for errors: `Words.output_fields`."""
    keeps_state: bool = False
    """True for stateful bolts (CP-1)."""
    is_batched: bool = False
    """True for batch bolts (TX-5)."""
    is_committer: bool = False
    """True for batch bolts that finish in the commit phase (TX-2)."""
    keeps_position: bool = False
    """True for spouts that keep their position in the run's state provider (FC-6)."""
    feeds_one_bolt: bool = False
    """True for spouts that choose a task of the one bolt behind them (FC-1)."""
    takes_packs: bool = False
    """True for bolts that take what such a spout sends, and nothing else (FC-1)."""
    renewed_at_each_error: bool = False
    """True for components of the engine that cannot go on after an exception: under on_error="fail" each one renews the instance."""
    attendant: "MakesAttendant | None" = None
    """Who handles the control tuples of the bolt's tasks, in a run that has any."""

    def pending_bound(self, config: "Config") -> MaxSpoutPending:
        """Return what bounds the open trees of a spout's task in a run with this config.

        "auto" is no bound for a spout that chooses the task: it has a window for each of them.
        """
        own = self.settings.max_spout_pending
        bound = config.max_spout_pending if own is None else own
        return None if bound == "auto" and self.feeds_one_bolt else bound


class RunPreparation(Protocol):
    """What a run of a topology needs before it begins, beside its components."""

    async def open(self) -> "Topology":
        """Take it, and return the topology that runs; raise EngineError where it cannot be had."""

    async def close(self) -> None:
        """Give it back, when every component is closed."""


class MakesPreparation(Protocol):
    """Makes the preparation of each run of a topology."""

    def __call__(self, topology: "Topology", config: "Config", clock: "Clock") -> RunPreparation:
        """Return what a run needs before it begins."""

    def trial_faults(self, topology: "Topology") -> Iterable[str]:
        """Return what is wrong with what its runs make at their start."""


Edge: TypeAlias = tuple[str, str]
"""(source, target), by component id."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """An immutable, valid graph of components, in the order of declaration.

    `config` are the settings that travel with it; a run that is given its own uses those instead.
    """

    name: str
    components: Mapping[str, ComponentSpec]
    config: "Config | None" = None
    prepares: MakesPreparation | None = None
    """Makes the topology that runs of the one that the user described, where that is another: a transactional one."""

    @property
    def spouts(self) -> tuple[ComponentSpec, ...]:
        """The spouts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "spout")

    @property
    def bolts(self) -> tuple[ComponentSpec, ...]:
        """The bolts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "bolt")

    @property
    def keeps_something(self) -> bool:
        """True where the runs keep something in the state provider: state, positions, or how far the transactions are."""
        return self.prepares is not None or any(spec.keeps_state or spec.keeps_position for spec in self.components.values())

    def subscribers(self, component_id: str, stream: str) -> tuple[tuple[ComponentSpec, Subscription], ...]:
        """Return who takes in this stream, and how, in the order of declaration."""
        return tuple(
            (spec, subscription)
            for spec in self.components.values()
            for subscription in spec.subscriptions
            if subscription.source == component_id and subscription.stream == stream
        )

    def targets(self, component_id: str) -> tuple[str, ...]:
        """Return the components that take in any stream of this one, each once, in the order of declaration."""
        return tuple(
            spec.component_id
            for spec in self.components.values()
            if any(subscription.source == component_id for subscription in spec.subscriptions)
        )

    def late_components(self) -> frozenset[str]:
        """Return what finishes in the commit phase: committers, and what is behind one at any distance (TX-5)."""
        late = {spec.component_id for spec in self.bolts if spec.is_committer}
        waiting = list(late)
        while waiting:
            for target in self.targets(waiting.pop()):
                if target not in late:
                    late.add(target)
                    waiting.append(target)
        return frozenset(late)

    def closing_edges(self) -> frozenset[Edge]:
        """Return the edges that close a cycle: those that lead back onto the path of a depth-first walk.

        The walk starts at the spouts, in the order of declaration, then at what no spout reaches. Without these edges
        the graph has no cycle.
        """
        closing: set[Edge] = set()
        done: set[str] = set()
        for start in (*self.spouts, *self.bolts):
            self._walk(start.component_id, done, closing)
        return frozenset(closing)

    def _walk(self, start: str, done: set[str], closing: set[Edge]) -> None:
        if start in done:
            return
        path = {start: iter(self.targets(start))}
        while path:
            current, targets = next(reversed(path.items()))
            target = next(targets, None)
            if target is None:
                del path[current]
                done.add(current)
            elif target in path:
                closing.add((current, target))
            elif target not in done:
                path[target] = iter(self.targets(target))

    def layers(self) -> Mapping[str, int]:
        """Return each component's depth: 0 where nothing flows in, else one more than its deepest source, closing edges left out."""
        closing = self.closing_edges()
        depths: dict[str, int] = {}
        waiting = list(self.components)
        while waiting:
            held: list[str] = []
            for component_id in waiting:
                sources = {
                    subscription.source
                    for subscription in self.components[component_id].subscriptions
                    if subscription.source in self.components and (subscription.source, component_id) not in closing
                }
                if sources <= depths.keys():
                    depths[component_id] = 1 + max((depths[source] for source in sources), default=-1)
                else:
                    held.append(component_id)
            waiting = held
        return {component_id: depths[component_id] for component_id in self.components}
