"""Runs a `FileSpout` in a small topology, and keeps what it emits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine import Config, FileSpout, Topology, TopologyBuilder
from engine.testing import Capture, Finished, run_topology

Position = dict[str, list[Any]]


class Kept:
    """Rows that were emitted, with the position behind each."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.positions: list[Position] = []
        self.last: dict[int, FileSpout] = {}
        """The instance of each task."""

    def values(self, number: int = 0) -> list[Any]:
        return [row[number] for row in self.rows]


class Observed(FileSpout):
    """Emits one row at a time, and notes the position behind it. `start` is the position that the instance seeks first."""

    kept: Kept
    start: Position | None = None

    async def open(self) -> None:
        await super().open()
        self.kept.last[self.context.task_index] = self
        collector, emit_many = self.collector, self.collector.emit_many

        class Noting:
            rows_emitted = property(lambda _: collector.rows_emitted)
            emit, report_error, ready = collector.emit, collector.report_error, collector.ready

            def emit_many(noting, rows: Any, message_ids: Any = None, stream: str = "default") -> None:
                emit_many(rows, message_ids, stream)
                self.kept.rows += map(tuple, rows)

        self.collector = Noting()  # type: ignore[assignment]

    def seek(self, position: Position | None) -> None:
        super().seek(self.start)

    def next_tuples(self, limit: int) -> None:
        before = len(self.kept.rows)
        super().next_tuples(1)
        self.kept.positions += [self.position()] * (len(self.kept.rows) - before)


def topology(
    make: Callable[[], FileSpout], *, parallelism: int = 1, capture: Capture | None = None, bad: Capture | None = None
) -> Topology:
    builder = TopologyBuilder("files")
    builder.set_spout("rows", make, parallelism=parallelism)
    builder.set_bolt("sink", capture or Capture()).shuffle_grouping("rows")
    if bad is not None:
        builder.set_bolt("quarantine", bad).shuffle_grouping("rows", stream="bad")
    return builder.build()


def rows_of(paths: Any, format: Any = "lines", **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of files in order."""
    capture = Capture()
    run_topology(topology(lambda: FileSpout(paths, format, **options), capture=capture))
    return capture.values


def play(paths: Any, format: Any = "lines", start: Position | None = None, **options: Any) -> Kept:
    """Run with one row per poll, and return the rows with their positions."""
    kept = Kept()
    run_observed(kept, paths, format, start, **options)
    return kept


def run_observed(
    kept: Kept,
    paths: Any,
    format: Any = "lines",
    start: Position | None = None,
    *,
    tasks: int = 1,
    during: Any = None,
    capture: Capture | None = None,
    **options: Any,
) -> Finished:
    def make() -> Observed:
        spout = Observed(paths, format, **options)
        spout.kept, spout.start = kept, start
        spout.let_engine_track_rows()  # as in front of a state
        return spout

    return run_topology(topology(make, parallelism=tasks, capture=capture), Config(), during=during)


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path
