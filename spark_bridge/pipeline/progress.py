"""Progress of the queries of a pipeline. Has the events that Spark's process sends, and the snapshots made from them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

QueryStatus = Literal["starting", "running", "restarting", "stopped", "failed"]
PipelineState = Literal["waiting for the folder", "starting", "running", "stopping", "caught up", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class QueriesKnown:
    """Names of the queries, each with the newest txid that its consumer has planned."""

    planned: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A query has finished a micro-batch. A batch without rows updates the state and its watermark."""

    query: str
    batch_id: int
    txid: int | None
    """Its last txid."""
    rows: int
    batch_ms: float
    state_rows: int | None
    """Rows in the state of its operators. None for a query without state."""


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The status of a query has changed, with the reason."""

    query: str
    status: QueryStatus
    trouble: str | None = None
    pause_secs: float = 0.0
    """Time until the restart."""


@dataclass(frozen=True, slots=True)
class NewestSeen:
    """Newest txid of the hand-over."""

    txid: int


@dataclass(frozen=True, slots=True)
class Note:
    """A message for a person."""

    text: str


Event: TypeAlias = QueriesKnown | BatchDone | StatusChanged | NewestSeen | Note


@dataclass(frozen=True, slots=True)
class QuerySnapshot:
    """One query. Counts begin with the start of the pipeline."""

    name: str
    status: QueryStatus = "starting"
    txid: int = 0
    """Newest transaction whose rows it has processed."""
    lag: int = 0
    """Transactions of the hand-over that it has not processed."""
    rows: int = 0
    """Rows read. Rows of a batch that is repeated after a crash count twice."""
    batches: int = 0
    batch_ms: float | None = None
    """Duration of its last micro-batch with rows."""
    state_rows: int | None = None
    restarts: int = 0
    trouble: str | None = None
    """Cause of its last restart or failure."""


@dataclass(frozen=True, slots=True)
class PipelineSnapshot:
    """All queries at one instant."""

    name: str
    state: PipelineState = "starting"
    uptime_secs: float = 0.0
    newest_txid: int = 0
    queries: Mapping[str, QuerySnapshot] = field(default_factory=dict)
    deaths: int = 0
    """Number of deaths of Spark's process."""

    @property
    def lag(self) -> int:
        """Return the lag of the slowest query."""
        return max((query.lag for query in self.queries.values()), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        names = ("name", "state", "uptime_secs", "newest_txid", "lag", "deaths")
        return {**{name: getattr(self, name) for name in names}, "queries": [asdict(query) for query in self.queries.values()]}


def row_rate(before: PipelineSnapshot | None, now: PipelineSnapshot, name: str) -> float | None:
    """Return the rows per second of a query since `before`, or since the start."""
    began, rows = (0.0, 0) if before is None else (before.uptime_secs, before.queries[name].rows if name in before.queries else 0)
    secs = now.uptime_secs - began
    return (now.queries[name].rows - rows) / secs if secs > 0 else None


class ProgressTracker:
    """Applies events and returns snapshots. Keeps its counts when Spark's process is replaced."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._name = name
        self._queries: dict[str, QuerySnapshot] = {}
        self._newest = 0
        self.state: PipelineState = "starting"
        self.deaths = 0

    def apply_event(self, event: Event) -> None:
        """Update the counts."""
        match event:
            case QueriesKnown(planned):
                for name, txid in planned.items():
                    known = self._queries.get(name, QuerySnapshot(name, txid=txid))
                    self._queries[name] = replace(known, status="starting")
            case BatchDone():
                self._apply_batch(event)
            case StatusChanged(name, status, trouble):
                known = self._queries.get(name, QuerySnapshot(name))
                restarts = known.restarts + (status == "restarting")
                self._queries[name] = replace(known, status=status, trouble=trouble or known.trouble, restarts=restarts)
            case NewestSeen(txid):
                self._newest = max(self._newest, txid)
            case Note():
                pass

    def snapshot(self) -> PipelineSnapshot:
        """Return the current state."""
        queries = {name: replace(query, lag=max(0, self._newest - query.txid)) for name, query in self._queries.items()}
        return PipelineSnapshot(self._name, self.state, self._now() - self._began, self._newest, queries, self.deaths)

    def _apply_batch(self, done: BatchDone) -> None:
        known = self._queries.get(done.query, QuerySnapshot(done.query))
        self._queries[done.query] = replace(
            known,
            status="running",
            txid=known.txid if done.txid is None else done.txid,
            rows=known.rows + done.rows,
            batches=known.batches + 1,
            batch_ms=done.batch_ms if done.rows or known.batch_ms is None else known.batch_ms,
            state_rows=done.state_rows,
        )
