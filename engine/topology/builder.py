"""`TopologyBuilder`: collects declarations of components, and builds a valid, immutable `Topology`."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol, Unpack, cast

from engine.api.arguments import count_from
from engine.api.bolt import BoltFactory
from engine.api.fields import NO_STREAMS, Streams, declare_streams
from engine.api.spout import Spout, SpoutFactory
from engine.config import Config
from engine.errors import TopologyError, UsageError
from engine.names import is_writable, plain_text
from engine.raised import is_of_user_code, raised_text
from engine.topology.declarer import BoltDeclarer, SpoutDeclarer
from engine.topology.diverting import with_failed_stream
from engine.topology.factory import Factory, FactoryFault, read_attribute
from engine.topology.features import known_features, marks_of
from engine.topology.overrides import override_faults
from engine.topology.process_factory import process_faults
from engine.topology.settings import BoltSettings, SpoutSettings, collect_settings
from engine.topology.spec import (
    AT_CHECKPOINTS,
    BATCHED,
    COMMITTER,
    ChecksItsPlace,
    ComponentSettings,
    ComponentSpec,
    InstanceFactory,
    Kind,
    Subscription,
    Topology,
)
from engine.topology.timed_rows import with_timed_rows
from engine.topology.validate import graph_faults, id_faults, run_faults

MOST_TASKS: Final = 2**16
"""Limit of the tasks of one component. Each task is an actor with its own mailbox, in one process."""


class DeclaresItself(InstanceFactory, Protocol):
    """Factory that itself declares streams and settings, for other builders."""

    def declared(self) -> object:
        """Return an object whose attributes declare streams and settings. Raise FactoryFault if there is none."""


@dataclass(slots=True)
class Declaration:
    """One call of `set_spout` or `set_bolt`, not checked yet."""

    component_id: str
    kind: Kind
    given: object
    parallelism: int
    keywords: Mapping[str, object]
    commits: bool = False
    """True: `set_committer` has declared it."""
    subscriptions: list[Subscription] = field(default_factory=list)
    factory: "Factory | DeclaresItself | None" = None

    @property
    def where(self) -> str:
        return f"{self.kind} {self.component_id!r}"


class TopologyBuilder:
    """Collects the components of a topology. `build()` checks all of them.

    `name` is a non-empty string, for logs and metrics. `config` belongs to the topology: a run without another config uses it, and
    `build()` checks the rules that depend on a config. Without a config these rules are checked when a run starts.

    >>> from engine import TopologyBuilder, bolt, spout
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
        self.name: str = plain_text(name)
        self.config = config
        self._declarations: list[Declaration] = []

    def set_spout(self, component_id: str, factory: SpoutFactory, parallelism: int = 1, **settings: Unpack[SpoutSettings]) -> SpoutDeclarer:
        """Declare a spout with `parallelism` tasks.

        `component_id` is a non-empty string that does not begin with `__` or `$`. `factory` is a class, a callable without arguments, or
        the result of `@spout`. The engine calls it for each instance of a task. The settings `max_spout_pending` and `on_error` override
        the class attributes of the same name. Nothing is raised here: `build()` reports all faults.
        """
        return SpoutDeclarer(component_id, self._declare("spout", component_id, factory, parallelism, settings).subscriptions)

    def set_bolt(self, component_id: str, factory: BoltFactory, parallelism: int = 1, **settings: Unpack[BoltSettings]) -> BoltDeclarer:
        """Declare a bolt with `parallelism` tasks. Subscribe it to streams with the grouping methods of the result.

        Ids and factories are as in `set_spout`. The settings `concurrency`, `threads`, `on_error`, `retries` and
        `tick_tuple_freq_secs` override the class attributes of the same name. A call that raises runs again up to `retries` times.
        `on_error="divert"` then sends the input to the stream `failed`, and needs a subscriber there. `processes=True`
        gives the instance of each task a process of its own, so that its computation uses another core. Such an instance shares no
        variables with the run. Nothing is raised here: `build()` reports all faults.

        >>> from engine import TopologyBuilder, bolt
        >>> from engine.testing import Capture, Feeder, run_topology
        >>> @bolt("number")
        ... def parse(tup):
        ...     return (int(tup["text"]),)
        >>> texts, failed = Feeder("text"), Capture()
        >>> builder = TopologyBuilder("example")
        >>> _ = builder.set_spout("texts", texts)
        >>> _ = builder.set_bolt("parse", parse, retries=2, on_error="divert").shuffle_grouping("texts")
        >>> _ = builder.set_bolt("quarantine", failed).shuffle_grouping("parse", stream="failed")
        >>> _ = texts.feed(("two",))
        >>> texts.close()
        >>> _ = run_topology(builder.build())
        >>> failed.values
        [('parse', 2, "ValueError: invalid literal for int() with base 10: 'two'", 3, {'text': 'two'})]
        """
        return BoltDeclarer(component_id, self._declare("bolt", component_id, factory, parallelism, settings).subscriptions)

    def set_committer(
        self, component_id: str, factory: BoltFactory, parallelism: int = 1, **settings: Unpack[BoltSettings]
    ) -> BoltDeclarer:
        """Declare a committer, which publishes its rows exactly once, when the checkpoint of their interval counts (EO-9).

        `factory` makes a committer, such as `ReduceInto`, `SqlCommitter`, `FileCommitter` or `KafkaCommitter`, or a class of your own that
        derives from `Committer`. There is one instance for each interval between two checkpoints. No bolt can subscribe to it. Ids and
        settings are as in `set_bolt`. In a transactional topology the intervals are its batches (TX-2).

        >>> from engine import TopologyBuilder
        >>> from engine.testing import Feeder, run_topology
        >>> from engine.transactional.values import MemoryValues, ReduceInto
        >>> words, totals = Feeder("word"), MemoryValues("totals")
        >>> builder = TopologyBuilder("example")
        >>> _ = builder.set_spout("words", words)
        >>> _ = builder.set_committer("totals", ReduceInto(totals, key="word"), 2).fields_grouping("words", "word")
        >>> _ = words.feed(("to",)), words.feed(("be",)), words.feed(("to",))
        >>> words.close()
        >>> run_topology(builder.build()).state
        'complete'
        """
        return BoltDeclarer(component_id, self._declare("bolt", component_id, factory, parallelism, settings, commits=True).subscriptions)

    def build(self) -> Topology:
        """Return the topology. Raise TopologyError with all faults at once, each with its fix (GRP-5).

        A factory is called here if only an instance knows its `output_fields`. The first run uses that instance.
        """
        faults = self._own_faults()
        unknown: set[str] = set()
        components: dict[str, ComponentSpec] = {}
        declared: dict[str, object] = {}
        for declaration in self._declarations:
            judged = self._judged(declaration)
            faults.extend(judged.faults)
            component_id: object = declaration.component_id
            if not isinstance(component_id, str):
                continue
            if component_id in components:
                faults.append(f"{declaration.where}: an earlier {components[component_id].kind} has the same id. Rename one of them.")
                continue
            components[component_id], declared[component_id] = judged.spec, judged.declared
            if not judged.streams_known:
                unknown.add(component_id)
        topology = self._topology(MappingProxyType(components))
        faults.extend(self._graph_faults(topology, unknown))
        for component_id, spec in components.items():
            faults.extend(_place_faults(spec, declared[component_id], topology))
        if isinstance(self.config, Config):
            faults.extend(run_faults(topology, self.config))
        if faults:
            raise TopologyError(faults, topology_name=self.name)
        return topology

    def _declare(
        self, kind: Kind, component_id: str, given: object, parallelism: int, keywords: Mapping[str, object], *, commits: bool = False
    ) -> Declaration:
        declaration = Declaration(plain_text(component_id), kind, given, parallelism, dict(keywords), commits)
        self._declarations.append(declaration)
        return declaration

    def _judged(self, declaration: "Declaration") -> "Judged":
        """Call `_judge`. An attribute of user code that raises becomes a fault."""
        try:
            return self._judge(declaration)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not is_of_user_code(error):
                raise  # a bug of the engine: no line of user code is in the traceback
            fault = f"{declaration.where}: reading its attributes raised {raised_text(error)}. Make the attributes return values."
            return Judged(_unknown(declaration), [fault], streams_known=False, declared=None)

    def _judge(self, declaration: "Declaration") -> "Judged":
        """Return the component of a declaration, and its own faults. Other builders have other rules."""
        judged = judge(declaration)
        return replace(judged, spec=_at_checkpoints(judged.spec)) if BATCHED in judged.spec.marks else judged

    def _graph_faults(self, topology: Topology, unknown: Collection[str]) -> list[str]:
        """Return the faults of the graph. Streams of the components in `unknown` are not known, so they are not checked."""
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
            faults.append(f"the name of a topology must be text that UTF-8 can encode, not {name!r}. Fix TopologyBuilder(...).")
        if config is not None and not isinstance(config, Config):
            faults.append(f"config must be a Config, not {config!r}. Fix TopologyBuilder(..., config=Config(...)).")
        return faults


@dataclass(frozen=True, slots=True)
class Judged:
    """Component of a declaration, and its faults."""

    spec: ComponentSpec
    faults: list[str]
    streams_known: bool
    declared: object
    """Class or instance whose attributes declare the component. None if the factory is wrong."""


def _place_faults(spec: ComponentSpec, declared: object, topology: Topology) -> Iterable[str]:
    """Return the faults that a component finds in its place, if its class knows rules for it."""
    component_class = declared if isinstance(declared, type) else type(declared)
    return component_class.place_faults(declared, spec, topology) if issubclass(component_class, ChecksItsPlace) else ()


def _unknown(declaration: Declaration) -> ComponentSpec:
    """Return a component with the values of the declaration, and defaults for the rest."""
    factory = cast(InstanceFactory, declaration.factory)
    inputs = tuple(declaration.subscriptions)
    return ComponentSpec(declaration.component_id, declaration.kind, factory, 1, NO_STREAMS, inputs, ComponentSettings())


def _at_checkpoints(spec: ComponentSpec) -> ComponentSpec:
    """Return a batch bolt of a topology without batches, whose batches are the intervals between checkpoints."""
    spec = replace(spec, marks=spec.marks | {AT_CHECKPOINTS})
    if COMMITTER in spec.marks:
        return replace(spec, label=f"committer × {spec.parallelism}", is_outlined=True)
    return spec


def judge(declaration: Declaration) -> Judged:
    """Return the component of a declaration, and its own faults. Defaults replace invalid values."""
    where = declaration.where
    faults = list(id_faults(declaration.kind, declaration.component_id))
    parallelism = count_from(declaration.parallelism, 1)
    if parallelism is None:
        given = declaration.parallelism
        faults.append(f"{where}: parallelism must be an integer of at least 1, not {given!r}. Fix set_{declaration.kind}().")
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
    if settings.diverts and streams is not None:
        streams, stream_faults = with_failed_stream(where, streams, _declared_at(declared))
        setting_faults += stream_faults
    streams, given_fields, time_faults = with_timed_rows(where, streams, settings.event_time)
    setting_faults += time_faults
    if settings.processes and declared is not None:
        setting_faults.extend(process_faults(where, declared, declaration.factory))
    marks, commit_faults = _marks(declaration, declared)
    spec = ComponentSpec(
        declaration.component_id,
        declaration.kind,
        cast(InstanceFactory, declaration.factory),
        parallelism,
        NO_STREAMS if streams is None else streams,
        tuple(declaration.subscriptions),
        settings,
        _declared_at(declared),
        marks=marks,
        given_fields=given_fields,
        chooses_tasks=declaration.kind == "spout" and getattr(declared, "chooses_tasks", False) is True,
        knows_its_end=declaration.kind == "spout" and _overrides_caught_up(declared),
    )
    return Judged(spec, faults + setting_faults + commit_faults, streams is not None, declared)


def _overrides_caught_up(declared: object) -> bool:
    own = getattr(declared, "caught_up", Spout.caught_up)
    return getattr(own, "__func__", own) is not Spout.caught_up


def _marks(declaration: Declaration, declared: object) -> tuple[frozenset[str], list[str]]:
    """Return the marks of a component, and the fault of a committer that is no batch bolt."""
    marks = marks_of(declaration.kind, declared)
    if not declaration.commits or declared is None:
        return marks, []
    if BATCHED not in marks:
        text = f"{_name_of(declared)} is no batch bolt, so it cannot commit. Derive it from Committer or BatchBolt."
        return marks - {COMMITTER}, [f"{declaration.where}: {text}"]
    return marks | {COMMITTER}, []


def _declared_at(declared: object) -> str:
    return getattr(declared, "fields_declared_at", f"{_name_of(declared)}.output_fields")


def _name_of(declared: object) -> str:
    return declared.__name__ if isinstance(declared, type) else type(declared).__name__
