"""Makes one sample of two snapshots: all that the page shows at one moment. Plain computation.

Rates are per second, and belong to the time between the two snapshots. Without an earlier snapshot they belong to the time since the start.
Unknown numbers are None.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from engine.names import is_reserved
from engine.runtime.bottleneck import find_bottleneck, loop_busy
from engine.runtime.failure_snapshot import FailureSnapshot, failure_dict
from engine.runtime.owed_acks import OwedAck
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot, capacity, error_dict
from engine.web.sample_metrics import entry_fields, kafka_partitions, metric_rows, transactions

MOST_FAILURES: Final = 20
POINT_FIELDS: Final = ("emitted_rate", "acked_rate", "failed_rate", "loop_busy", "open_trees", "p50_ms", "p99_ms")
"""Totals that the history keeps of each sample."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Parts of a sample that are not in the snapshot."""

    seq: int
    wall: float
    """Seconds since the epoch."""
    log_level: str
    user_components: frozenset[str]
    """Components of the user's topology. The engine has added the others."""
    owed: tuple[OwedAck, ...] = ()
    traces: tuple[dict[str, Any], ...] = ()


def make_sample(before: Snapshot | None, now: Snapshot, moment: Moment) -> dict[str, Any]:
    """Return the sample of `now`. Its rates are those since `before`."""
    elapsed = now.uptime_secs - (before.uptime_secs if before is not None else 0.0)
    entries = entry_fields(now)
    return {
        "seq": moment.seq,
        "time": round(moment.wall, 3),
        "topology": now.topology_name,
        "state": now.state,
        "uptime_secs": round(now.uptime_secs, 3),
        "bottleneck": _bottleneck(before, now),
        "waits": [{"what": wait.what, "secs": _rounded(wait.secs)} for wait in now.waits],
        "total": _total(before, now, elapsed),
        "undone": None if now.undone is None else asdict(now.undone),
        "components": [_component(before, now, component, moment, elapsed) for component in now.components.values()],
        "edges": _edges(before, now, elapsed),
        "failures": [_failure(failure) for failure in now.failures[: -MOST_FAILURES - 1 : -1]],
        "errors": [error_dict(report) for report in reversed(now.errors)],
        "owed": [_owed(each) for each in moment.owed],
        "traces": list(moment.traces),
        "checkpoint": entries.get("checkpoint"),
        "transactions": transactions({} if before is None else entry_fields(before), entries, elapsed),
        "dead_letters": entries.get("dead_letters"),
        "jobs": entries.get("jobs"),
        "flow": entries.get("flow") or [],
        "event_time": entries.get("event_time") or [],
        "kafka": kafka_partitions(now.user_metrics),
        "metrics": metric_rows(now.user_metrics),
        "log_level": moment.log_level,
    }


def make_point(before: Snapshot | None, now: Snapshot, wall: float) -> dict[str, Any]:
    """Return some totals of a sample for the history. wall: seconds since the epoch."""
    total = _total(before, now, now.uptime_secs - (before.uptime_secs if before is not None else 0.0))
    return {"time": round(wall, 3), **{name: total[name] for name in POINT_FIELDS}}


def _bottleneck(before: Snapshot | None, now: Snapshot) -> dict[str, Any]:
    found = find_bottleneck(before, now)
    return {"kind": found.kind, "component": found.component_id, "share": _rounded(found.share), "text": found.text}


def _total(before: Snapshot | None, now: Snapshot, elapsed: float) -> dict[str, Any]:
    """Return the sums over the user's spouts. The latencies are those of the slowest spout."""
    counts = {name: sum(getattr(spout, name) for spout in now.spouts) for name in ("emitted", "acked", "failed")}
    earlier = {name: sum(getattr(spout, name) for spout in before.spouts) if before is not None else 0 for name in counts}
    return {
        "loop_busy": _rounded(loop_busy(before, now)),
        "open_trees": sum(spout.pending or 0 for spout in now.spouts),
        **counts,
        **{f"{name}_rate": _rate(earlier[name], count, elapsed) for name, count in counts.items()},
        "p50_ms": _rounded(_largest(spout.complete_p50_ms for spout in now.spouts)),
        "p99_ms": _rounded(_largest(spout.complete_p99_ms for spout in now.spouts)),
        "errors": sum(component.errors for component in now.components.values()),
    }


def _component(before: Snapshot | None, now: Snapshot, component: ComponentSnapshot, moment: Moment, elapsed: float) -> dict[str, Any]:
    component_id = component.component_id
    earlier = before.components.get(component_id) if before is not None else None
    tasks = {task.task_id: task for task in earlier.tasks} if earlier is not None else {}
    rows = [_task(tasks.get(task.task_id), task, elapsed) for task in component.tasks]

    def rate_of(count: Callable[[ComponentSnapshot], int]) -> float | None:
        return _rate(0 if earlier is None else count(earlier), count(component), elapsed)

    return {
        "id": component_id,
        "kind": component.kind,
        "system": is_reserved(component_id) or component_id not in moment.user_components,
        "tasks": len(component.tasks),
        "in_rate": rate_of(lambda each: each.executed),
        "out_rate": rate_of(lambda each: each.emitted),
        "executed": component.executed,
        "emitted": component.emitted,
        "acked": component.acked,
        "failed": component.failed,
        "acked_rate": rate_of(lambda each: each.acked),
        "failed_rate": rate_of(lambda each: each.failed),
        "waiting": component.waiting,
        "mailbox_capacity": component.mailbox_capacity,
        "fill": _rounded(component.queue_fill),
        "loop_share": _sum(row["loop_share"] for row in rows),
        "capacity": _rounded(capacity(before, now, component_id)),
        "slots": component.slots,
        "execute_ms": _rounded(component.execute_ms),
        "process_ms": _rounded(component.process_ms),
        "pending": component.pending,
        "max_pending": component.max_pending,
        "p50_ms": _rounded(component.complete_p50_ms),
        "p99_ms": _rounded(component.complete_p99_ms),
        "restarts": component.restarts,
        "errors": component.errors,
        "status": component.status,
        "retries": component.retries,
        "diverted": component.diverted,
        "given_up": component.given_up,
        "failures": component.failures,
        "task_rows": rows,
    }


def _task(before: TaskSnapshot | None, now: TaskSnapshot, elapsed: float) -> dict[str, Any]:
    earlier = before or TaskSnapshot(now.task_id, now.task_index)
    return {
        "task": now.task_id,
        "index": now.task_index,
        "in_rate": _rate(earlier.executed, now.executed, elapsed),
        "out_rate": _rate(earlier.emitted, now.emitted, elapsed),
        "waiting": now.waiting,
        "capacity": _share((now.busy_secs - earlier.busy_secs) / max(now.slots, 1), elapsed),
        "loop_share": _share(now.loop_secs - earlier.loop_secs, elapsed),
        "acked": now.acked,
        "failed": now.failed,
        "pending": now.pending,
        "restarts": now.restarts,
        "errors": now.errors,
        "status": now.status,
    }


def _edges(before: Snapshot | None, now: Snapshot, elapsed: float) -> list[dict[str, Any]]:
    earlier = {(edge.source, edge.target, edge.stream): edge.tuples for edge in before.edges} if before is not None else {}
    return [
        {**asdict(edge), "rate": _rate(earlier.get((edge.source, edge.target, edge.stream), 0), edge.tuples, elapsed)} for edge in now.edges
    ]


def _failure(failure: FailureSnapshot) -> dict[str, Any]:
    return {**failure_dict(failure), "time": round(failure.wall, 3)}


def _owed(owed: OwedAck) -> dict[str, Any]:
    return {"component": owed.component_id, "task": owed.task_id, "tuple": owed.tuple_text, "age_secs": _rounded(owed.age_secs)}


def _rate(before: int, now: int, elapsed: float) -> float | None:
    return round(max(now - before, 0) / elapsed, 3) if elapsed > 0 else None


def _share(secs: float, elapsed: float) -> float | None:
    return _rounded(max(secs, 0.0) / elapsed) if elapsed > 0 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _rounded(sum(known)) if known else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def trace_dict(trace: Any) -> dict[str, Any]:
    """Return a MessageTrace as a dict for JSON."""
    return {"component": trace.component_id, "message_id": trace.message_id, "state": trace.state, "text": trace.text}


def newest_first(traces: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """Return the traces of a run for a sample, the newest first."""
    return tuple(trace_dict(trace) for trace in reversed(traces))
