"""Defines the feature of topologies with flow-control spouts. Checks the rules of these topologies, and exports snapshots and metrics."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, ClassVar, Final, get_args

from engine.config import Config
from engine.control import Feature, FeatureRun, RunHandle, SnapshotEntry, json_number
from engine.flow.status import FlowSnapshot, FlowState, FlowTaskSnapshot
from engine.metrics.openmetrics import Family, Measure, secs_of_ms, stateset
from engine.names import TAKES_PACKS
from engine.topology import ComponentSpec, Topology
from engine.topology.task_port import RunPort
from engine.topology.validate import name_faults

KEEPS_POSITION: Final = "keeps_position"
ENTRY: Final = "flow"
"""Entry of the snapshot."""


class FlowFeature(Feature):
    """Adaptive flow control (FC-1 to FC-9). The spouts do the work. The feature adds validation, snapshot entries and metrics."""

    name = "flow"
    marks: ClassVar[Any] = {"spout": (KEEPS_POSITION,), "bolt": (TAKES_PACKS,)}

    def graph_faults(self, topology: Topology) -> Iterator[str]:
        """Yield a fault for each spout that does not feed exactly one bolt, and for that bolt's other inputs (FC-1)."""
        for spec in topology.spouts:
            takers = [repr(target) for target in topology.targets(spec.component_id)]
            if spec.chooses_tasks and len(takers) != 1:
                yield (
                    f"{spec.where}: sends each record to one task of one bolt, and {' and '.join(takers) or 'nobody'} "
                    f"subscribe{'s' * (not takers)} to it. Subscribe one bolt by direct_grouping(); it may emit to others."
                )
        for spec in topology.bolts:
            if TAKES_PACKS in spec.marks:
                yield from _other_inputs(topology, spec)

    def run_faults(self, topology: Topology, config: Config) -> Iterator[str]:
        """Yield a fault for each spout whose position needs acks, if the config switches acks off (FC-6)."""
        for spec in topology.spouts:
            if KEEPS_POSITION in spec.marks and config.acker_executors == 0:
                yield f"{spec.where}: needs tracked tuples, and acker_executors=0 switches tracking off. Set it to 1 or more."

    def stored(self, topology: Topology) -> Iterator[str]:
        """Yield a description of the stored positions."""
        positions = [repr(spec.component_id) for spec in topology.spouts if KEEPS_POSITION in spec.marks]
        if positions:
            yield f"the position of {', '.join(positions)}"

    def new_run(self, topology: Topology, config: Config) -> "FlowRun":
        """Return the flow control of a new run."""
        return FlowRun()


def _other_inputs(topology: Topology, spec: ComponentSpec) -> Iterator[str]:
    """Yield a fault for each input of the bolt that is not a pack of records, and for ticks."""
    for subscription in spec.subscriptions:
        is_named = not any(name_faults(spec.where, subscription))  # a wrong name is among the faults already
        source = topology.components.get(subscription.source) if is_named else None
        if source is not None and not source.chooses_tasks:
            yield (
                f"{spec.where}: takes only packs of a FlowControlSpout, but subscribes to {source.kind} {source.component_id!r}. "
                "Derive it from Bolt or BasicBolt, or use another bolt for this input."
            )
    if spec.settings.tick_tuple_freq_secs is not None:
        yield (
            f"{spec.where}: a FlowControlBolt gets no ticks, but tick_tuple_freq_secs is set. "
            "Remove it, and do periodic work in self.context.create_task(...). Or derive the bolt from Bolt."
        )


class FlowRun(FeatureRun):
    """The flow control of one run. Collects the snapshots of the spout tasks."""

    def __init__(self) -> None:
        self._port: RunPort | None = None

    def join(self, handle: RunHandle) -> None:
        """Store the port that collects the snapshots of the spouts."""
        self._port = handle.port

    def snapshot_entries(self) -> Iterable[SnapshotEntry]:
        """Return the entry `flow`."""
        return (FlowEntry(() if self._port is None else self._port.shown(ENTRY)),)


class FlowEntry(SnapshotEntry):
    """Flow control in a snapshot. `snapshot.entry(FlowEntry).value` has one FlowSnapshot for each task of a flow-control spout."""

    name = ENTRY
    value: tuple[FlowSnapshot, ...]

    def __init__(self, value: tuple[FlowSnapshot, ...]) -> None:
        self.value = value

    def to_json(self) -> Any:
        """Return a list with the fields of each spout task."""
        return [_flow_dict(flow) for flow in self.value]

    def holds_run(self) -> str | None:
        """Return a sentence if a spout sends nothing. Tasks that are all BUSY are no reason, because their component is the limit."""
        for flow in self.value:
            if flow.holds is not None and not all(task.state == "BUSY" for task in flow.tasks):
                return f"{flow.component_id!r} sends nothing: {flow.holds}."
        return None

    @classmethod
    def from_json(cls, value: Any) -> "FlowEntry":
        """Return the entry of a result of `to_json`."""
        return cls(tuple(FlowSnapshot(**{**flow, "tasks": tuple(FlowTaskSnapshot(**task) for task in flow["tasks"])}) for flow in value))

    def families(self, topology_name: str) -> Iterator[Family]:
        """Yield the families of `stormcell_flow_…`. The label `bolt_task` is the task that the window belongs to."""
        spouts = [({"topology": topology_name, "component": flow.component_id, "task": str(flow.task_id)}, flow) for flow in self.value]
        windows = [({**labels, "bolt_task": str(task.task_id)}, task) for labels, flow in spouts for task in flow.tasks]
        for measure in _OF_SPOUTS:
            yield measure.family("stormcell_flow_", spouts)
        states = [(labels, task.state) for labels, task in windows]
        yield stateset("stormcell_flow_state", "State of sending to the task.", states, get_args(FlowState))
        for each in _OF_WINDOWS:
            yield each.family("stormcell_flow_", windows)


def _flow_dict(flow: FlowSnapshot) -> dict[str, Any]:
    shown = asdict(flow)
    shown["tasks"] = [{name: json_number(value) for name, value in task.items()} for task in shown["tasks"]]
    return shown


_OF_SPOUTS: Final[tuple[Measure[FlowSnapshot], ...]] = (
    Measure("done_records", "counter", "records", "Records below the done prefix.", lambda now: now.done_records),
    Measure("pending_records", "gauge", "records", "Records yielded and not below the done prefix.", lambda now: now.pending_records),
    Measure("buffered_records", "gauge", "records", "Records yielded and not sent yet.", lambda now: now.buffered_records),
    Measure(
        "records_since_checkpoint", "gauge", "", "Records sent beyond the recorded position.", lambda now: now.records_since_checkpoint
    ),
    Measure("held", "gauge", "", "1 while something holds the sending.", lambda now: now.holds is not None),
)
_OF_WINDOWS: Final[tuple[Measure[FlowTaskSnapshot], ...]] = (
    Measure("window_packs", "gauge", "packs", "Packs that may be at the task.", lambda task: task.window),
    Measure("in_flight_packs", "gauge", "packs", "Packs that are at the task.", lambda task: task.in_flight),
    Measure("in_flight_records", "gauge", "records", "Records that are at the task.", lambda task: task.in_flight_records),
    Measure("pack_records", "gauge", "records", "Records in the last pack sent to it.", lambda task: task.pack_records),
    Measure("service_seconds", "gauge", "seconds", "Smoothed service time of a record.", lambda task: secs_of_ms(task.service_ms)),
    Measure(
        "service_p99_seconds", "gauge", "seconds", "99th percentile of the service time.", lambda task: secs_of_ms(task.service_p99_ms)
    ),
    Measure("settled_packs", "counter", "packs", "Packs that the task acked.", lambda task: task.settled),
    Measure("resent_packs", "counter", "packs", "Packs that the task failed, or that were called back.", lambda task: task.resends),
)
