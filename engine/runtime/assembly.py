"""Creates all executors of a run and connects them. Starts nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TypeAlias

from engine.kernel import SignalRing
from engine.names import ACKER_COMPONENT, is_reserved
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.plan import Plan
from engine.runtime.run_context import RunContext
from engine.runtime.spout_executor import SpoutExecutor
from engine.runtime.spout_window import SpoutWindow
from engine.runtime.ticker import Ticker
from engine.runtime.tree_timeouts import TimeoutExplainer, TreeTrace
from engine.runtime.wiring import Wiring
from engine.topology import ComponentSpec

TraceEvents: TypeAlias = Callable[[str, Sequence[int], int], object]
"""Gets an event of a tracked tuple, its roots, and the task. The cores call it while a trace is on."""


@dataclass(slots=True)
class Assembly:
    """The actors of a run, in the order of declaration."""

    spouts: tuple[SpoutExecutor, ...]
    bolts: tuple[BoltExecutor, ...]
    ackers: tuple[AckerExecutor, ...]
    tickers: tuple[Ticker, ...]
    explainer: TimeoutExplainer
    plan: Plan
    user_spouts: tuple[SpoutExecutor, ...] = field(init=False)
    """All spouts except the engine's own."""
    _root_recorder: TraceEvents | None = None

    def __post_init__(self) -> None:
        self.user_spouts = tuple(spout for spout in self.spouts if not is_reserved(spout.info.component_id))

    @property
    def tasks(self) -> tuple[SpoutExecutor | BoltExecutor, ...]:
        """The executors of spouts and bolts."""
        return (*self.spouts, *self.bolts)

    def set_trace(self, trace: TreeTrace | None) -> None:
        """Start or stop the recording of the paths of sampled trees."""
        self.explainer.trace = trace
        self._trace_cores()

    def record_roots(self, recorder: TraceEvents | None) -> None:
        """Start or stop the recording of the trees that an operator follows, beside the sampled trees."""
        if recorder != self._root_recorder:
            self._root_recorder = recorder
            self._trace_cores()

    def _trace_cores(self) -> None:
        recorders = [each for each in (self.explainer.trace, self._root_recorder) if each is not None]
        trace = recorders[0] if len(recorders) == 1 else _call_all(recorders) if recorders else None
        for task in self.tasks:
            task.core.set_trace(trace)


def _call_all(recorders: Sequence[TraceEvents]) -> TraceEvents:
    def record(event: str, roots: Sequence[int], task: int) -> None:
        for recorder in recorders:
            recorder(event, roots, task)

    return record


def assemble(plan: Plan, run_context: RunContext) -> Assembly:
    """Create and wire the actors of a plan."""
    acker_infos = plan.tasks[ACKER_COMPONENT]
    inboxes = [SignalRing() for _ in acker_infos]
    topology = run_context.topology
    spouts = tuple(spout for spec in topology.spouts for spout in _spouts(spec, plan, run_context, inboxes))
    bolts = tuple(bolt for spec in topology.bolts for bolt in _bolts(spec, plan, run_context, inboxes))
    explainer = TimeoutExplainer(bolts)
    ackers = tuple(AckerExecutor(info, run_context, inbox, explainer) for info, inbox in zip(acker_infos, inboxes, strict=True))
    mailboxes = {bolt.info.task_id: bolt.core.mailbox for bolt in bolts}
    wiring = Wiring(run_context, mailboxes)
    for task in chain(spouts, bolts):
        wiring.wire_task(task.core, task.info, task.spec)
    _connect(spouts, bolts, ackers, run_context)
    return Assembly(spouts, bolts, ackers, _tickers(bolts), explainer, plan)


def _spouts(spec: ComponentSpec, plan: Plan, run_context: RunContext, inboxes: list[SignalRing]) -> list[SpoutExecutor]:
    """Create the executors of one spout. With max_spout_pending="auto" the executors share a window."""
    infos = plan.tasks[spec.component_id]
    adapts = spec.pending_bound(run_context.config) == "auto" and not is_reserved(spec.component_id)
    window = SpoutWindow(len(infos)) if adapts else None
    return [SpoutExecutor(info, spec, run_context, inboxes, window) for info in infos]


def _bolts(spec: ComponentSpec, plan: Plan, run_context: RunContext, inboxes: list[SignalRing]) -> list[BoltExecutor]:
    """Create the executors of one bolt."""
    executor: type[BoltExecutor] = BoltExecutor
    if spec.settings.processes:
        from engine.runtime.processes import executor_of  # imported here: most runs have no processes

        executor = executor_of(spec)
    return [executor(info, spec, run_context, inboxes) for info in plan.tasks[spec.component_id]]


def _connect(
    spouts: tuple[SpoutExecutor, ...], bolts: tuple[BoltExecutor, ...], ackers: tuple[AckerExecutor, ...], run_context: RunContext
) -> None:
    """Connect each acker with the spouts, and each bolt with its sources. The tasks of a bolt share the maps of their sources."""
    rings = {spout.info.task_id: spout.verdicts for spout in spouts}
    exact = frozenset(spout.info.task_id for spout in spouts if spout.source is not None)
    effects = _effects(bolts, ackers) if exact else bytearray()
    for acker in ackers:
        acker.connect(rings, exact, effects)
    cores = {task.info.task_id: task.core for task in (*spouts, *bolts)}
    for _, tasks in groupby(bolts, key=lambda bolt: bolt.spec):
        first, *others = tasks
        sources = run_context.sources_of(first.spec)
        upstream, settle_rings = {task: cores[task] for task in sources}, {task: rings[task] for task in sources if task in rings}
        for bolt in (first, *others):
            bolt.core.connect(upstream, settle_rings)


def _effects(bolts: tuple[BoltExecutor, ...], ackers: tuple[AckerExecutor, ...]) -> bytearray:
    """Return a byte for each task id: 1 if a row that the task has settled cannot be retried alone (EO-6)."""
    effects = bytearray(max((bolt.info.task_id for bolt in bolts), default=0) + 1)

    def note_unanchored(task: int) -> None:
        effects[task] = 1
        for acker in ackers:
            acker.core.note_effects()

    for bolt in bolts:
        effects[bolt.info.task_id] = bolt.spec.has_effects
        if not bolt.spec.has_effects:
            bolt.core.on_unanchored = note_unanchored
    return effects


def _tickers(bolts: tuple[BoltExecutor, ...]) -> tuple[Ticker, ...]:
    every: Callable[[BoltExecutor], float | None] = lambda bolt: bolt.spec.settings.tick_tuple_freq_secs  # noqa: E731
    return tuple(Ticker(bolt, secs) for bolt in bolts if (secs := every(bolt)) is not None)
