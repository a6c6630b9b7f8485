"""The graph of a flow: immutable nodes, each with the ports that it reads.

There are five shapes of nodes, and the plan knows no others:

- a `SourceNode` is a spout, whose tuples become rows;
- a `StepNode` is stateless work over rows, and shares a bolt with its neighbours, as a `BranchNode` does;
- an `EventTimeNode` and the steps in front of it run at the source;
- a `MergeNode` joins streams, and needs no bolt;
- a `BoltNode` has a bolt of its own: it makes the factory, and says which fields it emits.

A new kind of stage derives from `StepNode` or `BoltNode`. `plan.py` and `build.py` stay as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from engine.config import Config
from engine.errors import UsageError
from engine.event_time import EventTime
from engine.streams.calls import Call
from engine.streams.rows import KEY, ROW, TIME
from engine.streams.steps import KeyStep, SelectStep, Step, StepPlan

ROWS: Final = "rows"
FAILED: Final = "failed"
LATE: Final = "late"
"""Ports of a node: its results, the rows that it diverts, and those that are too late for its windows."""

Layout: TypeAlias = tuple[str, ...]
"""Fields of the tuples of a port."""


class FlowGraph:
    """The nodes of a flow, in the order in which they were made. So each stands behind the nodes that it reads."""

    def __init__(self, name: str, config: Config | None) -> None:
        self.name = name
        self.config = config
        self.nodes: list[Node] = []


@dataclass(frozen=True, slots=True)
class Port:
    """One output of a node."""

    node: "Node"
    name: str = ROWS


@dataclass(frozen=True, eq=False, kw_only=True)
class Node(ABC):
    """One stage, source, sink, merge or branch."""

    graph: FlowGraph = field(repr=False)
    inputs: tuple[Port, ...] = ()
    name: str | None = None
    """The name that the user has given. None: the plan makes one."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the bolt. A stage that has one is not fused."""
    row_type: Any = None
    """Type of the rows of its port `rows`. None: unknown."""

    keeps_state: ClassVar[bool] = False
    makes_revisions: ClassVar[bool] = False
    """True: its rows replace earlier ones of the same key."""
    ends_revisions: ClassVar[bool] = False
    """True: of the rows that it reads, it passes on one for each key."""

    def __post_init__(self) -> None:
        for port in self.inputs:
            if port.node.graph is not self.graph:
                raise UsageError(
                    f"a stream of flow {port.node.graph.name!r} cannot be used in flow {self.graph.name!r}",
                    hint="Make all streams of one flow from the same Flow object.",
                )
        self.graph.nodes.append(self)

    @property
    @abstractmethod
    def default_name(self) -> str:
        """A readable name, which stays the same while the user's function keeps its name."""

    @abstractmethod
    def layout(self, inputs: Sequence[Layout]) -> Layout:
        """Return the fields of its rows, for those of its inputs."""

    def port_layout(self, name: str, inputs: Sequence[Layout]) -> Layout:
        """Return the fields of one of its ports. A node with more ports than `rows` overrides it."""
        return self.layout(inputs)

    @property
    def diverts(self) -> bool:
        """True if the rows that fail leave on the port `failed`."""
        return self.options.get("on_error") == "divert"


def revises(port: Port) -> bool:
    """Tell whether the rows of a port may replace earlier ones, because they come from a running count, for example."""
    if port.name in (FAILED, LATE) or port.node.ends_revisions:
        return False
    return port.node.makes_revisions or any(map(revises, port.node.inputs))


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceNode(Node):
    """A stream of a spout."""

    factory: Any
    stream: str
    value: Any = None
    """Function that makes the row of the field `value`. None: the row has the fields of the stream."""
    parallelism: int = 1
    spout_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def default_name(self) -> str:
        return "source"

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return (ROW,)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepNode(Node):
    """Stateless work over rows."""

    step: type[Step]
    call: Call
    title: str
    """Its name if the user gives none: the method of the stream, and the function."""

    @property
    def default_name(self) -> str:
        return self.title

    def planned(self, stage: str) -> StepPlan:
        """Return the step under the name of its stage."""
        return StepPlan(stage, self.step, self.call)

    @property
    def goes_along(self) -> bool:
        """True for a step that runs in the bolt in front of it, also if that has options: it only prepares the rows for the next one."""
        return issubclass(self.step, (KeyStep, SelectStep))

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        time = tuple(name for name in inputs[0] if name == TIME)
        return (ROW, KEY, *time) if issubclass(self.step, KeyStep) else (ROW, *time)


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectNode(StepNode):
    """Replaces rows by values of named fields, for a sink that reads fields."""

    fields: tuple[str, ...]

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return self.fields


@dataclass(frozen=True, eq=False, kw_only=True)
class BranchNode(Node):
    """Sends each row to the port of the first predicate that is true: `0`, `1` and so on, and the others to the last port."""

    calls: tuple[Call, ...]

    @property
    def default_name(self) -> str:
        return f"branch-{self.calls[0].name}"

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return inputs[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class EventTimeNode(Node):
    """Gives each row its time. The source does this, with all steps in front of the node, because only the source knows its partitions."""

    settings: EventTime
    time: Call

    @property
    def default_name(self) -> str:
        return "event_time"

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return (ROW, TIME)


@dataclass(frozen=True, eq=False, kw_only=True)
class MergeNode(Node):
    """Several streams as one."""

    @property
    def default_name(self) -> str:
        return "merge"

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        if len(set(inputs)) > 1:
            shown = " and ".join(sorted({f"({', '.join(layout)})" for layout in inputs}))
            hint = "Put event_time() or key_by() on all of the streams, or behind the merge."
            raise UsageError(f"merge() got streams with different fields: {shown}", hint=hint)
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Wired:
    """One input of a bolt, as the plan has laid it."""

    layout: Layout
    sources: tuple[tuple[str, str], ...]
    """Component and stream of its tuples: several for a merge. A bolt with two inputs tells them apart by these."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BoltNode(Node):
    """A stage with a bolt of its own."""

    is_raw: ClassVar[bool] = False
    """True: the bolt emits fields of its own, of which rows must be made, as of a source's."""

    @abstractmethod
    def factory(self, stage: str, inputs: Sequence[Wired]) -> Any:
        """Return the factory for `set_bolt`. It is pickled for `processes=True`, so it must not hold the node."""

    def grouped_by(self, layout: Layout) -> tuple[str, ...]:
        """Return the fields that choose the task of a row. Empty: any task."""
        return (KEY,) if KEY in layout else ()

    @property
    def commits(self) -> bool:
        """True for a committer."""
        return False

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return (ROW, *(name for name in inputs[0] if name == TIME))
