"""Plans the components of a flow: which steps share a bolt, what each one is called, and who reads what. A pure function of the graph."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from engine.errors import UsageError
from engine.names import DEFAULT_STREAM, FAILED_STREAM
from engine.streams.calls import Call
from engine.streams.chain_bolt import ChainFactory, Output, Segment
from engine.streams.graph import (
    FAILED,
    ROWS,
    BoltNode,
    BranchNode,
    FlowGraph,
    Layout,
    MergeNode,
    Node,
    Port,
    SelectNode,
    SourceNode,
    StepNode,
    Wired,
)
from engine.streams.readers import FailedRows, ReadStep, SourceRows
from engine.streams.rows import ROW
from engine.streams.steps import StepPlan
from engine.streams.timed_plan import timed_sources

LONGEST_NAME: Final = 60
"""Characters of the name of fused stages. A longer one leaves out those in the middle."""

Role: TypeAlias = Literal["spout", "bolt", "committer"]


@dataclass(frozen=True, slots=True)
class Input:
    """A stream that a component reads. fields: of its fields grouping; empty for a shuffle."""

    component: str
    stream: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A component of the topology."""

    name: str
    role: Role
    factory: Any
    parallelism: int
    settings: Mapping[str, Any]
    inputs: tuple[Input, ...] = ()
    stages: tuple[str, ...] = ()
    """Names of the stages that it runs."""
    node: Node | None = None
    """Its node, if it has only one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows of a port leave a component."""

    component: str
    stream: str
    layout: Layout


@dataclass(eq=False)
class Item:
    """A port whose rows are made within a group."""

    port: Port
    steps: list[StepPlan] = field(default_factory=list)
    parts: list["Item"] = field(default_factory=list)
    leaves: bool = False
    """True: another component reads it."""


@dataclass(eq=False)
class Group:
    """Steps that share a bolt: a tree of items."""

    root: Item
    inputs: tuple[Port, ...]
    """What it reads, without merges. A foreign port, of which its first step makes rows, is the only one."""
    nodes: list[Node] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


def plan(graph: FlowGraph) -> list[Planned]:
    """Return the components of a flow, each behind those that it reads. Raise UsageError for streams that do not fit together."""
    return _Plan(graph).components()


class _Plan:
    """The tables that a plan fills, in the order of the nodes."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self.names = stage_names(graph)
        self._readers = Counter(port for node in graph.nodes for port in self._read(node))
        self._layouts: dict[Port, Layout] = {}
        self._items: dict[Port, tuple[Group, Item]] = {}
        self._foreign: dict[Port, Group] = {}
        """Groups that make rows of foreign tuples, by the port that emits these."""
        self._order: list[Group | Node] = []
        self._timed = timed_sources(graph, self.names, self._readers, self._read)
        """The sources with event times, and the nodes that run there."""

    def components(self) -> list[Planned]:
        for node in self._graph.nodes:
            self._take(node)
        self._name_groups()
        found: list[Planned] = []
        for each in self._order:
            planned = self._group(each) if isinstance(each, Group) else self._component(each)
            if planned is not None and all(planned.name != other.name for other in found):
                found.append(planned)  # two streams of one spout are one component
        return found

    # Groups

    def _take(self, node: Node) -> None:
        """Put a node into a group, or into the order of components."""
        if isinstance(node, SourceNode):
            self._order.append(node)
        elif node in self._timed:
            return
        elif isinstance(node, (StepNode, BranchNode)):
            self._place_step(node)
        elif isinstance(node, BoltNode):
            for port in self._read(node):
                self._let_leave(port)
            self._order.append(node)

    def _place_step(self, node: "StepNode | BranchNode") -> None:
        ports = self._read(node)
        found = self._open_group(node, ports)
        if found is None:
            item = Item(ports[0])
            group = Group(item, ports, options=node.options)
            for port in ports:
                self._let_leave(port)
            self._order.append(group)
        else:
            group, item = found
            if not group.nodes:
                group.options = node.options
        group.nodes.append(node)
        if isinstance(node, StepNode):
            made = Item(Port(node), [node.planned(self.names[node])])
            item.parts.append(made)
            self._items[made.port] = group, made
        else:
            for number in range(len(node.calls) + 1):
                made = Item(Port(node, str(number)))
                item.parts.append(made)
                self._items[made.port] = group, made

    def _open_group(self, node: "StepNode | BranchNode", ports: tuple[Port, ...]) -> tuple[Group, Item] | None:
        """Return the group that a step joins, and the item that it reads. None: it begins one."""
        if len(ports) > 1:
            return None
        goes_along = isinstance(node, StepNode) and node.goes_along
        if self._is_foreign(ports[0]):
            group = self._foreign_group(ports[0])
            is_alone = self._readers[ports[0]] == 1 and not node.diverts  # what diverts needs rows as its input
            joins = not group.options and (not node.options or is_alone)
            return (group, group.root) if joins else None
        found = self._items.get(ports[0])
        if found is None or node.options or (found[0].options and not goes_along) or found[0].options.get("threads"):
            return None  # a bolt with threads has one output
        return found

    def _foreign_group(self, port: Port) -> Group:
        """Return the group that makes rows of the tuples of a port."""
        group = self._foreign.get(port)
        if group is None:
            if port.name == FAILED and isinstance(port.node, SourceNode) and port.node not in self._timed:
                self._foreign_group(Port(port.node))  # which diverts them
            group = self._foreign[port] = Group(Item(port, [self._read_step(port)]), (port,), options=_source_options(port))
            self._order.append(group)
        return group

    def _read_step(self, port: Port) -> StepPlan:
        node = port.node
        stage = f"{self.names[node]}-rows"
        if port.name == FAILED:
            return StepPlan(f"{self.names[node]}-failed", ReadStep, Call(FailedRows(self.names[node])))
        if isinstance(node, SourceNode):
            return StepPlan(stage, ReadStep, Call(SourceRows(f"source {self.names[node]!r}", node.row_type, node.value)))
        return StepPlan(stage, ReadStep, Call(SourceRows(f"stage {self.names[node]!r}", node.row_type)))

    def _is_foreign(self, port: Port) -> bool:
        if port.node in self._timed and port.name == ROWS:
            return False
        return port.name == FAILED or isinstance(port.node, SourceNode) or (isinstance(port.node, BoltNode) and port.node.is_raw)

    def _read(self, node: Node) -> tuple[Port, ...]:
        """Return the ports that a node reads, without merges."""
        return tuple(dict.fromkeys(port for given in node.inputs for port in _unmerged(given)))

    def _let_leave(self, port: Port) -> None:
        """Note that the rows of a port leave their component."""
        if self._is_foreign(port):
            self._foreign_group(port).root.leaves = True
        elif port in self._items:
            self._items[port][1].leaves = True

    # Names and layouts

    def _name_groups(self) -> None:
        taken = {*self.names.values()}
        for each in self._order:
            if isinstance(each, Group):
                shown = [node for node in each.nodes if not isinstance(node, SelectNode)] or each.nodes
                stages = [self.names[node] for node in shown] or [each.root.steps[0].stage]
                name = stages[0] if len(stages) == 1 else _joined(stages)
                each.name = name if len(stages) == 1 and each.nodes else _free(name, taken)
                taken.add(each.name)

    def _layout(self, port: Port) -> Layout:
        if port.name == FAILED:
            return (ROW,)
        if port not in self._layouts:
            self._layouts[port] = port.node.port_layout(port.name, [self._layout(each) for each in port.node.inputs])
        return self._layouts[port]

    def _place(self, port: Port) -> Place:
        """Return where the rows of a port leave their component."""
        if port.node in self._timed and port.name == ROWS:
            source = self._timed[port.node].source
            return Place(self.names[source], source.stream, self._layout(port))
        if self._is_foreign(port):
            group = self._foreign[port]
            item = group.root
        elif port in self._items:
            group, item = self._items[port]
        else:
            stream = DEFAULT_STREAM if port.name == ROWS else port.name
            return Place(self.names[port.node], stream, self._layout(port))
        return Place(group.name, self._stream(group, item), self._layout(port))

    def _stream(self, group: Group, item: Item) -> str:
        """Return the stream on which an item leaves: `default` for the first one, else a name of its stage."""
        leaving = [each for each in _items(group.root) if each.leaves]
        if not leaving or leaving[0] is item:
            return DEFAULT_STREAM
        return f"{self.names[item.port.node]}-{item.port.name}"

    # Components

    def _group(self, group: Group) -> Planned:
        self._check_diverts(group.nodes[0] if group.nodes else group.inputs[0].node, group.options)
        stages = tuple(self.names[node] for node in group.nodes) or (group.root.steps[0].stage,)
        settings, parallelism = _settings(group.options)
        in_threads = bool(settings.get("threads"))
        factory = ChainFactory(self._segment(group, group.root), in_threads)
        return Planned(group.name, "bolt", factory, parallelism, settings, self._group_inputs(group), stages)

    def _group_inputs(self, group: Group) -> tuple[Input, ...]:
        first = group.inputs[0]
        if group is self._foreign.get(first):
            return (self._foreign_input(first),)
        places = [self._place(port) for port in group.inputs]
        return tuple(Input(place.component, place.stream) for place in places)

    def _foreign_input(self, port: Port) -> Input:
        """Return the stream of foreign tuples."""
        node = port.node
        if port.name == FAILED and not isinstance(node, BoltNode) and node not in self._timed:
            group = self._foreign[Port(node)] if isinstance(node, SourceNode) else self._items[Port(node)][0]
            return Input(group.name, FAILED_STREAM)
        stream = FAILED_STREAM if port.name == FAILED else node.stream if isinstance(node, SourceNode) else DEFAULT_STREAM
        return Input(self.names[node], stream)

    def _segment(self, group: Group, item: Item) -> Segment:
        steps, parts = list(item.steps), item.parts
        output = None
        if item.leaves:
            node = item.port.node
            output = Output(self._stream(group, item), self._layout(item.port), isinstance(node, SelectNode))
        branches = [part for part in parts if isinstance(part.port.node, BranchNode)]
        plain = [part for part in parts if part not in branches]
        followers = [(0, self._segment(group, part)) for part in plain]
        for node in dict.fromkeys(part.port.node for part in branches):
            assert isinstance(node, BranchNode)
            of_branch = tuple((int(part.port.name), self._segment(group, part)) for part in branches if part.port.node is node)
            followers.append((0, Segment((), None, (self.names[node], node.calls), of_branch)))
        if len(followers) == 1 and output is None:  # one behind the other
            (_, only), = followers
            return Segment((*steps, *only.steps), only.output, only.predicates, only.parts)
        return Segment(tuple(steps), output, None, tuple(followers))

    def _component(self, node: Node) -> Planned | None:
        name = self.names[node]
        if isinstance(node, SourceNode):
            settings = {**node.spout_settings, **self._event_time(node)}
            return Planned(name, "spout", node.factory, node.parallelism, settings, stages=(name,), node=node)
        assert isinstance(node, BoltNode)
        self._check_diverts(node, node.options)
        wired = [self._wired(port) for port in node.inputs]
        inputs = tuple(Input(component, stream, node.grouped_by(each.layout)) for each in wired for component, stream in each.sources)
        settings, parallelism = _settings(node.options)
        role: Role = "committer" if node.commits else "bolt"
        return Planned(name, role, node.factory(name, wired), parallelism, settings, inputs, (name,), node)

    def _event_time(self, node: SourceNode) -> dict[str, Any]:
        """Return the event time of a spout, of which one stream may be timed. A spout has one watermark, so two cannot be."""
        name = self.names[node]
        timed = [each for each in self._timed if isinstance(each, SourceNode) and self.names[each] == name]
        if len(timed) > 1:
            text = f"source {name!r} has event_time() on two streams of its spout, {timed[0].stream!r} and {timed[1].stream!r}"
            raise UsageError(text, hint="Put it on one of them, or give the other one a source with another name: flow.stream(...).")
        if not timed:
            return {}
        self._check_diverts(timed[0], timed[0].options)
        return {"event_time": self._timed[timed[0]].event_time(self.names)}

    def _wired(self, port: Port) -> Wired:
        """Return one input of a bolt."""
        places = [self._place(each) for each in dict.fromkeys(_unmerged(port))]
        return Wired(self._layout(port), tuple((place.component, place.stream) for place in places))

    def _check_diverts(self, node: Node, options: Mapping[str, Any]) -> None:
        if options.get("on_error") == "divert" and not any(Port(node, FAILED) in each.inputs for each in self._graph.nodes):
            name = self.names[node]
            hint = f"Write stage.failed.sink(...) behind {name!r}, or leave on_error='divert' out."
            text = f"stage {name!r}: on_error='divert' sends the rows that fail to its stream failed, which nobody reads"
            raise UsageError(text, hint=hint)


def stage_names(graph: FlowGraph) -> dict[Node, str]:
    """Return the name of each node: the user's, else one of its kind and function, with a number if it is taken."""
    given: dict[str, Node] = {}
    names: dict[Node, str] = {}
    for node in graph.nodes:
        if node.name is None:
            continue
        other = given.setdefault(node.name, node)
        if other is not node and not _is_same_spout(node, other):
            raise UsageError(f"flow {graph.name!r} has two stages called {node.name!r}", hint="Give each stage a name of its own.")
        names[node] = node.name
    taken = {*given}
    for node in graph.nodes:
        if node.name is None:
            names[node] = _free(node.default_name, taken)
            taken.add(names[node])
    return names


def _is_same_spout(node: Node, other: Node) -> bool:
    """Tell whether two sources are streams of the same spout."""
    if not (isinstance(node, SourceNode) and isinstance(other, SourceNode)):
        return False
    return node.factory is other.factory and node.stream != other.stream


def _unmerged(port: Port) -> Iterator[Port]:
    if isinstance(port.node, MergeNode):
        for each in port.node.inputs:
            yield from _unmerged(each)
    else:
        yield port


def _items(item: Item) -> Iterator[Item]:
    yield item
    for part in item.parts:
        yield from _items(part)


def _source_options(port: Port) -> Mapping[str, Any]:
    """Return the options of the rows of a source. The rows of other foreign tuples have none."""
    return port.node.options if port.name == ROWS and isinstance(port.node, SourceNode) else {}


def _settings(options: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the settings of `set_bolt`, and the parallelism."""
    settings = dict(options)
    parallelism = settings.pop("parallelism", 1)
    return settings, parallelism


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: with the first free number from 2 on."""
    return name if name not in taken else next(free for number in count(2) if (free := f"{name}-{number}") not in taken)


def _joined(stages: list[str]) -> str:
    """Return one name for several stages."""
    whole = "+".join(stages)
    return whole if len(whole) <= LONGEST_NAME else f"{stages[0]}+{len(stages) - 2}+{stages[-1]}"
