"""Runs one topology in one process, and on Spark's levels without Spark. Committers record in this process."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import engine
from engine import Config, Tuple
from engine.runtime.snapshot import Snapshot
from engine.transactional import Committer
from spark_bridge.topology import cluster_run
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.spark_replaced import spark_replaced

RUN_SECS = 60


@dataclass
class Committed:
    """Tuples that a committer has committed: for each txid and task by source task, in order."""

    batches: dict[tuple[int, int], dict[int, list[tuple[str, tuple[Any, ...]]]]] = field(default_factory=dict)
    attempts: list[tuple[int, int]] = field(default_factory=list)

    def committer(self) -> "Records":
        return Records(self)

    def rows(self) -> list[tuple[Any, ...]]:
        """All committed rows, sorted."""
        return sorted((values for batch in self.batches.values() for rows in batch.values() for _, values in rows), key=_typed)


def _typed(values: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return a sort key of a row, whose values may be of any types."""
    return [(type(value).__name__, value) for value in values]


class Records(Committer):
    def __init__(self, committed: Committed) -> None:
        self.committed = committed
        self.came: dict[int, list[tuple[str, tuple[Any, ...]]]] = {}

    def execute(self, tup: Tuple) -> None:
        self.came.setdefault(tup.source_task, []).append((tup.stream, tup.values[1:]))

    def finish_batch(self) -> None:
        self.committed.batches[self.attempt.txid, self.context.task_id] = self.came
        self.committed.attempts.append((self.attempt.txid, self.context.task_id))


@dataclass
class Played:
    """A finished run."""

    committed: Committed
    errors: list[str]
    error: BaseException | None
    jobs: LocalJobs | None
    snapshot: Snapshot


async def play(build: Callable[[Committed], Any], *, jobs: LocalJobs | None, **config: Any) -> Played:
    """Run a topology in one process, or with the given jobs on levels. `build` gets the record of its committers."""
    committed = Committed()
    topology, settings = build(committed), Config(seed=7, **config)
    with spark_replaced(jobs):
        run = engine.run(topology, settings) if jobs is None else cluster_run.run(topology, settings)
        error: BaseException | None = None
        try:
            async with asyncio.timeout(RUN_SECS), run:
                await run.completed()
        except engine.ComponentError as raised:
            error = raised
        snapshot = run.snapshot()
        return Played(committed, [report.describe() for report in snapshot.errors], error, jobs, snapshot)


async def play_both(build: Callable[[Committed], Any], **config: Any) -> tuple[Played, Played]:
    """Run a topology on both engines."""
    return await play(build, jobs=None, **config), await play(build, jobs=LocalJobs(), **config)
