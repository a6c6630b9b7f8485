"""The flow of a plan, as each of its processes builds it."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from engine import Topology
from engine.streams import Flow, Revised, Stream, Windowed, merge
from tests.checkpoint.committer_world import Rows, Target
from tests.checkpoint.world import Chance
from tests.streams.random_windows.plan import FILTERED, POISONED, Plan, ProcessPlan
from tests.streams.random_windows.sources import PartitionedSpout, ReplayingSpout, Row, SeekingSpout, Source


class Closed(NamedTuple):
    """Result of the first windows, as a row of the second ones."""

    key: str
    start: int
    end: int


class ByChance(Exception):
    """A call of a stage or of a sink fails by chance."""


@dataclass
class Seen:
    """What plain sinks have got, through all processes. Rows that a dead process writes do not count."""

    lines: dict[str, list[str]] = field(default_factory=dict)


@dataclass(eq=False)
class Program:
    """Builds the topology of one process."""

    plan: Plan
    process: ProcessPlan
    chance: Chance
    targets: dict[str, Target]
    seen: Seen
    is_dead: Callable[[], bool]
    fails_left: int = 0

    def build(self) -> Topology:
        """Return the topology."""
        flow = Flow("random")
        streams: list[Stream[Row]] = [self._source(flow, source) for source in self.plan.sources]
        rows = merge(*streams)
        for number, step in enumerate(self.plan.steps):
            rows = self._step(rows, step, f"m{number}", self.process.tasks[f"m{number}"])
        windows: Any = rows.key_by("key").window(self.plan.spec, **self.plan.updates)
        options: Any = {"name": "first", "parallelism": self.process.tasks["first"]}
        match self.plan.aggregation:
            case "collect":
                first: Any = windows.collect(**options)
            case "count":
                first = windows.count(**options)
            case _:
                first = windows.sum(lambda row: row.number, **options)
        self._sink(first, "out", revised_line_of if self.plan.updates else line_of)
        self._sink(first.late, "late", lambda late: str(late.row.number))
        if self.plan.second is not None:
            closed = (first.finals() if self.plan.updates else first).map(closed_of)
            options = {"name": "second", "parallelism": self.process.tasks["second"]}
            second = closed.key_by(lambda row: row.key < "c").window(self.plan.second).collect(**options)
            self._sink(second, "out2", line_of)
            self._sink(second.late, "late2", lambda late: repr(tuple(late.row)))
        return flow.topology()

    def _source(self, flow: Flow, source: Source) -> Stream[Row]:
        kind: Any = ReplayingSpout if not source.rewinds else PartitionedSpout if source.is_partitioned else SeekingSpout
        tasks = self.process.tasks[source.name] if source.is_partitioned else 1
        stream = flow.stream(source.name, partial(kind, source), Row, parallelism=tasks)
        bound = timedelta(milliseconds=source.bound_ms)
        return stream.event_time("at", max_out_of_order=bound, idle_secs=2.0, hold_secs=1e6)

    def _step(self, rows: Stream[Row], step: str, name: str, tasks: int) -> Stream[Row]:
        match step:
            case "map":
                return rows.map(same, name=name)
            case "filter":
                return rows.filter(lambda row: row.number % FILTERED, name=name)
            case "map_async" | "unordered":
                return rows.map_async(self.later, concurrency=4, ordered=step == "map_async", name=name, parallelism=tasks)
            case "flaky":
                return rows.map(self.flaky, name=name, parallelism=tasks)
            case "retries":
                return rows.map(self.flaky, name=name, parallelism=tasks, retries=2)
            case _:
                stage = rows.map(self.poisoned, name=name, parallelism=tasks, on_error="divert")
                self._sink(stage.failed, "failed", lambda failed: str(failed.row.number))
                return stage

    async def later(self, row: Row) -> Row:
        """Return a row after some time. Some fail."""
        await self.chance.wait()
        return self.flaky(row)

    def flaky(self, row: Row) -> Row:
        """Return a row. Some fail."""
        if self.chance.fails_now():
            raise ByChance(f"row {row.number}")
        return row

    def poisoned(self, row: Row) -> Row:
        """Return a row. The same ones fail always."""
        if row.number % POISONED == 0:
            raise ByChance(f"row {row.number}")
        return row

    def _sink(self, stream: Any, name: str, line: Callable[[Any], str]) -> None:
        if name in self.targets:
            target = self.targets[name]
            tasks = self.process.tasks.get(name, 1)
            stream.sink(name, partial(Rows, target), fields={"message": line}, parallelism=tasks)
            return
        lines = self.seen.lines.setdefault(name, [])

        def write(row: Any) -> None:
            if self.fails_left:
                self.fails_left -= 1
                raise ByChance(f"sink {name}")
            if not self.is_dead():
                lines.append(line(row))

        stream.sink(name, write)


def same(row: Row) -> Row:
    """Return a row."""
    return row


def closed_of(result: Windowed[Any, Any]) -> Closed:
    """Return a result as a row."""
    return Closed(result.key, result.start_us, result.end_us)


def line_of(result: Windowed[Any, Any]) -> str:
    """Return a result as text."""
    value = result.value
    content = sorted(tuple(row) if isinstance(row, Closed) else row.number for row in value) if isinstance(value, list) else value
    return repr((result.key, result.start_us, result.end_us, content))


def revised_line_of(result: Revised[Windowed[Any, Any]]) -> str:
    """Return a revision of a result as text."""
    return repr((*ast.literal_eval(line_of(result.value)), result.revision, result.kind, result.replaces))
