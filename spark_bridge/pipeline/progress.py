"""How far the queries of a pipeline are: what Spark's process tells, and the picture that is made of it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

QueryStatus = Literal["starting", "running", "restarting", "stopped", "failed"]
PipelineState = Literal["waiting for the folder", "starting", "running", "stopping", "caught up", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class QueriesKnown:
    """The names of the queries, each with the newest txid that it had planned before."""

    planned: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A query has finished a micro-batch; one without rows is there for the state and its watermark."""

    query: str
    batch_id: int
    txid: int | None
    """With which transaction it ends."""
    rows: int
    batch_ms: float
    state_rows: int | None
    """Rows that its stateful operators keep; None where it has none."""


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """A query runs, or does not, and why."""

    query: str
    status: QueryStatus
    trouble: str | None = None
    pause_secs: float = 0.0
    """After this it is started again."""


@dataclass(frozen=True, slots=True)
class NewestSeen:
    """The newest txid that the hand-over has."""

    txid: int


@dataclass(frozen=True, slots=True)
class Told:
    """Something that a person should hear of, once."""

    text: str


Event: TypeAlias = QueriesKnown | BatchDone | StatusChanged | NewestSeen | Told


@dataclass(frozen=True, slots=True)
class QuerySnapshot:
    """One query, since the pipeline began."""

    name: str
    status: QueryStatus = "starting"
    txid: int = 0
    """The newest transaction whose rows it has processed."""
    lag: int = 0
    """How many transactions of the hand-over it has not processed."""
    rows: int = 0
    """Rows it has read; those of a batch that came again after a crash twice."""
    batches: int = 0
    batch_ms: float | None = None
    """How long its last micro-batch with rows took."""
    state_rows: int | None = None
    restarts: int = 0
    trouble: str | None = None
    """Why it was last restarted or has failed."""


@dataclass(frozen=True, slots=True)
class PipelineSnapshot:
    """All queries at one instant."""

    name: str
    state: PipelineState = "starting"
    uptime_secs: float = 0.0
    newest_txid: int = 0
    queries: Mapping[str, QuerySnapshot] = field(default_factory=dict)
    deaths: int = 0
    """How often Spark's process was started again."""

    @property
    def lag(self) -> int:
        """How far the slowest query is behind."""
        return max((query.lag for query in self.queries.values()), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        names = ("name", "state", "uptime_secs", "newest_txid", "lag", "deaths")
        return {**{name: getattr(self, name) for name in names}, "queries": [asdict(query) for query in self.queries.values()]}


def row_rate(before: PipelineSnapshot | None, now: PipelineSnapshot, name: str) -> float | None:
    """Return the rows per second of a query since `before`, or since the beginning."""
    began, rows = (0.0, 0) if before is None else (before.uptime_secs, before.queries[name].rows if name in before.queries else 0)
    secs = now.uptime_secs - began
    return (now.queries[name].rows - rows) / secs if secs > 0 else None


class Board:
    """Takes in events, gives snapshots. What a child has told stays when it dies and another one goes on."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._name = name
        self._queries: dict[str, QuerySnapshot] = {}
        self._newest = 0
        self.state: PipelineState = "starting"
        self.deaths = 0

    def hear(self, event: Event) -> None:
        """Take in what has happened."""
        match event:
            case QueriesKnown(planned):
                for name, txid in planned.items():
                    known = self._queries.get(name, QuerySnapshot(name, txid=txid))
                    self._queries[name] = replace(known, status="starting")
            case BatchDone():
                self._take_batch(event)
            case StatusChanged(name, status, trouble):
                known = self._queries.get(name, QuerySnapshot(name))
                again = known.restarts + (status == "restarting")
                self._queries[name] = replace(known, status=status, trouble=trouble or known.trouble, restarts=again)
            case NewestSeen(txid):
                self._newest = max(self._newest, txid)
            case Told():
                pass

    def snapshot(self) -> PipelineSnapshot:
        """Return how things stand."""
        queries = {name: replace(query, lag=max(0, self._newest - query.txid)) for name, query in self._queries.items()}
        return PipelineSnapshot(self._name, self.state, self._now() - self._began, self._newest, queries, self.deaths)

    def _take_batch(self, done: BatchDone) -> None:
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
