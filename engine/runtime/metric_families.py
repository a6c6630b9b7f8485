"""A snapshot as metric families, for `run.metrics_text()`."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple, get_args

from engine.checkpoint.status import CheckpointSnapshot, CheckpointStep
from engine.flow.status import FlowSnapshot, FlowState, FlowTaskSnapshot
from engine.metrics import Distribution, Family, FamilyKind, Sample, UserMetric
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot

RUN_STATES: Final = ("waiting", "starting", "running", "draining", "complete", "drained", "stopped", "failed")


class _PerTask(NamedTuple):
    """A family with one sample for each task that has the value."""

    name: str
    kind: FamilyKind
    unit: str
    help: str
    value: Callable[[TaskSnapshot], float | None]


_PER_TASK: Final = (
    _PerTask("emitted_tuples", "counter", "tuples", "Calls of emit that were accepted.", lambda task: task.emitted),
    _PerTask("transferred_tuples", "counter", "tuples", "Tuples sent, one for each task they went to.", lambda task: task.transferred),
    _PerTask("executed_tuples", "counter", "tuples", "Inputs handed to the component.", lambda task: task.executed),
    _PerTask("acked_tuples", "counter", "tuples", "Inputs acked; for a spout, trees.", lambda task: task.acked),
    _PerTask("failed_tuples", "counter", "tuples", "Inputs failed; for a spout, trees.", lambda task: task.failed),
    _PerTask("forgotten_tuples", "counter", "tuples", "Inputs let go of without ack or fail.", lambda task: task.forgotten),
    _PerTask("settled_twice_tuples", "counter", "tuples", "Acks and fails of what was settled.", lambda task: task.settled_twice),
    _PerTask("waiting_tuples", "gauge", "tuples", "Tuples in the mailbox.", lambda task: task.waiting),
    _PerTask("mailbox_capacity_tuples", "gauge", "tuples", "Tuples that the mailbox holds.", lambda task: task.mailbox_capacity),
    _PerTask("pending_trees", "gauge", "trees", "Open trees of a spout task.", lambda task: task.pending),
    _PerTask("max_pending_trees", "gauge", "trees", "Open trees that a spout task may have just now.", lambda task: task.max_pending),
    _PerTask("busy_seconds", "counter", "seconds", "Time spent in the component's code.", lambda task: task.busy_secs),
    _PerTask("execute_seconds", "gauge", "seconds", "Mean time of execute.", lambda task: _seconds(task.execute_ms)),
    _PerTask("process_seconds", "gauge", "seconds", "Mean time from execute to ack or fail.", lambda task: _seconds(task.process_ms)),
    _PerTask("task_restarts", "counter", "restarts", "Instances that were replaced.", lambda task: task.restarts),
    _PerTask("task_errors", "counter", "errors", "Exceptions of the component.", lambda task: task.errors),
)


class _OfCheckpoints(NamedTuple):
    """A family with one sample, in a run with state."""

    name: str
    kind: FamilyKind
    unit: str
    help: str
    value: Callable[[CheckpointSnapshot], float | None]


_OF_CHECKPOINTS: Final = (
    _OfCheckpoints("txid", "gauge", "", "The last committed txid; -1: none.", lambda now: now.txid),
    _OfCheckpoints("commits", "counter", "", "Checkpoints that this run has committed.", lambda now: now.committed),
    _OfCheckpoints("recoveries", "counter", "", "Times that a step failed or a task died.", lambda now: now.recoveries),
    _OfCheckpoints("step_seconds", "gauge", "seconds", "How long the step under way has taken.", lambda now: now.step_secs),
    _OfCheckpoints("last_seconds", "gauge", "seconds", "Duration of the last checkpoint.", lambda now: _seconds(now.last_ms)),
    _OfCheckpoints("last_keys", "gauge", "keys", "Keys that it changed.", lambda now: now.last_keys),
    _OfCheckpoints("last_bytes", "gauge", "bytes", "Bytes that it staged.", lambda now: now.last_bytes),
    _OfCheckpoints(
        "last_alignment_seconds", "gauge", "seconds", "Longest time that it held a source.", lambda now: now.last_alignment_ms / 1000
    ),
    _OfCheckpoints("store_away", "gauge", "", "1 while the store cannot be reached.", lambda now: now.trouble is not None),
)


class _OfFlow(NamedTuple):
    """A family with one sample for each spout task that has flow control."""

    name: str
    kind: FamilyKind
    unit: str
    help: str
    value: Callable[[FlowSnapshot], float]


_OF_FLOW: Final = (
    _OfFlow("done_records", "counter", "records", "Records below the done prefix.", lambda now: now.done_records),
    _OfFlow("pending_records", "gauge", "records", "Records yielded and not below the done prefix.", lambda now: now.pending_records),
    _OfFlow("buffered_records", "gauge", "records", "Records yielded and not sent yet.", lambda now: now.buffered_records),
    _OfFlow(
        "records_since_checkpoint", "gauge", "", "Records sent beyond the recorded position.", lambda now: now.records_since_checkpoint
    ),
    _OfFlow("held", "gauge", "", "1 while something holds the sending.", lambda now: now.holds is not None),
)


class _PerWindow(NamedTuple):
    """A family with one sample for each bolt task that a spout task sends to, if it has the value."""

    name: str
    kind: FamilyKind
    unit: str
    help: str
    value: Callable[[FlowTaskSnapshot], float | None]


_PER_WINDOW: Final = (
    _PerWindow("window_packs", "gauge", "packs", "Packs that may be at the task.", lambda task: task.window),
    _PerWindow("in_flight_packs", "gauge", "packs", "Packs that are.", lambda task: task.in_flight),
    _PerWindow("in_flight_records", "gauge", "records", "Records that are.", lambda task: task.in_flight_records),
    _PerWindow("pack_records", "gauge", "records", "Records in the last pack sent to it.", lambda task: task.pack_records),
    _PerWindow("service_seconds", "gauge", "seconds", "Smoothed service time of a record.", lambda task: _seconds(task.service_ms)),
    _PerWindow("service_p99_seconds", "gauge", "seconds", "99th percentile of it.", lambda task: _seconds(task.service_p99_ms)),
    _PerWindow("settled_packs", "counter", "packs", "Packs that the task acked.", lambda task: task.settled),
    _PerWindow("resent_packs", "counter", "packs", "Packs that it failed, or that were called back.", lambda task: task.resends),
)


def families(snapshot: Snapshot) -> tuple[Family, ...]:
    """Return the engine's families, each beginning with `stormcell_`, then the users' under the names they gave them."""
    tasks = (_of_tasks(snapshot, spec) for spec in _PER_TASK)
    of_tasks = (*tasks, _failures(snapshot), _complete(snapshot))
    return (*_of_run(snapshot), *_of_checkpoints(snapshot), *of_tasks, *_of_flow(snapshot), *_of_users(snapshot))


def _of_run(snapshot: Snapshot) -> Iterator[Family]:
    labels = {"topology": snapshot.topology_name}
    name = "stormcell_run_state"
    states = tuple(Sample({**labels, name: state}, float(state == snapshot.state)) for state in RUN_STATES)
    yield Family(name, "stateset", "Where the run stands.", states)
    yield Family("stormcell_uptime_seconds", "gauge", "Time since the run began.", (Sample(labels, snapshot.uptime_secs),), "seconds")


def _of_checkpoints(snapshot: Snapshot) -> Iterator[Family]:
    now = snapshot.checkpoint
    if now is None:
        return
    labels = {"topology": snapshot.topology_name}
    name = "stormcell_checkpoint_step"
    steps = tuple(Sample({**labels, name: step}, float(step == now.step)) for step in get_args(CheckpointStep))
    yield Family(name, "stateset", "What is under way.", steps)
    for spec in _OF_CHECKPOINTS:
        value = spec.value(now)
        samples = () if value is None else (Sample(labels, float(value), _suffix(spec.kind)),)
        yield Family(f"stormcell_checkpoint_{spec.name}", spec.kind, spec.help, samples, spec.unit)


def _of_tasks(snapshot: Snapshot, spec: _PerTask) -> Family:
    samples = tuple(
        Sample(_labels(snapshot, component.component_id, task.task_id), value, _suffix(spec.kind))
        for component, task in _tasks(snapshot.components.values())
        if (value := spec.value(task)) is not None
    )
    return Family(f"stormcell_{spec.name}", spec.kind, spec.help, samples, spec.unit)


def _failures(snapshot: Snapshot) -> Family:
    samples = tuple(
        Sample({**_labels(snapshot, component.component_id, task.task_id), "reason": reason}, number, "_total")
        for component, task in _tasks(snapshot.components.values())
        for reason, number in sorted(task.failures.items())
    )
    return Family("stormcell_failures", "counter", "Inputs failed, by the reason; for a spout, trees.", samples)


def _complete(snapshot: Snapshot) -> Family:
    """Return the latency from emit to ack as a summary: its quantiles alone, which is all that a snapshot has."""
    samples = tuple(
        Sample({**_labels(snapshot, component.component_id, task.task_id), "quantile": quantile}, secs)
        for component, task in _tasks(snapshot.spouts)
        for quantile, secs in (("0.5", _seconds(task.complete_p50_ms)), ("0.99", _seconds(task.complete_p99_ms)))
        if secs is not None
    )
    return Family("stormcell_complete_seconds", "summary", "Time from the emit of a tree to its ack.", samples, "seconds")


def _of_flow(snapshot: Snapshot) -> Iterator[Family]:
    """Return the families of the flow control; `bolt_task` is the task that the window is of."""
    spouts = [(flow, _labels(snapshot, flow.component_id, flow.task_id)) for flow in snapshot.flow]
    windows = [(task, {**labels, "bolt_task": str(task.task_id)}) for flow, labels in spouts for task in flow.tasks]
    for spec in _OF_FLOW:
        samples = tuple(Sample(labels, float(spec.value(flow)), _suffix(spec.kind)) for flow, labels in spouts)
        yield Family(f"stormcell_flow_{spec.name}", spec.kind, spec.help, samples, spec.unit)
    name = "stormcell_flow_state"
    states = tuple(Sample({**labels, name: state}, float(state == task.state)) for task, labels in windows for state in get_args(FlowState))
    yield Family(name, "stateset", "How the task is sent to.", states)
    for each in _PER_WINDOW:
        found = ((each.value(task), labels) for task, labels in windows)
        samples = tuple(Sample(labels, value, _suffix(each.kind)) for value, labels in found if value is not None)
        yield Family(f"stormcell_flow_{each.name}", each.kind, each.help, samples, each.unit)


def _of_users(snapshot: Snapshot) -> Iterator[Family]:
    """Return one family for each name; `read()` has sorted the metrics by it."""
    for name, group in groupby(snapshot.user_metrics, key=lambda metric: metric.name):
        metrics = list(group)
        held = [metric.value.doublings for metric in metrics if isinstance(metric.value, Distribution)]
        edges = sorted({edge for doublings in held for edge, _ in doublings if math.isfinite(edge)})
        samples = tuple(sample for metric in metrics for sample in _user_samples(snapshot, metric, edges))
        yield Family(name, metrics[0].kind, f"A {metrics[0].kind} of the topology {snapshot.topology_name}.", samples)


def _user_samples(snapshot: Snapshot, metric: UserMetric, edges: list[float]) -> Iterator[Sample]:
    """Return the samples of one metric; `edges` are the same for all of its name, so that their buckets can be added up."""
    labels = {**_labels(snapshot, metric.labels.component_id, metric.labels.task_id), **metric.own_labels}
    if not isinstance(metric.value, Distribution):
        yield Sample(labels, metric.value, _suffix(metric.kind))
        return
    at_edge = dict(metric.value.doublings)
    seen = 0
    for edge in edges:
        seen = at_edge.get(edge, seen)
        yield Sample({**labels, "le": repr(edge)}, seen, "_bucket")
    yield Sample({**labels, "le": "+Inf"}, metric.value.count, "_bucket")
    if not edges or edges[0] >= 0:  # OpenMetrics allows no sum, and so no count, beside buckets below zero
        yield Sample(labels, metric.value.count, "_count")
        yield Sample(labels, metric.value.total, "_sum")


def _tasks(components: Iterable[ComponentSnapshot]) -> Iterator[tuple[ComponentSnapshot, TaskSnapshot]]:
    return ((component, task) for component in components for task in component.tasks)


def _labels(snapshot: Snapshot, component_id: str, task_id: int) -> dict[str, str]:
    return {"topology": snapshot.topology_name, "component": component_id, "task": str(task_id)}


def _suffix(kind: FamilyKind) -> str:
    return "_total" if kind == "counter" else ""


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000
