"""`TopologyBuilder`: from a user's declarations to an immutable, valid `Topology`."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from engine.config import Config
from engine.errors import TopologyError, UsageError
from engine.names import is_writable
from engine.raised import is_of_user_code, raised_text
from engine.topology.declarer import BoltDeclarer, SpoutDeclarer
from engine.topology.factory import BoltFactory, Factory, FactoryFault, SpoutFactory, read_attribute
from engine.topology.features import known_features, marks_of
from engine.topology.overrides import override_faults
from engine.topology.settings import collect_settings, is_count
from engine.topology.spec import ComponentSettings, ComponentSpec, InstanceFactory, Kind, Subscription, Topology
from engine.topology.stream import NO_STREAMS, Streams, declare_streams
from engine.topology.validate import graph_faults, id_faults, run_faults

MOST_TASKS: Final = 2**16
"""Tasks of one component: each is an actor with a mailbox of its own, in one process."""


class DeclaresItself(InstanceFactory, Protocol):
    """A factory that says what its instances declare."""

    def declared(self) -> object:
        """Return where the component's streams and settings can be read; raise FactoryFault."""


@dataclass(slots=True)
class Declaration:
    """One call of `set_spout` or `set_bolt`, not judged yet."""

    component_id: str
    kind: Kind
    given: object
    parallelism: int
    keywords: Mapping[str, object]
    subscriptions: list[Subscription] = field(default_factory=list)
    factory: "Factory | DeclaresItself | None" = None

    @property
    def where(self) -> str:
        return f"{self.kind} {self.component_id!r}"


class TopologyBuilder:
    """Collects the components of a topology; judges nothing until `build()`.

    `config` travels with the topology, and a run that is given no other uses it. What depends on the config `build()` judges
    by this one; where there is none, the run judges by its own.

    >>> from engine.topology import bolt, spout
    >>> @spout("number")
    ... def numbers():
    ...     yield from ((number,) for number in range(3))
    >>> @bolt()
    ... def sink(tup):
    ...     print(tup["number"])
    >>> builder = TopologyBuilder("count-to-three")
    >>> _ = builder.set_spout("numbers", numbers)
    >>> _ = builder.set_bolt("sink", sink, parallelism=2).shuffle_grouping("numbers")
    >>> builder.build().targets("numbers")
    ('sink',)
    """

    def __init__(self, name: str, config: Config | None = None) -> None:
        self.name = name
        self.config = config
        self._declarations: list[Declaration] = []

    def set_spout(self, component_id: str, factory: SpoutFactory, parallelism: int = 1, **settings: Any) -> SpoutDeclarer:
        """Declare a spout: a factory, called once for each of `parallelism` tasks: a class, a callable, or what `@spout` makes.

        Settings: `max_spout_pending`, `on_error`; each wins over the class attribute of its name.
        """
        return SpoutDeclarer(component_id, self._declare("spout", component_id, factory, parallelism, settings).subscriptions)

    def set_bolt(self, component_id: str, factory: BoltFactory, parallelism: int = 1, **settings: Any) -> BoltDeclarer:
        """Declare a bolt: a factory, called once for each of `parallelism` tasks: a class, a callable, or what `@bolt` makes.

        Settings: `concurrency`, `threads`, `on_error`, `tick_tuple_freq_secs`; each wins over the class attribute of its
        name. Subscribe it by the groupings of what this returns.
        """
        return BoltDeclarer(component_id, self._declare("bolt", component_id, factory, parallelism, settings).subscriptions)

    def build(self) -> Topology:
        """Return the topology; raise TopologyError with all faults at once, each with its fix (GRP-5).

        A factory is called here if only an instance can tell what it emits; that instance is the first one of the first run.
        """
        faults = self._own_faults()
        unknown: set[str] = set()
        components: dict[str, ComponentSpec] = {}
        for declaration in self._declarations:
            judged = self._judged(declaration)
            faults.extend(judged.faults)
            component_id: object = declaration.component_id
            if not isinstance(component_id, str):
                continue
            if component_id in components:
                faults.append(f"{declaration.where}: its id is taken by an earlier {components[component_id].kind}. Rename one of them.")
                continue
            components[component_id] = judged.spec
            if not judged.streams_known:
                unknown.add(component_id)
        topology = self._topology(MappingProxyType(components))
        faults.extend(self._graph_faults(topology, unknown))
        if isinstance(self.config, Config):
            faults.extend(run_faults(topology, self.config))
        if faults:
            raise TopologyError(faults, topology_name=self.name)
        return topology

    def _declare(self, kind: Kind, component_id: str, given: object, parallelism: int, keywords: Mapping[str, object]) -> Declaration:
        declaration = Declaration(component_id, kind, given, parallelism, dict(keywords))
        self._declarations.append(declaration)
        return declaration

    def _judged(self, declaration: "Declaration") -> "Judged":
        """Return what `_judge` does; an attribute of the user's that raises is one fault among the others."""
        try:
            return self._judge(declaration)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not is_of_user_code(error):
                raise  # no line of the user's led to it
            fault = f"{declaration.where}: looking at it raised {raised_text(error)}. Let its attributes return values."
            return Judged(_unknown(declaration), [fault], streams_known=False, declared=None)

    def _judge(self, declaration: "Declaration") -> "Judged":
        """Return the component that a declaration means, and its own faults."""
        return judge(declaration)

    def _graph_faults(self, topology: Topology, unknown: Collection[str]) -> list[str]:
        """Return what is wrong with the components together; the streams of those in `unknown` are not known."""
        return graph_faults(topology, unknown)

    def _topology(self, components: Mapping[str, ComponentSpec]) -> Topology:
        """Return the topology of these components."""
        return Topology(self.name, components, self.config, known_features())

    def _own_faults(self) -> list[str]:
        name, config = cast(object, self.name), cast(object, self.config)
        faults = []
        if not isinstance(name, str) or not name:
            faults.append(f"the name of a topology must be a non-empty str, not {name!r}. Fix TopologyBuilder(...).")
        elif not is_writable(name):
            faults.append(f"the name of a topology must be text that can be written as UTF-8, not {name!r}. Fix TopologyBuilder(...).")
        if config is not None and not isinstance(config, Config):
            faults.append(f"config must be a Config, not {config!r}. Fix TopologyBuilder(..., config=Config(...)).")
        return faults


@dataclass(frozen=True, slots=True)
class Judged:
    """What a declaration comes to."""

    spec: ComponentSpec
    faults: list[str]
    streams_known: bool
    declared: object
    """Where its attributes are read: its class or an instance, None where there is neither."""


def _unknown(declaration: Declaration) -> ComponentSpec:
    """Return a component of which nothing is known but how it was declared."""
    factory = cast(InstanceFactory, declaration.factory)
    inputs = tuple(declaration.subscriptions)
    return ComponentSpec(declaration.component_id, declaration.kind, factory, 1, NO_STREAMS, inputs, ComponentSettings())


def judge(declaration: Declaration) -> Judged:
    """Return the component that a declaration means, and its own faults; what is wrong stands at its default."""
    where = declaration.where
    faults = list(id_faults(declaration.kind, declaration.component_id))
    parallelism = declaration.parallelism
    if not is_count(parallelism, 1):
        faults.append(f"{where}: parallelism must be an integer of at least 1, not {parallelism!r}. Fix set_{declaration.kind}().")
        parallelism = 1
    elif parallelism > MOST_TASKS:
        faults.append(f"{where}: parallelism must be at most {MOST_TASKS:_}, not {parallelism!r}. Fix set_{declaration.kind}().")
        parallelism = 1
    streams: Streams | None = None
    declared: object = None
    try:
        if declaration.factory is None:
            declaration.factory = Factory(declaration.kind, declaration.component_id, declaration.given)
        declared = declaration.factory.declared()
        streams = declare_streams(read_attribute(declared, "output_fields"))
    except FactoryFault as fault:
        faults.append(f"{where}: {fault}")
    except UsageError as error:
        faults.append(f"{where}: {error.message}. {error.hint or ''}".rstrip())
    if declared is not None:
        faults.extend(override_faults(where, declared if isinstance(declared, type) else type(declared)))
    settings, setting_faults = collect_settings(declaration.kind, where, declared, declaration.keywords)
    spec = ComponentSpec(
        declaration.component_id,
        declaration.kind,
        cast(InstanceFactory, declaration.factory),
        parallelism,
        NO_STREAMS if streams is None else streams,
        tuple(declaration.subscriptions),
        settings,
        _declared_at(declared),
        marks=marks_of(declaration.kind, declared),
        chooses_tasks=declaration.kind == "spout" and getattr(declared, "chooses_tasks", False) is True,
    )
    return Judged(spec, faults + setting_faults, streams is not None, declared)


def _declared_at(declared: object) -> str:
    named = declared if isinstance(declared, type) else type(declared)
    return getattr(declared, "fields_declared_at", f"{named.__name__}.output_fields")
