"""Reads the counters of a run's actors into snapshots."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from engine.kernel import LatencyHistogram
from engine.names import ACKER_COMPONENT, is_reserved
from engine.runtime.acker_executor import AckerExecutor
from engine.runtime.assembly import Assembly
from engine.runtime.bolt_calls import slots_of
from engine.runtime.bolt_executor import BoltExecutor
from engine.runtime.latency_snapshot import LatencySnapshot
from engine.runtime.snapshot import ComponentSnapshot, EdgeSnapshot, TaskSnapshot
from engine.runtime.spout_executor import SpoutExecutor
from engine.runtime.undone_messages import count_given_up

CLOSED: Final = "closed"


def observe(assembly: Assembly) -> dict[str, ComponentSnapshot]:
    """Return the snapshot of every component: user components in the order of declaration, then the ackers."""
    found: dict[str, ComponentSnapshot] = {}
    closed = all(task.core.closing for task in assembly.tasks)
    spouts_of, bolts_of = defaultdict[str, list[SpoutExecutor]](list), defaultdict[str, list[BoltExecutor]](list)
    for spout in assembly.spouts:
        spouts_of[spout.info.component_id].append(spout)
    for bolt in assembly.bolts:
        bolts_of[bolt.info.component_id].append(bolt)
    for component_id in assembly.plan.tasks:
        spouts, bolts = spouts_of[component_id], bolts_of[component_id]
        if spouts:
            latency = _merged(spout.core.complete_latency for spout in spouts)
            p50, p99 = _ms(latency.percentile(50)), _ms(latency.percentile(99))
            found[component_id] = ComponentSnapshot(component_id, "spout", tuple(map(_spout, spouts)), p50, p99)
        elif bolts:
            found[component_id] = ComponentSnapshot(component_id, "bolt", tuple(map(_bolt, bolts)))
        elif assembly.ackers:
            found[ACKER_COMPONENT] = ComponentSnapshot(
                ACKER_COMPONENT, "acker", tuple(_acker(acker, closed=closed) for acker in assembly.ackers)
            )
    return found


def observe_edges(assembly: Assembly) -> tuple[EdgeSnapshot, ...]:
    """Return the tuples of each edge, in the order of the emitting components and their streams.

    Leaves out reserved streams, which carry control tuples. Two subscriptions of one component to the same stream are one edge.
    """
    component_of = assembly.plan.component_of
    tuples = Counter[tuple[str, str, str]]()
    for task in assembly.tasks:
        for stream, target_ids, sent in task.core.sent_by_outlet():
            if not is_reserved(stream):
                tuples[task.info.component_id, component_of[target_ids[0]], stream] += sent
    return tuple(EdgeSnapshot(*edge, sent) for edge, sent in tuples.items())


def _spout(spout: SpoutExecutor) -> TaskSnapshot:
    core = spout.core
    return TaskSnapshot(
        task_id=spout.info.task_id,
        task_index=spout.info.task_index,
        emitted=core.emitted,
        transferred=core.transferred,
        acked=core.acked,
        failed=core.failed,
        failures=dict(spout.failures),
        busy_secs=core.busy_secs + spout.running_secs,
        loop_secs=spout.loop_secs,
        restarts=spout.policy.restarts,
        errors=spout.reporter.errors,
        given_up=count_given_up(spout),
        pending=core.pending,
        max_pending=core.max_pending or None,
        complete_p50_ms=_ms(core.complete_latency.percentile(50)),
        complete_p99_ms=_ms(core.complete_latency.percentile(99)),
        complete_latency=_latency(core.complete_latency),
        status=CLOSED if core.closing and not spout.exhausted else spout.status,
    )


def _bolt(bolt: BoltExecutor) -> TaskSnapshot:
    core = bolt.core
    return TaskSnapshot(
        task_id=bolt.info.task_id,
        task_index=bolt.info.task_index,
        emitted=core.emitted,
        transferred=core.transferred,
        executed=core.executed,
        acked=core.acked,
        failed=core.failed,
        failures=bolt.failures,
        waiting=len(core.mailbox),
        mailbox_capacity=core.mailbox.capacity,
        execute_ms=core.busy_secs * 1000 / core.executed if core.executed else None,
        process_ms=_ms(core.process_latency.mean()),
        process_latency=_latency(core.process_latency),
        busy_secs=core.busy_secs + bolt.calls.running_secs,
        loop_secs=bolt.loop_secs,
        slots=slots_of(bolt.spec),
        restarts=bolt.policy.restarts,
        errors=bolt.reporter.errors,
        retries=bolt.retries,
        diverted=bolt.diversion.diverted,
        given_up=bolt.given_up,
        forgotten=core.forgotten_tuples + bolt.calls.forgotten,
        settled_twice=core.settled_twice + bolt.calls.settled_twice,
        status=_bolt_status(bolt),
    )


def _bolt_status(bolt: BoltExecutor) -> str:
    core = bolt.core
    if core.closing:
        return CLOSED
    return "stopped by a full mailbox" if core.backpressure.stopped_by else "waiting" if bolt.is_idle else "running"


def _acker(acker: AckerExecutor, *, closed: bool) -> TaskSnapshot:
    core = acker.core
    return TaskSnapshot(
        task_id=acker.info.task_id,
        task_index=acker.info.task_index,
        executed=core.executed,
        acked=core.acked,
        failed=core.failed,
        waiting=len(acker.inbox),
        busy_secs=core.busy_secs,
        loop_secs=core.busy_secs,
        restarts=acker.restarts,
        pending=len(core.ledger),
        status=CLOSED if closed else "waiting" if acker.is_idle else "running",
    )


def _merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    merged = LatencyHistogram()
    for histogram in histograms:
        merged.merge(histogram)
    return merged


def _latency(histogram: LatencyHistogram) -> LatencySnapshot:
    return LatencySnapshot(histogram.count, histogram.total, histogram.doublings())


def _ms(secs: float | None) -> float | None:
    return None if secs is None else secs * 1000
