"""Turns a snapshot into metric families, for `run.metrics_text()`."""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, TypeAlias

from engine.metrics import Distribution, Family, Sample, UserMetric
from engine.metrics.openmetrics import Measure, secs_of_ms, stateset
from engine.runtime.latency_snapshot import LATENCY_EDGES_SECS, LatencySnapshot
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot

_EDGES: Final = (*map(repr, LATENCY_EDGES_SECS), "+Inf")
RUN_STATES: Final = ("waiting", "starting", "running", "draining", "complete", "drained", "stopped", "failed")


_PER_TASK: Final[tuple[Measure[TaskSnapshot], ...]] = (
    Measure("emitted_tuples", "counter", "tuples", "Calls of emit that were accepted.", lambda task: task.emitted),
    Measure("transferred_tuples", "counter", "tuples", "Tuples sent, one for each task they went to.", lambda task: task.transferred),
    Measure("executed_tuples", "counter", "tuples", "Inputs handed to the component.", lambda task: task.executed),
    Measure("acked_tuples", "counter", "tuples", "Inputs acked; for a spout, trees.", lambda task: task.acked),
    Measure("failed_tuples", "counter", "tuples", "Inputs failed; for a spout, trees.", lambda task: task.failed),
    Measure("call_retries", "counter", "retries", "Calls of a bolt that raised and were made again.", lambda task: task.retries),
    Measure("diverted_tuples", "counter", "tuples", "Inputs that left on the stream failed, and are acked.", lambda task: task.diverted),
    Measure("given_up_tuples", "counter", "tuples", "Rows not emitted again, or refused by a target.", lambda task: task.given_up),
    Measure("forgotten_tuples", "counter", "tuples", "Inputs dropped without ack or fail.", lambda task: task.forgotten),
    Measure(
        "settled_twice_tuples", "counter", "tuples", "Acks and fails of inputs that were already settled.", lambda task: task.settled_twice
    ),
    Measure("waiting_tuples", "gauge", "tuples", "Tuples in the mailbox.", lambda task: task.waiting),
    Measure("mailbox_capacity_tuples", "gauge", "tuples", "Tuples that the mailbox holds.", lambda task: task.mailbox_capacity),
    Measure("pending_trees", "gauge", "trees", "Open trees of a spout task, or in the ledger of an acker.", lambda task: task.pending),
    Measure("max_pending_trees", "gauge", "trees", "Current limit of open trees of a spout task.", lambda task: task.max_pending),
    Measure("busy_seconds", "counter", "seconds", "Time spent in the component's code.", lambda task: task.busy_secs),
    Measure("loop_seconds", "counter", "seconds", "Time that the component's code held the event loop.", lambda task: task.loop_secs),
    Measure("task_slots", "gauge", "slots", "Calls of the task that may run at once.", lambda task: task.slots),
    Measure("execute_seconds", "gauge", "seconds", "Mean time of execute.", lambda task: secs_of_ms(task.execute_ms)),
    Measure("task_restarts", "counter", "restarts", "Instances that were replaced.", lambda task: task.restarts),
    Measure("task_errors", "counter", "errors", "Exceptions of the component.", lambda task: task.errors),
)


def families(snapshot: Snapshot) -> tuple[Family, ...]:
    """Return the engine's families, which begin with `stormcell_`, then those of the user."""
    tasks = [(_labels(snapshot, component.component_id, task.task_id), task) for component, task in _tasks(snapshot.components.values())]
    of_tasks = (*(measure.family("stormcell_", tasks) for measure in _PER_TASK), _failures(snapshot), *_latencies(tasks))
    of_features = (family for entry in snapshot.entries for family in entry.families(snapshot.topology_name))
    return (*_of_run(snapshot), _edges(snapshot), *of_tasks, *of_features, *_of_users(snapshot))


def _of_run(snapshot: Snapshot) -> Iterator[Family]:
    labels = {"topology": snapshot.topology_name}
    yield stateset("stormcell_run_state", "State of the run.", [(labels, snapshot.state)], RUN_STATES)
    yield Family("stormcell_uptime_seconds", "gauge", "Time since the run began.", (Sample(labels, snapshot.uptime_secs),), "seconds")
    longest = Sample(labels, max((wait.secs for wait in snapshot.waits), default=0.0))
    about = "Longest wait for a store, a commit or a broker; 0 below 5 s."
    yield Family("stormcell_longest_wait_seconds", "gauge", about, (longest,), "seconds")
    if snapshot.loop_cpu_secs is not None:
        cpu = Sample(labels, snapshot.loop_cpu_secs, "_total")
        yield Family("stormcell_loop_cpu_seconds", "counter", "CPU time of the event loop's thread.", (cpu,), "seconds")


def _edges(snapshot: Snapshot) -> Family:
    samples = tuple(
        Sample(
            {"topology": snapshot.topology_name, "source": edge.source, "target": edge.target, "stream": edge.stream}, edge.tuples, "_total"
        )
        for edge in snapshot.edges
    )
    return Family("stormcell_edge_tuples", "counter", "Tuples that one component sent to another one.", samples, "tuples")


def _failures(snapshot: Snapshot) -> Family:
    samples = tuple(
        Sample({**_labels(snapshot, component.component_id, task.task_id), "reason": reason}, number, "_total")
        for component, task in _tasks(snapshot.components.values())
        for reason, number in sorted(task.failures.items())
    )
    return Family("stormcell_failures", "counter", "Inputs failed, by the reason; for a spout, trees.", samples)


_LABELLED: TypeAlias = tuple[dict[str, str], TaskSnapshot]
"""A task with its labels."""


def _latencies(tasks: list[_LABELLED]) -> Iterator[Family]:
    """Yield the latency histograms. All tasks have the same edges, so that the histograms of several tasks and instances add up."""
    complete = "Time from the emit of a tree to its ack."
    process = "Time from execute to the ack or fail of the same input, of the first input in each burst."
    yield _latency("complete", complete, [(labels, task.complete_latency) for labels, task in tasks])
    yield _latency("process", process, [(labels, task.process_latency) for labels, task in tasks])


def _latency(word: str, help: str, found: list[tuple[dict[str, str], LatencySnapshot | None]]) -> Family:
    samples = tuple(sample for labels, latency in found if latency is not None for sample in _latency_samples(labels, latency))
    return Family(f"stormcell_{word}_latency_seconds", "histogram", help, samples, "seconds")


def _latency_samples(labels: dict[str, str], latency: LatencySnapshot) -> Iterator[Sample]:
    for edge, number in zip(_EDGES, (*latency.below, latency.count), strict=True):
        yield Sample({**labels, "le": edge}, number, "_bucket")
    yield Sample(labels, latency.count, "_count")
    yield Sample(labels, latency.total_secs, "_sum")


def _of_users(snapshot: Snapshot) -> Iterator[Family]:
    """Yield one family for each name. The metrics of one name follow each other in the snapshot."""
    for name, group in groupby(snapshot.user_metrics, key=lambda metric: metric.name):
        metrics = list(group)
        held = [metric.value.doublings for metric in metrics if isinstance(metric.value, Distribution)]
        edges = sorted({edge for doublings in held for edge, _ in doublings if math.isfinite(edge)})
        samples = tuple(sample for metric in metrics for sample in _user_samples(snapshot, metric, edges))
        yield Family(name, metrics[0].kind, f"A {metrics[0].kind} of the topology {snapshot.topology_name}.", samples)


def _user_samples(snapshot: Snapshot, metric: UserMetric, edges: list[float]) -> Iterator[Sample]:
    """Return the samples of one metric. edges: bucket edges, which are the same for all metrics of this name."""
    labels = {**_labels(snapshot, metric.labels.component_id, metric.labels.task_id), **metric.own_labels}
    if not isinstance(metric.value, Distribution):
        yield Sample(labels, metric.value, "_total" if metric.kind == "counter" else "")
        return
    at_edge = dict(metric.value.doublings)
    seen = 0
    for edge in edges:
        seen = at_edge.get(edge, seen)
        yield Sample({**labels, "le": repr(edge)}, seen, "_bucket")
    yield Sample({**labels, "le": "+Inf"}, metric.value.count, "_bucket")
    if not edges or edges[0] >= 0:  # OpenMetrics allows no sum, and so no count, if buckets are below zero
        yield Sample(labels, metric.value.count, "_count")
        yield Sample(labels, metric.value.total, "_sum")


def _tasks(components: Iterable[ComponentSnapshot]) -> Iterator[tuple[ComponentSnapshot, TaskSnapshot]]:
    return ((component, task) for component in components for task in component.tasks)


def _labels(snapshot: Snapshot, component_id: str, task_id: int) -> dict[str, str]:
    return {"topology": snapshot.topology_name, "component": component_id, "task": str(task_id)}
