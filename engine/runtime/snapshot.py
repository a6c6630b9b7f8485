"""Data of a run at one moment: counts and latencies, recent errors, and entries of the features.

This module holds data and plain computation. The run fills it. Latencies are in milliseconds, and None before the first
measurement. Counts begin with the run, and continue through restarts of the instances.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar

from engine.control import SnapshotEntry, json_number
from engine.errors import UsageError
from engine.metrics import Distribution, UserMetric
from engine.names import is_reserved
from engine.runtime.error_report import ErrorReport
from engine.runtime.failure_snapshot import FailureSnapshot, failure_dict
from engine.runtime.latency_snapshot import LatencySnapshot, latency_sum
from engine.undone import Undone
from engine.waits import LongWait

ComponentKind: TypeAlias = Literal["spout", "bolt", "acker"]
END_STATES: Final = frozenset({"complete", "drained", "stopped", "failed"})
"""Last states of a run."""
Entry = TypeVar("Entry", bound=SnapshotEntry)


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """One task."""

    task_id: int
    task_index: int
    emitted: int = 0
    """Calls of emit that were accepted."""
    transferred: int = 0
    """Tuples sent, one for each task that an emit went to."""
    executed: int = 0
    """Inputs handed to the component. A spout has no inputs."""
    acked: int = 0
    """Inputs acked, or trees of a spout."""
    failed: int = 0
    """Inputs failed, or trees of a spout."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Inputs failed, or trees of a spout, by the reason of their `Failure`."""
    waiting: int = 0
    """Tuples in the mailbox."""
    mailbox_capacity: int = 0
    execute_ms: float | None = None
    """Mean time of `execute`."""
    process_ms: float | None = None
    """Mean time from `execute` to the ack or fail of the same input."""
    busy_secs: float = 0.0
    """Time spent in the component's code. Calls that run at once count each. Includes the calls that still run."""
    loop_secs: float = 0.0
    """Time that the component's code held the loop.

    Counts plain calls with their emits. Also counts each step of async calls, background tasks, and handlers of control tuples.
    A call in a thread counts nothing, nor do the emits of its result. Lifecycle methods are not counted."""
    slots: int = 1
    """Calls that may run at once: `concurrency` or `threads` of the component, else 1."""
    restarts: int = 0
    errors: int = 0
    forgotten: int = 0
    """Inputs dropped without ack or fail (ACK-15)."""
    retries: int = 0
    """Calls that raised and were made again (SV-13)."""
    diverted: int = 0
    """Inputs that left on the stream `failed`. They are acked too (SV-14)."""
    given_up: int = 0
    """Failed rows that a spout will not emit again (0 for a class of yours, which alone knows it), or that a target refuses (EO-9)."""
    settled_twice: int = 0
    """Acks and fails of inputs that were already settled (ACK-5)."""
    pending: int | None = None
    """Open trees of a spout task, or in the ledger of an acker task. None for a bolt."""
    max_pending: int | None = None
    """Current limit of open trees. None: no limit."""
    complete_p50_ms: float | None = None
    """Median time from the emit of a tree to its ack."""
    complete_p99_ms: float | None = None
    complete_latency: LatencySnapshot | None = None
    """Time from the emit of each tree to its ack. None for a bolt."""
    process_latency: LatencySnapshot | None = None
    """Time from `execute` to the ack or fail of the same input. Measures the first input of each burst. None for a spout."""
    status: str = ""
    """Status of the task. `closed` once its run closes, except for an exhausted spout."""

    @property
    def queue_fill(self) -> float:
        """Fill level of the mailbox: 0 to 1, or slightly more (BP-1)."""
        return self.waiting / self.mailbox_capacity if self.mailbox_capacity else 0.0


@dataclass(frozen=True, slots=True)
class ComponentSnapshot:
    """One component, with its tasks and the sums and means over the tasks."""

    component_id: str
    kind: ComponentKind
    tasks: tuple[TaskSnapshot, ...]
    complete_p50_ms: float | None = None
    complete_p99_ms: float | None = None

    @property
    def emitted(self) -> int:
        """Calls of emit that were accepted."""
        return sum(task.emitted for task in self.tasks)

    @property
    def transferred(self) -> int:
        """Tuples sent."""
        return sum(task.transferred for task in self.tasks)

    @property
    def executed(self) -> int:
        """Inputs handed to the component."""
        return sum(task.executed for task in self.tasks)

    @property
    def acked(self) -> int:
        """Inputs acked, or trees of a spout."""
        return sum(task.acked for task in self.tasks)

    @property
    def failed(self) -> int:
        """Inputs failed, or trees of a spout."""
        return sum(task.failed for task in self.tasks)

    @property
    def failures(self) -> dict[str, int]:
        """Inputs failed, or trees of a spout, by the reason of their `Failure`. The most frequent reason is first."""
        numbers = Counter[str]()
        for task in self.tasks:
            numbers.update(task.failures)
        return dict(numbers.most_common())

    @property
    def waiting(self) -> int:
        """Tuples in the mailboxes."""
        return sum(task.waiting for task in self.tasks)

    @property
    def mailbox_capacity(self) -> int:
        """Tuples that the mailboxes hold together."""
        return sum(task.mailbox_capacity for task in self.tasks)

    @property
    def queue_fill(self) -> float:
        """Fill level of the fullest mailbox, because this mailbox stops the senders."""
        return max((task.queue_fill for task in self.tasks), default=0.0)

    @property
    def execute_ms(self) -> float | None:
        """Mean time over all inputs, so a busy task has more weight than an idle one."""
        return weighted_mean((task.execute_ms, task.executed) for task in self.tasks)

    @property
    def process_ms(self) -> float | None:
        """Mean time over all settled inputs."""
        return weighted_mean((task.process_ms, task.acked + task.failed) for task in self.tasks)

    @property
    def busy_secs(self) -> float:
        """Time spent in the component's code."""
        return sum(task.busy_secs for task in self.tasks)

    @property
    def loop_secs(self) -> float:
        """Time that the component's code held the loop."""
        return sum(task.loop_secs for task in self.tasks)

    @property
    def slots(self) -> int:
        """Calls of all tasks that may run at once."""
        return sum(task.slots for task in self.tasks)

    @property
    def complete_latency(self) -> LatencySnapshot | None:
        """Latencies of the trees of all tasks. None for a bolt."""
        return latency_sum(task.complete_latency for task in self.tasks)

    @property
    def process_latency(self) -> LatencySnapshot | None:
        """Measured latencies of the inputs of all tasks. None for a spout."""
        return latency_sum(task.process_latency for task in self.tasks)

    @property
    def restarts(self) -> int:
        """Instances that were replaced."""
        return sum(task.restarts for task in self.tasks)

    @property
    def errors(self) -> int:
        """Exceptions of the component."""
        return sum(task.errors for task in self.tasks)

    @property
    def forgotten(self) -> int:
        """Inputs dropped without ack or fail."""
        return sum(task.forgotten for task in self.tasks)

    @property
    def retries(self) -> int:
        """Calls that raised and were made again."""
        return sum(task.retries for task in self.tasks)

    @property
    def diverted(self) -> int:
        """Inputs that left on the stream `failed`."""
        return sum(task.diverted for task in self.tasks)

    @property
    def given_up(self) -> int:
        """Messages or rows that a spout will not emit again, although they failed, or that the target of a committer has refused."""
        return sum(task.given_up for task in self.tasks)

    @property
    def settled_twice(self) -> int:
        """Acks and fails of inputs that were already settled."""
        return sum(task.settled_twice for task in self.tasks)

    @property
    def pending(self) -> int | None:
        """Open trees of the tasks. None for a bolt. `__acker` counts the same trees as the spouts."""
        known = [task.pending for task in self.tasks if task.pending is not None]
        return sum(known) if known else None

    @property
    def max_pending(self) -> int | None:
        """Limit of open trees of all tasks together. None: no limit."""
        bounds = [task.max_pending for task in self.tasks if task.max_pending is not None]
        return sum(bounds) if bounds else None

    @property
    def status(self) -> str:
        """Return the status of the tasks, with their number where it differs: `polling 3, full 1`."""
        numbers: dict[str, int] = {}
        for task in self.tasks:
            numbers[task.status] = numbers.get(task.status, 0) + 1
        if len(numbers) == 1:
            return next(iter(numbers))
        return ", ".join(f"{status} {number}" for status, number in numbers.items() if status)


@dataclass(frozen=True, slots=True)
class EdgeSnapshot:
    """Tuples that all tasks of one component have sent to all tasks of another one, on one stream."""

    source: str
    target: str
    stream: str
    tuples: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One run at one moment. `components` has the user's components in the order of declaration, then the engine's own."""

    topology_name: str
    state: str
    uptime_secs: float
    components: Mapping[str, ComponentSnapshot]
    errors: tuple[ErrorReport, ...] = ()
    """The latest error reports, the newest last."""
    user_metrics: tuple[UserMetric, ...] = field(default=())
    edges: tuple[EdgeSnapshot, ...] = ()
    failures: tuple[FailureSnapshot, ...] = ()
    """The latest failed trees, the newest last."""
    loop_cpu_secs: float | None = None
    """CPU time of the loop's thread since the run began. None if the snapshot is taken on another thread."""
    undone: Undone | None = None
    """What the run has left undone. None until it ends."""
    entries: tuple[SnapshotEntry, ...] = ()
    """Entries of the features. The value of each entry is an attribute.

    `snapshot.checkpoint` is a CheckpointSnapshot, or None without state. `snapshot.flow` is a tuple of FlowSnapshot, one for each task of a
    flow-control spout. For type checkers, these attributes are Any."""
    waits: tuple[LongWait, ...] = ()
    """What the run waits for longer than 5 s, the longest wait first: a store, a commit, a broker, a consumer that is behind."""

    def __getattr__(self, name: str) -> Any:
        """Return the value of a feature's entry."""
        if name.startswith("_") or name == "entries":  # copies and pickles look for names before there are fields
            raise AttributeError(name)
        for entry in self.entries:
            if entry.name == name:
                return entry.value
        names = ", ".join(entry.name for entry in self.entries) or "none"
        raise AttributeError(f"a snapshot has no attribute {name!r}; its entries are: {names}")

    def entry(self, kind: type[Entry]) -> Entry:
        """Return the entry of a feature by its class. `snapshot.entry(FlowEntry).value` is `snapshot.flow` with a type.

        Raises UsageError if the topology does not have the feature.
        """
        for entry in self.entries:
            if isinstance(entry, kind):
                return entry
        names = ", ".join(type(entry).__name__ for entry in self.entries) or "none"
        raise UsageError(f"the snapshot of {self.topology_name!r} has no {kind.__name__}", hint=f"Its entries are: {names}.")

    @property
    def spouts(self) -> tuple[ComponentSnapshot, ...]:
        """The user's spouts, in the order of declaration."""
        return tuple(each for each in self.components.values() if each.kind == "spout" and not is_reserved(each.component_id))

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as a dict for `json.dumps`."""
        return {
            "topology": self.topology_name,
            "state": self.state,
            "uptime_secs": round(self.uptime_secs, 6),
            "components": {component_id: _component_dict(component) for component_id, component in self.components.items()},
            "errors": [error_dict(report) for report in self.errors],
            "failures": [failure_dict(failure) for failure in self.failures],
            "user_metrics": [metric_dict(metric) for metric in self.user_metrics],
            "edges": [asdict(edge) for edge in self.edges],
            "loop_cpu_secs": json_number(self.loop_cpu_secs),
            "undone": None if self.undone is None else asdict(self.undone),
            "waits": [{"what": wait.what, "secs": json_number(wait.secs)} for wait in self.waits],
            "texts": {entry.name: text for entry in self.entries if (text := entry.text()) is not None},
            **{entry.name: entry.to_json() for entry in self.entries},
        }


def capacity(before: Snapshot | None, after: Snapshot, component_id: str) -> float | None:
    """Return the share of time in which the busiest task of a component had all its slots taken.

    Measures the time between two snapshots. Without `before` the time begins with the run. At 0 the component is idle. At 1 no further call
    may run, so inputs have to wait. None if no time has passed. As Storm's, except that the busy time is measured.
    """
    return max(task_capacities(before, after, component_id), default=None)


def task_capacities(before: Snapshot | None, after: Snapshot, component_id: str) -> list[float]:
    """Return the capacity of each task of a component. Empty if no time has passed."""
    start = None if before is None else before.components.get(component_id)
    elapsed = after.uptime_secs - (0.0 if start is None or before is None else before.uptime_secs)
    if elapsed <= 0:
        return []
    earlier = {} if start is None else {task.task_id: task.busy_secs for task in start.tasks}
    return [
        max(task.busy_secs - earlier.get(task.task_id, 0.0), 0.0) / elapsed / task.slots for task in after.components[component_id].tasks
    ]


def rate(before: Snapshot | None, after: Snapshot, count: Callable[[Snapshot], int]) -> float | None:
    """Return the increase of a count per second between two snapshots. Without `before` the interval starts with the run."""
    elapsed = after.uptime_secs - (before.uptime_secs if before is not None else 0.0)
    grown = count(after) - (count(before) if before is not None else 0)
    return grown / elapsed if elapsed > 0 else None


def weighted_mean(values: Iterable[tuple[float | None, int]]) -> float | None:
    """Return the mean of (value, weight) pairs. None if no pair has both."""
    known = [(value, weight) for value, weight in values if value is not None and weight > 0]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


_SHOWN_OF_COMPONENTS = (
    *("emitted", "transferred", "executed", "acked", "failed", "failures", "pending", "max_pending"),
    *("waiting", "mailbox_capacity", "queue_fill"),
    *("execute_ms", "process_ms", "complete_p50_ms", "complete_p99_ms", "busy_secs", "loop_secs", "slots"),
    *("restarts", "errors", "retries", "diverted", "given_up", "forgotten", "settled_twice", "status"),
)


def _component_dict(component: ComponentSnapshot) -> dict[str, Any]:
    shown = {name: json_number(getattr(component, name)) for name in _SHOWN_OF_COMPONENTS}
    tasks = [{column.name: _json_value(getattr(task, column.name)) for column in fields(task)} for task in component.tasks]
    return {"kind": component.kind, **shown, "tasks": tasks}


def _json_value(value: Any) -> Any:
    return asdict(value) if isinstance(value, LatencySnapshot) else json_number(value)


def error_dict(report: ErrorReport) -> dict[str, Any]:
    """Return an error as a dict for `json.dumps`; `time` is ISO 8601 in UTC."""
    return {
        "time": datetime.fromtimestamp(report.wall, UTC).isoformat(timespec="milliseconds"),
        "component": report.component_id,
        "task": report.task_id,
        "error": report.text,
        "tuple": report.tuple_text,
        "traceback": report.traceback,
        "next_step": report.next_step,
    }


def metric_dict(metric: UserMetric) -> dict[str, Any]:
    """Return a user metric as a dict for `json.dumps`."""
    place = {"component": metric.labels.component_id, "task": metric.labels.task_id, "labels": dict(metric.own_labels)}
    shown: dict[str, Any] = {"name": metric.name, "kind": metric.kind, **place}
    if not isinstance(metric.value, Distribution):
        return {**shown, "value": json_number(metric.value)}
    names = ("count", "total", "minimum", "maximum", "p50", "p99")
    return shown | {name: json_number(getattr(metric.value, name)) for name in names}
