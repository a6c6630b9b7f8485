"""`Flow`: the start of a typed program. It has the graph, and makes the topology."""

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, Unpack

from engine.api import MaxSpoutPending, SpoutFactory
from engine.api.spout import OnError
from engine.config import Config
from engine.errors import UsageError
from engine.names import DEFAULT_STREAM, plain_text
from engine.streams.build import build_topology
from engine.streams.calls import checked_call
from engine.streams.graph import FlowGraph, Port, SourceNode
from engine.streams.streams import Stage
from engine.topology import Topology

Row = TypeVar("Row")


class SourceOptions(TypedDict, total=False):
    """Settings of a source."""

    stream: str
    """Stream of the spout. Default: `default`."""
    parallelism: int
    """Number of tasks of the spout."""
    max_spout_pending: MaxSpoutPending
    """Limit of open trees per task of the spout."""
    on_error: OnError
    """Reaction to an exception of the spout."""
    divert: bool
    """True: a tuple that does not fit the row's type leaves on `source.failed`. Otherwise it fails."""


class Flow:
    """A program of typed streams, which becomes an ordinary topology.

    `config` belongs to the topology, as that of a `TopologyBuilder` does. `python -m engine run` finds a flow in a file by itself.

    >>> from typing import NamedTuple
    >>> from engine import spout
    >>> from engine.streams import Flow
    >>> from engine.testing import run_topology
    >>> class Order(NamedTuple):
    ...     user: str
    ...     cents: int
    >>> @spout("user", "cents")
    ... def orders():
    ...     yield from [("ada", 300), ("bob", 20), ("ada", 5)]
    >>> flow = Flow("totals")
    >>> totals = flow.stream("orders", orders, Order).key_by("user").sum(lambda order: order.cents, name="totals")
    >>> _ = totals.sink("show", lambda each: print(each.value.key, each.value.value))
    >>> _ = run_topology(flow.topology())
    ada 300
    bob 20
    ada 305
    """

    def __init__(self, name: str, config: Config | None = None) -> None:
        self._graph = FlowGraph(_checked_name("flow", name), config)

    @property
    def name(self) -> str:
        """Name of the flow and of its topology."""
        return self._graph.name

    def stream(
        self,
        name: str,
        spout: SpoutFactory,
        row_type: type[Row],
        *,
        value: Callable[[Any], Row] | None = None,
        **options: Unpack[SourceOptions],
    ) -> Stage[dict[str, Any], Row]:
        """Return the tuples of a spout as typed rows.

        `row_type` is a NamedTuple, dataclass, TypedDict or pydantic model with the fields of the spout's stream. If the stream has one
        field, it may also be the type of its values, such as `str`. value: makes the row of the field `value`, or of the only field, such
        as `json_of(Click)` for a Kafka spout. A test replaces the spout by its name: `engine.testing.replaced`.
        """
        settings: dict[str, Any] = dict(options)
        stream = settings.pop("stream", DEFAULT_STREAM)
        parallelism = settings.pop("parallelism", 1)
        row_options = {"on_error": "divert"} if settings.pop("divert", False) else {}
        node = SourceNode(
            graph=self._graph,
            name=_checked_name("source", name),
            options=row_options,
            row_type=row_type,
            value=None if value is None else checked_call("stream", value).given,
            factory=spout,
            stream=stream,
            parallelism=parallelism,
            spout_settings=settings,
        )
        return Stage(Port(node), row_type)

    def topology(self) -> Topology:
        """Return the topology of the flow. Raise TopologyError or UsageError with what is wrong, and how to correct it."""
        return build_topology(self._graph)

    def build(self) -> Topology:
        """Return the topology, as every builder does, so that the command line finds a flow in a file."""
        return self.topology()

    def __repr__(self) -> str:
        return f"<Flow {self.name!r}>"


def _checked_name(what: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"the name of a {what} is a text, not {name!r}", hint=f"Give the {what} a name in its first argument.")
    plain: str = plain_text(name)
    return plain
