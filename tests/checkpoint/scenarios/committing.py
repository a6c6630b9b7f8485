"""Scenarios of committers: what is published, with which txid, and what the target has already (EO-9).

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest

from engine import ComponentError, Config, FatalError, TopologyBuilder, Tuple
from engine.checkpoint.checkpoints import Checkpoints
from engine.checkpoint.output_handler import OutputHandler
from engine.checkpoint.staged_output import StagedOutputs, StagedTask
from engine.testing import Fault, KillTask, run_topology
from engine.transactional import (
    BadRows,
    Committer,
    MemoryTransactionalSpout,
    SqlCommitter,
    SqliteDatabase,
    TransactionalTopologyBuilder,
    committer_rules,
)
from engine.transactional.files.committer import FileWriter, OutputFolder
from engine.transactional.files.output_files import name_of
from engine.transactional.interval import IntervalCollector
from engine.transactional.interval_bolt import IntervalBolt
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told

Patch: TypeAlias = pytest.MonkeyPatch
ROWS = 40


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for the state and the output of a scenario."""
    with TemporaryDirectory() as name:
        yield Path(name)


def state_in(path: Path) -> Config:
    return FAST.replace(state_provider=f"sqlite:///{path}/state.db")


def publish(
    committer: Any,
    config: Config = FAST,
    *,
    tasks: int = 1,
    rows: int = ROWS,
    faults: Iterable[Fault] = (),
    declare: Callable[[TopologyBuilder], object] = lambda builder: None,
) -> None:
    """Run `numbers` > `out`, one row every 0.1 s."""
    builder = TopologyBuilder("scenario")
    builder.set_spout("numbers", partial(Numbers, rows, pace_secs=0.1))
    builder.set_committer("out", committer, tasks).fields_grouping("numbers", "n")
    declare(builder)
    run_topology(builder.build(), config, faults=faults, limit_secs=100)


# 19: rows that the target will never take


class RefusesSeven(Committer):
    """Writes its rows into a table that refuses the row 7, so nothing of the interval is written."""

    def __init__(self, table: Counter[int]) -> None:
        self.table = table
        self.rows: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.rows.append(tup["n"])

    def finish_batch(self) -> None:
        if 7 in self.rows:
            raise BadRows("may not be 7", rows=[self.rows.index(7)])
        self.table.update(self.rows)


def a_row_is_refused_at_publish() -> Counter[int]:
    table: Counter[int] = Counter()
    publish(lambda: RefusesSeven(table))
    return table


def refused_rows_are_errors_like_others(patch: Patch) -> None:
    async def finish(self: IntervalBolt, interval: Any, output: Any) -> Any:
        try:
            await self._finish(interval)
        except BadRows as error:
            raise RuntimeError("the table refuses a row") from error
        return ()

    patch.setattr(IntervalBolt, "_finish_or_refuse", finish)


# 20: a committer that emits


class TellsWhatIsPublished(RefusesSeven):
    """Emits the rows that it has published."""

    output_fields = "n"

    def finish_batch(self) -> None:
        self.table.update(self.rows)
        self.collector.emit_each(self.rows)


def a_committer_emits_what_it_has_published() -> Counter[int]:
    """Behind the COMMIT of the first interval a task dies."""
    table: Counter[int] = Counter()
    told = Told()

    def count(builder: TopologyBuilder) -> None:
        builder.set_bolt("count", told.create).shuffle_grouping("out")

    publish(lambda: TellsWhatIsPublished(table), faults=[KillTask("count", at_secs=1.5)], declare=count)
    assert sorted(table) == list(range(ROWS))
    return told.counts()


def committers_may_emit(patch: Patch) -> None:
    patch.setattr(committer_rules, "_subscriber_faults", lambda topology, spec: iter(()))
    patch.setattr(IntervalCollector, "_may", lambda self: True)


# 21, 23: files of several tasks


class Writes(FileWriter):
    """Writes each row into a line, after a hook."""

    def __init__(self, path: Path, before: Callable[["Writes"], Awaitable[None]]) -> None:
        super().__init__(OutputFolder(f"{path}/out"), lambda tup: str(tup["n"]), ".txt")
        self.before = before

    async def finish_batch(self) -> None:
        await self.before(self)
        await super().finish_batch()


def lines_that_count(path: Path) -> Counter[int]:
    """Return the lines of the highest attempt of each txid. Other files of the txid hide."""
    parsed = ((name_of(each.name), each) for each in (path / "out").iterdir())
    files = [(found[0], each) for found, each in parsed if found is not None]
    highest = {txid: max(name.attempt_id for name, _ in files if name.txid == txid) for txid in {name.txid for name, _ in files}}
    return Counter(int(line) for name, each in files if name.attempt_id == highest[name.txid] for line in each.read_text().split())


async def at_once(_: Writes) -> None:
    """Let a task publish at once."""


def published_by_two_tasks_of_which_one_dies() -> Counter[int]:
    """The first task has published when the second one dies, so only the second one publishes again."""
    hangs = [True]

    async def hang(writes: Writes) -> None:
        if writes.context.task_index == 1 and hangs:
            hangs.clear()
            await asyncio.sleep(1000)

    with folder() as path:
        publish(lambda: Writes(path, hang), tasks=2, faults=[KillTask("out", task_index=1, at_secs=1.5)])
        return lines_that_count(path)


def the_attempt_is_that_of_the_commit(patch: Patch) -> None:
    async def output_to_publish(self: Checkpoints, component_id: str, task_index: int) -> StagedTask:
        return replace(await unchanged(self, component_id, task_index), round=self.machine.record.round)

    unchanged = Checkpoints.output_to_publish
    patch.setattr(Checkpoints, "output_to_publish", output_to_publish)


def parallelism_changed_in_a_commit() -> Counter[int]:
    """The process dies before anything of its second interval is published by three tasks, and the next one has a single task."""

    async def end(writes: Writes) -> None:
        if writes.attempt.txid == 2:
            raise FatalError("the end", hint="none")

    with folder() as path:
        try:
            publish(lambda: Writes(path, end), state_in(path), tasks=3)
        except ComponentError as error:
            assert "the end" in str(error)  # noqa: PT017 - a scenario, in which only this error is expected
        publish(lambda: Writes(path, at_once), state_in(path))
        return lines_that_count(path)


def tasks_publish_only_their_own(patch: Patch) -> None:
    def unpublished(self: StagedOutputs, task_index: int, txid: int) -> list[StagedTask]:
        return [each for each in unchanged(self, task_index, txid) if each.task_index == task_index]

    unchanged = StagedOutputs.unpublished
    patch.setattr(StagedOutputs, "unpublished", unpublished)


# 22, 24: the target has a txid that the record does not have


def inserting(path: Path) -> SqlCommitter:
    with closing(sqlite3.connect(path / "rows.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER)")
    return SqlCommitter(SqliteDatabase(path / "rows.db"), "INSERT INTO rows VALUES ($1)", fields="n")


def inserted(path: Path) -> Counter[int]:
    with closing(sqlite3.connect(path / "rows.db")) as connection:
        return Counter(n for (n,) in connection.execute("SELECT n FROM rows"))


class Once(Committer):
    """Writes its rows into a table that skips a txid which it has already, as many people write it."""

    def __init__(self, table: Counter[int], done: list[int]) -> None:
        self.table, self.done = table, done
        self.rows: list[int] = []

    def execute(self, tup: Tuple) -> None:
        self.rows.append(tup["n"])

    def finish_batch(self) -> None:
        if self.attempt.txid > self.done[-1]:
            self.table.update(self.rows)
            self.done.append(self.attempt.txid)

    def published_txid(self) -> int:
        return self.done[-1]


def a_table_of_a_transactional_topology() -> Counter[int]:
    """A transactional topology has written two batches. A topology without batches, with the same names, goes on with the table."""
    table: Counter[int] = Counter()
    done = [0]
    builder = TransactionalTopologyBuilder("scenario", "numbers", MemoryTransactionalSpout([(1000,), (1001,)], "n", 1))
    builder.set_committer("out", lambda: Once(table, done)).fields_grouping("numbers", "n")
    run_topology(builder.build())
    assert done == [0, 1, 2]
    publish(lambda: Once(table, done))
    return table - Counter([1000, 1001])


def the_state_goes_back_by_one_commit() -> Counter[int]:
    """The store of the state has lost the last write that it had acknowledged, the table has not."""
    with folder() as path:
        publish(inserting(path), state_in(path), rows=10)
        before = (path / "state.db").read_bytes()
        publish(inserting(path), state_in(path), rows=15)
        (path / "state.db").write_bytes(before)
        publish(inserting(path), state_in(path))
        return inserted(path)


def txids_are_not_compared(patch: Patch) -> None:
    async def compare_txids(self: OutputHandler, decided_txid: int, *, is_published: bool) -> None:
        return None

    patch.setattr(OutputHandler, "_compare_txids", compare_txids)
