"""The stages with a bolt of their own: `map_async`, running reductions, bolts of the user, and sinks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from engine.streams.aggregates import ReductionPlan
from engine.streams.async_bolts import AsyncStage
from engine.streams.calls import Call
from engine.streams.graph import LATE, BoltNode, Layout, StepNode, Wired
from engine.streams.rows import ROW, TIME
from engine.streams.running_bolt import RunningStage
from engine.streams.sink_bolts import SinkFactory
from engine.streams.window_bolt import WindowSpec, WindowStage
from engine.streams.windows import Updates
from engine.topology.factory import Factory, FactoryFault


@dataclass(frozen=True, eq=False, kw_only=True)
class AsyncNode(BoltNode):
    """`map_async`."""

    call: Call
    is_ordered: bool

    @property
    def default_name(self) -> str:
        return f"map_async-{self.call.name}"

    def factory(self, stage: str, inputs: Sequence[Wired]) -> AsyncStage:
        return AsyncStage(self.call, self.layout([inputs[0].layout]), self.is_ordered, self.options.get("retries", 0))


@dataclass(frozen=True, eq=False, kw_only=True)
class RunningNode(BoltNode):
    """A running count or reduction of each key."""

    keeps_state: ClassVar[bool] = True
    makes_revisions: ClassVar[bool] = True
    reduction: ReductionPlan

    @property
    def default_name(self) -> str:
        return self.reduction.kind.kind

    def factory(self, stage: str, inputs: Sequence[Wired]) -> RunningStage:
        return RunningStage(stage, self.reduction, self.layout([inputs[0].layout]))


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowNode(BoltNode):
    """Windows over keyed rows with times."""

    keeps_state: ClassVar[bool] = True
    spec: WindowSpec
    reduction: ReductionPlan
    updates: Updates | None = None

    @property
    def default_name(self) -> str:
        return f"{self.reduction.kind.kind}-in-{type(self.spec).__name__.lower()}"

    def factory(self, stage: str, inputs: Sequence[Wired]) -> WindowStage:
        return WindowStage(stage, self.spec, self.reduction, self.updates)

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return (ROW, TIME)

    def port_layout(self, name: str, inputs: Sequence[Layout]) -> Layout:
        return (ROW,) if name == LATE else self.layout(inputs)


@dataclass(frozen=True, eq=False, kw_only=True)
class RevisedWindowNode(WindowNode):
    """Windows that give several results of a key."""

    makes_revisions: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class FinalsNode(StepNode):
    """Passes on the final results of windows."""

    ends_revisions: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ThroughNode(BoltNode):
    """A bolt of the user, whose tuples become rows."""

    is_raw: ClassVar[bool] = True
    given: Any

    @property
    def default_name(self) -> str:
        return f"through-{_name_of(self.given)}"

    def factory(self, stage: str, inputs: Sequence[Wired]) -> Any:
        return self.given

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return (ROW,)


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkNode(BoltNode):
    """The end of a stream: a function of a row, a bolt, or a committer."""

    target: Any
    """A Call, or the factory of a bolt."""

    @property
    def default_name(self) -> str:
        return "sink"

    @cached_property
    def declared(self) -> Any:
        """The class of the bolt or an instance. None for a function, and for a factory that the builder will refuse."""
        if isinstance(self.target, Call):
            return None
        try:
            return Factory("bolt", self.name or "sink", self.target).declared()
        except FactoryFault:
            return None

    @property
    def commits(self) -> bool:
        return getattr(self.declared, "is_committer", False) is True

    def factory(self, stage: str, inputs: Sequence[Wired]) -> Any:
        return SinkFactory(self.target) if isinstance(self.target, Call) else self.target

    def grouped_by(self, layout: Layout) -> tuple[str, ...]:
        keyed_by = getattr(self.declared, "keyed_by", None) if self.commits else None
        return tuple(keyed_by) if keyed_by else super().grouped_by(layout)

    def layout(self, inputs: Sequence[Layout]) -> Layout:
        return ()


def read_fields(name: str, target: Any) -> tuple[str, ...]:
    """Return the fields that a committer names. Empty: it names none, or the target is another bolt."""
    try:
        declared = Factory("bolt", name, target).declared()
    except FactoryFault:
        return ()  # the builder reports it
    if isinstance(declared, type) or getattr(declared, "is_committer", False) is not True:
        return ()
    return tuple(each for each in getattr(declared, "reads", ()) if each != ROW)


def _name_of(given: Any) -> str:
    name: str = getattr(given, "__name__", type(given).__name__)
    return name.strip("<>")
