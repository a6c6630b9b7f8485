"""Immutable description of a topology: the result of `TopologyBuilder.build()`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, cast

from engine.api.context import TaskContext
from engine.api.fields import Fields, Streams
from engine.api.grouping import Grouping
from engine.api.spout import MaxSpoutPending, OnError
from engine.config import Config
from engine.errors import UsageError
from engine.event_time import EventTime
from engine.names import is_reserved

Kind: TypeAlias = Literal["spout", "bolt"]


class InstanceFactory(Protocol):
    """Makes the instances of one component."""

    def create(self) -> Any:
        """Return a new instance. Raises the errors of the user's factory, and UsageError if the factory returns another object."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One input of a bolt: a stream of a component, and its grouping."""

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
    processes: bool = False
    retries: int = 0
    event_time: EventTime | None = None
    """Where the rows of a spout have their times. None: they have none."""
    diverts: bool = False
    """True for on_error="divert". Then `on_error` is "fail", because the instance continues."""

    @property
    def holds_calls(self) -> bool:
        """True if a call of the bolt must have no effect when it raises, so its emits leave only when it returns (SV-13)."""
        return self.retries > 0 or self.diverts


@dataclass(frozen=True, slots=True, eq=False)
class ComponentSpec:
    """One component: the factory of its instances, the number of its tasks, its streams and its inputs."""

    component_id: str
    kind: Kind
    factory: InstanceFactory
    parallelism: int
    streams: Streams
    subscriptions: tuple[Subscription, ...]
    settings: ComponentSettings
    fields_declared_at: str = "its output_fields"
    """Place where a user changes `streams`, for error texts: `Words.output_fields`."""
    marks: frozenset[str] = frozenset()
    """Class attributes that features have registered, and that are True for this component."""
    chooses_tasks: bool = False
    """True for spouts that choose the task of each tuple.

    Such a spout has a window for each task, so max_spout_pending="auto" does not limit it.
    """
    knows_its_end: bool = False
    """True for spouts that override `caught_up`, and so are idle by knowledge (ET-3)."""
    replaced_at_each_error: bool = False
    """True for components of the engine that cannot continue after an exception. Then on_error="fail" replaces the instance."""
    is_replaced: bool = False
    """True for components that a feature replaces in each run. The factory is not called for a trial."""
    control_handler: "MakesControlHandler | None" = None
    """Makes the handler of the control tuples of each instance of a bolt."""
    source_handler: "MakesSourceHandler | None" = None
    """Makes the handler of a task of a spout whose positions are in the checkpoint."""
    keeps_state: bool = False
    """True for bolts whose control handler keeps their state, or their output. Only what it commits is progress."""
    holds_acks: bool = False
    """True for spouts that are told of an ack when the effects of its tree are committed (EO-4)."""
    has_effects: bool = False
    """True for bolts that keep something of their inputs, in a state, a committer, or until a tick.

    A row that has reached such a bolt cannot be retried alone, because nothing could take it out again (EO-6).
    """
    progress: str = "settling a tuple"
    """Description of the progress that prevents a death from counting as a failed restart, for error texts."""
    label: str = ""
    """Text below the id in drawings. Empty: `bolt × 4`."""
    is_outlined: bool = False
    """True: drawings outline the component."""

    given_fields: Fields | None = None
    """Fields of the values that the spout emits, if it makes other rows of them (`EventTime.rows`)."""

    @property
    def timed_streams(self) -> tuple[str, ...]:
        """Streams of a spout whose rows have times."""
        rows = None if self.settings.event_time is None else self.settings.event_time.rows
        if rows is not None:
            return (rows.stream,)
        return tuple(name for name in self.streams if not is_reserved(name))

    @property
    def where(self) -> str:
        """Return the place for error texts: `bolt 'count'`."""
        return f"{self.kind} {self.component_id!r}"

    def pending_bound(self, config: Config) -> MaxSpoutPending:
        """Return the bound of the open trees of a spout's task in a run with this config."""
        own = self.settings.max_spout_pending
        bound = config.max_spout_pending if own is None else own
        return None if bound == "auto" and self.chooses_tasks else bound


BATCHED: Final = "is_batched"
"""Class attribute of batch bolts, which have one instance for each batch or checkpoint interval (TX-5, EO-9)."""
COMMITTER: Final = "is_committer"
"""Class attribute of batch bolts whose `finish_batch` waits until the batch or the checkpoint counts (TX-2, EO-9)."""
AT_CHECKPOINTS: Final = "at_checkpoints"
"""Mark of the batch bolts of a topology without batches, whose batches are the intervals between its checkpoints (EO-9)."""


class MakesControlHandler(Protocol):
    """Makes the control handler of each instance of one bolt."""

    def __call__(self, bolt: Any, context: TaskContext, port: Any, task_ids: Mapping[str, tuple[int, ...]]) -> Any:
        """Return a new `ControlHandler` for an instance. port: its `BoltPort`. task_ids: by component id."""


class MakesSourceHandler(Protocol):
    """Makes the handler of each task of a spout."""

    def __call__(self, task_index: int, port: Any) -> Any:
        """Return a new `SourceHandler`. port: the `SpoutPort` of the task."""


class TopologyFeature:
    """Part of a feature that validates topologies. The engine calls features only through these methods.

    A feature overrides the methods that it needs. `engine.control.Feature` adds the methods that a run calls.
    """

    name: ClassVar[str] = ""
    """Unique among the features of a topology."""
    marks: ClassVar[Mapping[Kind, tuple[str, ...]]] = MappingProxyType({})
    """Class attributes of components that the feature reads, by kind. The builder stores those that are True in `ComponentSpec.marks`."""

    def graph_faults(self, topology: "Topology") -> Iterable[str]:
        """Return the faults that no config can correct. `TopologyBuilder.build` calls this."""
        return ()

    def run_faults(self, topology: "Topology", config: Config) -> Iterable[str]:
        """Return the faults of a topology with this config. `build` and each new run call this."""
        return ()

    def trial_faults(self, topology: "Topology") -> Iterable[str]:
        """Return the faults of the objects that a run makes at its start. The command `check` calls this."""
        return ()

    def stored(self, topology: "Topology") -> Iterable[str]:
        """Return descriptions of the data that runs store: `the state of 'count'`. If there are any, a run opens the state provider."""
        return ()


class ChecksItsPlace:
    """Base of component classes of the engine with rules for their inputs, such as `WindowedBolt`."""

    @staticmethod
    def place_faults(declared: Any, spec: ComponentSpec, topology: "Topology") -> Iterable[str]:
        """Return the faults of a component in a topology. `TopologyBuilder.build` calls this. declared: its class, or an instance."""
        raise NotImplementedError


Edge: TypeAlias = tuple[str, str]
"""(source, target), by component id."""


class _Edges:
    """Edges between the components of one topology, which never change. Found once, because a start asks at each of its tasks."""

    def __init__(self, components: Mapping[str, ComponentSpec]) -> None:
        self._components = components

    def __reduce__(self) -> "tuple[type[_Edges], tuple[Mapping[str, ComponentSpec]]]":
        return _Edges, (self._components,)  # another process finds the answers again

    def subscriptions_to(self, component_id: str) -> list[tuple[str, Subscription]]:
        """Return the subscribers of all streams of a component with their subscriptions, in the order of declaration."""
        return self._subscriptions.get(component_id, [])

    def targets(self, component_id: str) -> tuple[str, ...]:
        """Return the subscribers of all streams of a component, each once, in the order of declaration."""
        return tuple(dict.fromkeys(target for target, _ in self.subscriptions_to(component_id)))

    @cached_property
    def _subscriptions(self) -> dict[str, list[tuple[str, Subscription]]]:
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


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """An immutable, valid graph of components, in the order of declaration.

    `config` holds the settings of the topology. A run with a config of its own ignores it.
    """

    name: str
    components: Mapping[str, ComponentSpec]
    config: Config | None = None
    features: tuple[TopologyFeature, ...] = ()
    """Features that validate the topology and take part in its runs."""
    _edges: _Edges = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_edges", _Edges(self.components))

    @property
    def spouts(self) -> tuple[ComponentSpec, ...]:
        """The spouts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "spout")

    @property
    def bolts(self) -> tuple[ComponentSpec, ...]:
        """The bolts, in the order of declaration."""
        return tuple(spec for spec in self.components.values() if spec.kind == "bolt")

    @property
    def stored(self) -> tuple[str, ...]:
        """Descriptions of the data that runs store. Empty: a run needs no state provider."""
        return tuple(text for feature in self.features for text in feature.stored(self))

    def with_feature(self, added: TopologyFeature) -> "Topology":
        """Return the topology with one more feature. The new feature replaces a feature of the same name.

        `build` reads the marks and calls `graph_faults`. So a feature that is added to the result of `build` must report its faults in
        `run_faults`. Raises UsageError if `added` is not a TopologyFeature.
        """
        if not isinstance(cast(object, added), TopologyFeature):
            raise UsageError(f"with_feature() takes a TopologyFeature, not {added!r}", hint="Write topology.with_feature(MyFeature()).")
        if all(feature.name != added.name for feature in self.features):
            return replace(self, features=(*self.features, added))
        return replace(self, features=tuple(added if feature.name == added.name else feature for feature in self.features))

    def subscribers(self, component_id: str, stream: str) -> tuple[tuple[ComponentSpec, Subscription], ...]:
        """Return the subscribers of this stream with their subscriptions, in the order of declaration."""
        return tuple(
            (self.components[target], subscription)
            for target, subscription in self._edges.subscriptions_to(component_id)
            if subscription.stream == stream
        )

    def targets(self, component_id: str) -> tuple[str, ...]:
        """Return the components that subscribe to any stream of this one, each once, in the order of declaration."""
        return self._edges.targets(component_id)

    def closing_edges(self) -> frozenset[Edge]:
        """Return the edges that close a cycle, which are the back edges of a depth-first search.

        The search starts at the spouts, in the order of declaration, and then at components that no spout reaches. Without these edges
        the graph has no cycle.
        """
        return self._edges.closing

    def layers(self) -> Mapping[str, int]:
        """Return the depth of each component, without the edges that close a cycle.

        A component without inputs has depth 0. Any other component is one level below its deepest source.
        """
        return self._edges.layers
