"""Committers of topologies without batches: staged at a PREPARE, published once its checkpoint counts (EO-9)."""

import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine import ComponentError, Config, StatefulBasicBolt, Topology, TopologyBuilder, TopologyError, Tuple, bolt
from engine.dead_letters import DeadLettersEntry
from engine.testing import KillTask, run_topology
from engine.transactional import BadRows, BurstBolt, Committer, FileCommitter, SqlCommitter, SqliteDatabase, committed_lines
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.files.committer import OpenFolder
from engine.transactional.files.output_files import OutputName
from engine.transactional.values import ReduceInto, ReducingCommitter, SqliteValues
from tests.checkpoint.scenarios.kit import Numbers, once

ROWS = 200
pytestmark = pytest.mark.guarantee("EO-9")


class Target:
    """Where a committer writes to: the rows of each txid. Written twice, the rows must be the same."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.attempts: list[tuple[int, int]] = []
        self.trouble: list[Exception] = []

    def write(self, committer: Committer, rows: list[Any]) -> None:
        txid, attempt_id = committer.attempt
        self.attempts.append((txid, attempt_id))
        if self.trouble:
            raise self.trouble.pop()
        assert self.batches.setdefault(txid, rows) == rows, "a txid was published with other rows"

    @property
    def rows(self) -> list[Any]:
        return [row for txid in sorted(self.batches) for row in self.batches[txid]]


class Writing(Committer):
    """Writes the rows of its interval."""

    def __init__(self, target: Target, execute: Callable[[Any], object] = lambda tup: None) -> None:
        self.target, self.before = target, execute
        self.rows: list[Any] = []

    def execute(self, tup: Tuple) -> Awaitable[None] | None:
        assert tup["attempt"] == tup[0] == self.attempt
        self.rows.append(tup["n"])
        self.before(tup["n"])
        return None

    def finish_batch(self) -> None:
        self.target.write(self, self.rows)


class WritingBursts(BurstBolt):
    """Writes the rows of its interval, which it gets in bursts."""

    is_committer = True

    def __init__(self, target: Target, execute: Callable[[Any], object]) -> None:
        self.target, self.before = target, execute
        self.rows: list[Any] = []

    def execute_many(self, burst: Any) -> None:
        for n in burst["n"]:
            self.rows.append(n)
            self.before(n)

    def finish_batch(self) -> None:
        self.target.write(self, self.rows)  # type: ignore[arg-type]


def topology(committer: Any, rows: int = ROWS, tasks: int = 1, name: str = "out", **settings: Any) -> Topology:
    """Build numbers > out, with about ten checkpoints. name: of the committer."""
    builder = TopologyBuilder("committed")
    builder.set_spout("numbers", partial(Numbers, rows, pace_secs=0.05, burst=2))
    builder.set_committer(name, committer, tasks, **settings).fields_grouping("numbers", "n")
    return builder.build()


class RaisesFor:
    """Raises for some rows, a limited number of times each."""

    def __init__(self, bad: Iterable[int], times: int = 1) -> None:
        self.left = Counter(dict.fromkeys(bad, times))

    def __call__(self, n: int) -> None:
        if self.left[n] > 0:
            self.left[n] -= 1
            raise ValueError(f"{n} is bad")


def test_each_row_is_published_once_in_order() -> None:
    target = Target()
    run_topology(topology(lambda: Writing(target)))
    assert target.rows == list(range(ROWS))
    assert sorted(target.batches) == list(range(1, len(target.batches) + 1)), "a txid for each checkpoint"
    assert len(target.batches) > 3


@pytest.mark.parametrize("committing", [Writing, WritingBursts])
def test_a_call_that_raises_after_it_has_taken_its_row_leaves_nothing_behind(committing: Any) -> None:
    target, before = Target(), RaisesFor([3, 100, 101, 150])
    run_topology(topology(lambda: committing(target, before)))
    assert sorted(target.rows) == list(range(ROWS))


def test_retries_leave_nothing_behind() -> None:
    target, before = Target(), RaisesFor([3, 100, 101, 150], times=2)
    run_topology(topology(lambda: Writing(target, before), retries=2))
    assert target.rows == list(range(ROWS))


def test_publishing_is_repeated_until_it_succeeds_and_with_the_same_attempt() -> None:
    target = Target()
    target.trouble = [OSError("no")] * 5
    run_topology(topology(lambda: Writing(target)))
    assert target.rows == list(range(ROWS))
    assert len(set(target.attempts)) == len(target.batches), "an attempt is that of its PREPARE"


@pytest.mark.parametrize("secs", [0.2, 1.0, 1.0001, 2.5])
def test_the_death_of_a_committer_takes_everything_back(secs: float) -> None:
    target = Target()
    run_topology(topology(lambda: Writing(target)), faults=[KillTask("out", at_secs=secs)])
    assert target.rows == list(range(ROWS))


def test_a_row_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    class Odd:
        pass

    @bolt("n")
    def make(tup: Any) -> Any:
        return (Odd() if tup["n"] == 7 else tup["n"],)

    target, builder = Target(), TopologyBuilder("odd")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("make", make).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("make")
    result = run_topology(builder.build())
    assert target.rows == [n for n in range(ROWS) if n != 7]
    letters = result.snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert letters.stored == 1
    assert "Odd" in (letters.last_error or "")


class Counting(StatefulBasicBolt):
    """Counts the rows and passes them on."""

    output_fields = "n"

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        self.state.put("rows", self.state.get("rows", 0) + 1)
        return (tup["n"],)


def test_behind_a_state_both_have_each_row_once() -> None:
    target, before, builder = Target(), RaisesFor([11, 120]), TopologyBuilder("both")
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("count", Counting).shuffle_grouping("numbers")
    builder.set_committer("out", lambda: Writing(target, before)).shuffle_grouping("count")
    run_topology(builder.build())
    assert sorted(target.rows) == list(range(ROWS))


# The ready-made ones


def test_values_count_each_row_once(tmp_path: Path) -> None:
    totals = ReduceInto(SqliteValues(tmp_path / "totals.db", "totals"), key="n")
    run_topology(topology(totals, tasks=3), faults=[KillTask("out", at_secs=1.0)])
    with closing(sqlite3.connect(tmp_path / "totals.db")) as connection:
        rows = connection.execute("SELECT key, value FROM totals").fetchall()
    assert {int(key): int(value) for key, value in rows} == dict.fromkeys(range(ROWS), 1)


class Announced(ReducingCommitter[int, int, int]):
    """Tells what a batch has added, when it is written."""

    keyed_by = ("n",)
    told: ClassVar[list[dict[int, int]]] = []

    def __init__(self, values: SqliteValues) -> None:
        self.values = values

    def fold(self, partial: int | None, tup: Tuple) -> int:
        return (partial or 0) + 1

    def combine(self, stored: int | None, partial: int) -> int:
        return (stored or 0) + partial

    async def finish_batch(self) -> None:
        await super().finish_batch()
        self.told.append(dict(self.partials))


@pytest.mark.guarantee("EO-9")
def test_a_subclass_that_overrides_finish_batch_is_called_although_its_base_stages(tmp_path: Path) -> None:
    Announced.told = []
    finished = run_topology(topology(partial(Announced, SqliteValues(tmp_path / "totals.db", "totals"))))
    assert finished.state == "complete"
    assert sum(map(Counter, Announced.told), Counter()) == Counter(range(ROWS))


def test_files_have_each_row_once(tmp_path: Path) -> None:
    run_topology(topology(FileCommitter(tmp_path, format=lambda tup: str(tup["n"]), suffix=".txt"), tasks=2))
    assert sorted(map(int, committed_lines(tmp_path))) == list(range(ROWS))


async def test_an_interval_that_is_published_again_keeps_its_file(tmp_path: Path) -> None:
    """Given a task that goes back to its last commit after it has published, then the folder is still open."""

    class Task:
        topology_name, component_id, task_id = "again", "out", 1

    folder, attempt = OpenFolder(str(tmp_path), Task()), TransactionAttempt(7, 12)  # type: ignore[arg-type]
    await folder.claim()
    for _ in range(2):
        await folder.write(attempt, OutputName(*attempt, 0, 1, ".txt"), [b"one\n"])
    await folder.close()
    assert list(committed_lines(tmp_path)) == ["one"]


NEVER_TAKEN = "CREATE TRIGGER never BEFORE INSERT ON rows WHEN NEW.n IN (5, 6, 120) BEGIN SELECT RAISE(ROLLBACK, 'never'); END"


@pytest.mark.parametrize(
    "tables",
    [
        ["CREATE TABLE rows (n INTEGER NOT NULL CHECK (n NOT IN (5, 6, 120)))"],
        ["CREATE TABLE rows (n INTEGER)", NEVER_TAKEN],
        ["CREATE TABLE rows (n INTEGER UNIQUE ON CONFLICT ROLLBACK)", "INSERT INTO rows VALUES (5), (6), (120)"],
    ],
)
def test_rows_that_a_table_refuses_become_dead_letters_and_the_others_are_published(tables: list[str], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "rows.db", isolation_level=None)) as connection:
        for statement in tables:
            connection.execute(statement)
        given = connection.execute("SELECT n FROM rows").fetchall()
        insert = SqlCommitter(SqliteDatabase(tmp_path / "rows.db"), "INSERT INTO rows VALUES ($1)", fields="n")
        result = run_topology(topology(insert))
        written = [n for (n,) in connection.execute("SELECT n FROM rows ORDER BY n")]
    assert Counter(written) == once(ROWS) - Counter([5, 6, 120]) + Counter(n for (n,) in given)
    letters = result.snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert letters.stored == 3


def test_an_async_stage_ends_the_run_with_advice() -> None:
    class Stages(Writing):
        async def stage(self) -> Any:
            yield self.rows

        async def publish(self, pieces: Any) -> None:
            """Not called."""

    with pytest.raises(ComponentError, match=r"stage\(\) returned <async_generator .* is not iterable"):
        run_topology(topology(lambda: Stages(Target())))


@pytest.mark.parametrize("number", [-1, ROWS])
def test_bad_rows_that_the_instance_has_not_executed_end_the_run(number: int) -> None:
    class Refusing(Writing):
        def finish_batch(self) -> None:
            raise BadRows("never", rows=[number])

    with pytest.raises(ComponentError, match=rf"BadRows names row {number}, but this instance has executed \d+ rows"):
        run_topology(topology(lambda: Refusing(Target())))


# What is refused


def fault_of(declare: Callable[[TopologyBuilder], object], config: Config | None = None) -> str:
    builder = TopologyBuilder("refused", config)
    builder.set_spout("numbers", partial(Numbers, 1))
    declare(builder)
    with pytest.raises(TopologyError) as raised:
        builder.build()
    return str(raised.value)


def test_nobody_subscribes_to_a_committer() -> None:
    class Emitting(Writing):
        output_fields = "n"

    def declare(builder: TopologyBuilder) -> None:
        builder.set_committer("out", lambda: Emitting(Target())).shuffle_grouping("numbers")
        builder.set_bolt("next", bolt()(lambda tup: None)).shuffle_grouping("out")

    assert "bolt 'next': subscribes to the committer 'out'" in fault_of(declare)


def test_a_committer_with_several_tasks_stands_behind_its_key(tmp_path: Path) -> None:
    totals = ReduceInto(SqliteValues(tmp_path / "t.db", "totals"), key="n")
    fault = fault_of(lambda builder: builder.set_committer("out", totals, 2).shuffle_grouping("numbers"))
    assert "each key must be written by one task" in fault


def test_an_ordinary_bolt_cannot_commit() -> None:
    fault = fault_of(lambda builder: builder.set_committer("out", bolt()(lambda tup: None)).shuffle_grouping("numbers"))
    assert "is no batch bolt, so it cannot commit" in fault


def test_a_batch_bolt_without_checkpoints_is_refused() -> None:
    class Batch(Writing):
        is_committer = False

    fault = fault_of(lambda builder: builder.set_bolt("out", lambda: Batch(Target())).shuffle_grouping("numbers"))
    assert "is a batch bolt, but this topology has no batches" in fault
