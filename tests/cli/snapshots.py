"""Snapshots for tests of what shows them."""

from engine.cluster.snapshot import ComponentSnapshot, Snapshot, TaskSnapshot
from engine.executor.error_report import ErrorReport

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
    """Return a run of `lines` and two tasks of `count`; all that grows is multiplied by `times`."""
    spout = TaskSnapshot(
        task_id=1,
        task_index=0,
        emitted=1_200_000 * times,
        transferred=1_200_000 * times,
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
            errors=index * times,
            status=("waiting", "running")[index],
        )
        for index in range(2)
    )
    components = {
        "lines": ComponentSnapshot("lines", "spout", (spout,), 1.25, 38.12),
        "count": ComponentSnapshot("count", "bolt", counts),
        "__acker": ComponentSnapshot("__acker", "acker", (TaskSnapshot(4, 0, acked=1_100_000 * times, busy_secs=0.5 * times),)),
    }
    return Snapshot("words", state, uptime_secs, components, (REPORT,))
