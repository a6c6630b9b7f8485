"""From a topology to its actors: makes every executor of a run and wires them to each other. Nothing runs yet."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from engine.kernel import SignalRing
from engine.names import ACKER_COMPONENT, is_reserved
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.bolt_executor import BoltExecutor, Ticker
from engine.runtime.plan import Plan
from engine.runtime.run_context import RunContext
from engine.runtime.spout_executor import SpoutExecutor
from engine.runtime.spout_window import SpoutWindow
from engine.runtime.tree_timeouts import TimeoutExplainer, TreeTrace
from engine.runtime.wiring import wire_task
from engine.topology import ComponentSpec


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
    """The spouts without the engine's own."""

    def __post_init__(self) -> None:
        self.user_spouts = tuple(spout for spout in self.spouts if not is_reserved(spout.info.component_id))

    @property
    def tasks(self) -> tuple[SpoutExecutor | BoltExecutor, ...]:
        """The executors of spouts and bolts."""
        return (*self.spouts, *self.bolts)

    def set_trace(self, trace: TreeTrace | None) -> None:
        """Trace the ways of tuples, or stop it."""
        self.explainer.trace = trace
        for task in self.tasks:
            task.core.set_trace(trace)


def assemble(plan: Plan, around: RunContext) -> Assembly:
    """Make and wire the actors that a plan asks for."""
    acker_places = plan.tasks[ACKER_COMPONENT]
    inboxes = [SignalRing() for _ in acker_places]
    spouts = tuple(spout for spec in around.topology.spouts for spout in _spouts(spec, plan, around, inboxes))
    bolts = tuple(BoltExecutor(place, spec, around, inboxes) for spec in around.topology.bolts for place in plan.tasks[spec.component_id])
    explainer = TimeoutExplainer(bolts)
    ackers = tuple(AckerExecutor(place, around, inbox, explainer) for place, inbox in zip(acker_places, inboxes, strict=True))
    mailboxes = {bolt.info.task_id: bolt.core.mailbox for bolt in bolts}
    for task in chain(spouts, bolts):
        wire_task(task.core, task.info, task.spec, around, mailboxes)
    _connect(spouts, bolts, ackers, around)
    return Assembly(spouts, bolts, ackers, _tickers(bolts), explainer, plan)


def _spouts(spec: ComponentSpec, plan: Plan, around: RunContext, inboxes: list[SignalRing]) -> list[SpoutExecutor]:
    """Make the tasks of one spout; with max_spout_pending="auto" they share a window."""
    places = plan.tasks[spec.component_id]
    adapts = spec.pending_bound(around.config) == "auto" and not is_reserved(spec.component_id)
    window = SpoutWindow(len(places)) if adapts else None
    return [SpoutExecutor(place, spec, around, inboxes, window) for place in places]


def _connect(
    spouts: tuple[SpoutExecutor, ...], bolts: tuple[BoltExecutor, ...], ackers: tuple[AckerExecutor, ...], around: RunContext
) -> None:
    """Name to every actor the others that it tells something."""
    rings = {spout.info.task_id: spout.verdicts for spout in spouts}
    for acker in ackers:
        acker.connect(rings)
    cores = {task.info.task_id: task.core for task in (*spouts, *bolts)}
    for bolt in bolts:
        sources = around.sources_of(bolt.spec)
        bolt.core.connect({task: cores[task] for task in sources}, {task: rings[task] for task in sources if task in rings})


def _tickers(bolts: tuple[BoltExecutor, ...]) -> tuple[Ticker, ...]:
    every: Callable[[BoltExecutor], float | None] = lambda bolt: bolt.spec.settings.tick_tuple_freq_secs  # noqa: E731
    return tuple(Ticker(bolt, secs) for bolt in bolts if (secs := every(bolt)) is not None)
