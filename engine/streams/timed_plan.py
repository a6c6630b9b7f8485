"""Plans what runs at the emit of a source with event times: the steps in front of `event_time`, and the key behind it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.errors import UsageError
from engine.event_time import EventTime
from engine.streams.graph import ROWS, EventTimeNode, FlowGraph, Node, Port, SourceNode, StepNode
from engine.streams.readers import SourceRows
from engine.streams.steps import KeyStep
from engine.streams.timed_rows import TimedRows


@dataclass(frozen=True, slots=True)
class TimedSource:
    """The nodes that run at the emit of a source."""

    source: SourceNode
    node: EventTimeNode
    steps: tuple[StepNode, ...]
    """In front of `node`."""
    key: StepNode | None
    """Behind it, if it is the only reader."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of them."""
        return (self.source, self.node, *self.steps, *(() if self.key is None else (self.key,)))

    def event_time(self, names: Mapping[Node, str]) -> EventTime:
        """Return the event time of the source, with the rows that it makes. names: of the stages."""
        reads = SourceRows(f"source {names[self.source]!r}", self.source.row_type, self.source.value)
        steps = tuple(step.planned(names[step]) for step in self.steps)
        key = None if self.key is None else self.key.call
        return replace(
            self.node.settings, rows=TimedRows(self.source.stream, reads, steps, self.node.time, key, self.source.diverts)
        )


def timed_sources(
    graph: FlowGraph, names: Mapping[Node, str], readers: Mapping[Port, int], read: Callable[[Node], tuple[Port, ...]]
) -> dict[Node, TimedSource]:
    """Return, for each node that runs at a source with event times, what runs there. Raise UsageError for a time that is not on a source.

    readers: how many nodes read a port. read: the ports that a node reads, without merges.
    """
    found: dict[Node, TimedSource] = {}
    for node in graph.nodes:
        if isinstance(node, EventTimeNode):
            timed = _timed_source(node, names)
            for port in (*node.inputs, *(port for step in timed.steps for port in step.inputs)):
                _check_only_reader(port, names, readers)
            timed = replace(timed, key=_only_key_behind(node, graph, read))
            found |= dict.fromkeys(timed.nodes, timed)
    return found


def _timed_source(node: EventTimeNode, names: Mapping[Node, str]) -> TimedSource:
    steps: list[StepNode] = []
    (port,) = node.inputs
    while isinstance(port.node, StepNode) and not port.node.goes_along and not port.node.options and port.name == ROWS:
        steps.insert(0, port.node)
        (port,) = port.node.inputs
    source = port.node
    if not isinstance(source, SourceNode) or port.name != ROWS or any(step.call.is_class for step in steps):
        where = names[source] if not steps else names[steps[0]]
        hint = "Put it on flow.stream(...), or behind map(), filter() and flat_map() with functions and without options."
        raise UsageError(f"event_time() stands behind {where!r}, where nobody knows the partition of a row", hint=hint)
    return TimedSource(source, node, tuple(steps), None)


def _check_only_reader(port: Port, names: Mapping[Node, str], readers: Mapping[Port, int]) -> None:
    if readers[port] > 1:
        text = f"event_time() changes the tuples of source {names[port.node]!r}, and another stage reads its rows without a time"
        raise UsageError(text, hint="Let that stage read the stream behind event_time(), or make a source of its own for it.")


def _only_key_behind(node: EventTimeNode, graph: FlowGraph, read: Callable[[Node], tuple[Port, ...]]) -> StepNode | None:
    """Return the `key_by` that is the only reader of a timed stream, so that rows need no further bolt to get their keys."""
    readers = [each for each in graph.nodes if Port(node) in read(each)]
    if len(readers) != 1 or not isinstance(readers[0], StepNode) or readers[0].step is not KeyStep or readers[0].call.is_class:
        return None
    return readers[0] if readers[0].inputs == (Port(node),) else None
