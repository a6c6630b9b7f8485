"""Rows that a committer's target refuses, which become dead letters (EO-9, DL-4)."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from engine import ComponentError, Config
from engine.cli import run_in_terminal, snapshot_text
from engine.dead_letters import DeadLettersEntry
from engine.metrics import render
from engine.runtime.metric_families import families
from engine.testing import KillTask, run_topology
from engine.transactional import BadRows, SqlCommitter, SqliteDatabase
from tests.checkpoint.scenarios.kit import once
from tests.checkpoint.test_committers import ROWS, Target, Writing, topology

pytestmark = pytest.mark.guarantee("EO-9")


@pytest.mark.guarantee("EO-9", "EO-10")
@pytest.mark.parametrize("killed", [None, "out"])
def test_refused_rows_are_given_up_by_their_committer(killed: str | None) -> None:
    class Refusing(Writing):
        async def finish_batch(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)
            bad = [number for number, n in enumerate(self.rows) if n in (5, 6, 120)]
            if bad:
                raise BadRows("5, 6 or 120", rows=bad)
            self.target.write(self, self.rows)

    target = Target()
    faults = [] if killed is None else [KillTask(killed, at_secs=1.75)]  # when the others are published
    snapshot = run_topology(topology(lambda: Refusing(target)), faults=faults).snapshot
    assert Counter(target.rows) == once(ROWS) - Counter([5, 6, 120])
    assert snapshot.components["out"].given_up == 3
    assert snapshot.components["numbers"].given_up == 0
    letters = snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert (letters.stored, letters.given_up) == (3, 3)
    assert "handled out given up 3" in snapshot_text.state_texts(None, snapshot)
    assert 'stormcell_given_up_tuples_total{topology="committed",component="out",task="2"} 3' in render(families(snapshot))


@pytest.mark.guarantee("DL-4")
def test_the_last_lines_of_a_run_name_its_dead_letters(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Writing):
        def finish_batch(self) -> None:
            if self.rows:
                raise BadRows("column 'n' is a text", rows=range(len(self.rows)))

    outcome = run_in_terminal(topology(lambda: Refusing(Target()), rows=6), Config(), view="silent")
    assert outcome.exit_status == 0
    assert "rows of 'out' (column 'n' is a text). They are dead letters now" in caplog.text
    said = capfd.readouterr().err
    assert "committed: 6 rows are dead letters of this run (last error, of 'out': column 'n' is a text). List them: python -m" in said


@pytest.mark.guarantee("EO-9")
def test_a_target_that_refuses_all_of_many_rows_ends_the_run_and_gets_them_later(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "rows.db")
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    insert = SqlCommitter(database, "INSERT INTO written VALUES ($1)", fields=("n",))
    for column in ("n INTEGER CHECK (n < 0)", "n INTEGER CHECK (n <> 7)"):
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DROP TABLE IF EXISTS written")
            connection.execute(f"CREATE TABLE written ({column})")
        if "< 0" in column:
            with pytest.raises(ComponentError, match=r"the target refuses all .* rows .* because: CHECK constraint failed"):
                run_topology(topology(insert, rows=300, name="written"), config)
        else:
            snapshot = run_topology(topology(insert, rows=300, name="written"), config).snapshot
    with closing(sqlite3.connect(database.path)) as connection:
        assert [n for (n,) in connection.execute("SELECT n FROM written ORDER BY n")] == [n for n in range(4, 300) if n != 7]
    letters = snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert letters.stored == 5, "the first checkpoint has only four rows"


def test_rows_that_a_committer_refuses_are_left_out_for_good() -> None:
    class Refusing(Writing):
        def finish_batch(self) -> None:
            bad = [number for number, n in enumerate(self.rows) if n % 50 == 9]
            if bad:
                raise BadRows("ends with 9", rows=bad[:1])
            super().finish_batch()

    target = Target()
    run_topology(topology(lambda: Refusing(target)))
    assert target.rows == [n for n in range(ROWS) if n % 50 != 9]


def test_a_refused_row_is_one_letter_although_publishing_the_others_is_repeated() -> None:
    class Refusing(Writing):
        def finish_batch(self) -> None:
            bad = [number for number, n in enumerate(self.rows) if n % 50 == 9]
            if bad:
                target.trouble = [OSError("no")] * 2
                raise BadRows("ends with 9", rows=bad)
            super().finish_batch()

    target = Target()
    result = run_topology(topology(lambda: Refusing(target)))
    assert target.rows == [n for n in range(ROWS) if n % 50 != 9]
    letters = result.snapshot.entry(DeadLettersEntry).value
    assert letters is not None
    assert (letters.stored, letters.given_up) == (4, 4)
