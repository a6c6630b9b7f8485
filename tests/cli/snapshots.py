"""Snapshots for tests of the views."""

from engine.checkpoint import CheckpointSnapshot
from engine.checkpoint.feature import CheckpointEntry
from engine.control import SnapshotEntry
from engine.flow.feature import FlowEntry
from engine.flow.status import FlowSnapshot, FlowState, FlowTaskSnapshot
from engine.runtime.error_report import ErrorReport
from engine.runtime.snapshot import ComponentSnapshot, EdgeSnapshot, Snapshot, TaskSnapshot

REPORT = ErrorReport(
    component_id="count",
    task_id=3,
    wall=1_700_000_000.5,
    text="KeyError: '[red]word'",
    tuple_text="<Tuple ('be',)>",
    traceback='  File "flow.py", line 3, in execute\n',
    next_step="the task is replaced by a fresh instance",
)


def snapshot(uptime_secs: float = 10.0, *, times: int = 1, state: str = "running") -> Snapshot:
    """Return a run of `lines` and two tasks of `count`. All counters are multiplied by `times`."""
    spout = TaskSnapshot(
        task_id=1,
        task_index=0,
        emitted=1_200_000 * times,
        transferred=1_200_000 * times,
        loop_secs=2.0 * times,
        acked=1_100_000 * times,
        failed=2 * times,
        pending=99_998,
        complete_p50_ms=1.25,
        complete_p99_ms=38.12,
        busy_secs=2.0 * times,
        status="full",
    )
    counts = tuple(
        TaskSnapshot(
            task_id=2 + index,
            task_index=index,
            executed=600_000 * times,
            acked=500_000 * times,
            waiting=(10, 60)[index],
            mailbox_capacity=100,
            execute_ms=(0.001, 0.003)[index],
            process_ms=0.5,
            busy_secs=(1.0, 9.6)[index] * times,
            loop_secs=(0.5, 0.4)[index] * times,
            errors=index * times,
            status=("waiting", "running")[index],
        )
        for index in range(2)
    )
    components = {
        "lines": ComponentSnapshot("lines", "spout", (spout,), 1.25, 38.12),
        "count": ComponentSnapshot("count", "bolt", counts),
        "__acker": ComponentSnapshot(
            "__acker", "acker", (TaskSnapshot(4, 0, acked=1_100_000 * times, busy_secs=0.5 * times, loop_secs=0.5 * times),)
        ),
    }
    edges = (EdgeSnapshot("lines", "count", "default", 1_200_000 * times),)
    return Snapshot("words", state, uptime_secs, components, (REPORT,), edges=edges, loop_cpu_secs=3.5 * times, entries=entries())


def entries(*flows: FlowSnapshot, checkpoint: CheckpointSnapshot | None = None) -> tuple[SnapshotEntry, ...]:
    """Return the entries of the features in a snapshot."""
    return (CheckpointEntry(checkpoint), FlowEntry(flows))


def flow(tasks: int = 12, *, slow: int = 2, busy: int = 1, task_id: int = 1, times: int = 1) -> FlowSnapshot:
    """Return the flow control of `lines`. The first tasks are BUSY, the next SLOW, the others NORMAL."""

    def task(index: int) -> FlowTaskSnapshot:
        state: FlowState = "BUSY" if index < busy else "SLOW" if index < busy + slow else "NORMAL"
        return FlowTaskSnapshot(
            task_id=10 + index,
            state=state,
            window=1 if state == "BUSY" else 2 if state == "SLOW" else 3,
            in_flight=1 if state == "BUSY" else 2,
            in_flight_records=40,
            pack_records=20,
            service_ms=None if state == "BUSY" else 0.25 * (index + 1),
            service_p99_ms=None if state == "BUSY" else 1.5 * (index + 1),
            settled=50 * index * times,
            records=1000 * index * times,
            resends=7 if state == "BUSY" else 0,
        )

    return FlowSnapshot(
        component_id="lines",
        task_id=task_id,
        task_index=0,
        tasks=tuple(map(task, range(tasks))),
        buffered_records=300,
        pending_records=1_500,
        done_records=50_000 * times,
        records_since_checkpoint=120,
        position="'part-7.log:1234'",
        holds=None,
    )
