"""A wrong statement fails before the first batch, with what to correct (TX-12)."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FatalError, StateError, TopologyError, UsageError
from engine.state.sql_text import checked_statement, with_question_marks
from engine.transactional import (
    MemoryOpaqueSpout,
    MemoryTransactionalSpout,
    PostgresDatabase,
    SqlCommitter,
    SqliteDatabase,
    TransactionalTopologyBuilder,
)
from tests.transactional.sql.places import INSERT, Place, published
from tests.transactional.values.tasks import attempt

pytestmark = pytest.mark.guarantee("TX-12")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("", "is empty"),
        ("-- only a comment", "is empty"),
        ("COMMIT", "begins with COMMIT"),
        ("BEGIN; INSERT INTO t VALUES ($1, $2)", "begins with BEGIN"),
        ("/* x */ VACUUM", "begins with VACUUM"),
        ("PRAGMA journal_mode = DELETE", "begins with PRAGMA"),
        ("INSERT INTO t VALUES ($1, $2); COMMIT", "has a ';' with another statement behind it"),
        ("INSERT INTO t VALUES ($1, $2);;DELETE FROM t", "has a ';' with another statement behind it"),
        ("INSERT INTO t VALUES ($1)", r"has \$1, but its fields are a, b"),
        ("INSERT INTO t VALUES ($1, $3)", r"has \$1, \$3, but its fields are a, b"),
        ("INSERT INTO t VALUES (?, ?)", r"has no placeholder like \$1"),
        ("INSERT INTO t VALUES ($1, '$2')", r"has \$1, but"),
        ("INSERT INTO t VALUES ($1, $2, $3)", r"has \$1, \$2, \$3, but"),
    ],
)
def test_a_wrong_text_is_refused_before_a_database_sees_it(statement: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        checked_statement(statement, ["a", "b"])
    assert caught.value.hint


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES ($1, $2)",
        " insert into t values ($1, ';$3', $2) ; -- ; the end\n",
        "WITH n AS (SELECT $1::int) INSERT INTO t SELECT * FROM n WHERE $2 > 0;",
        "INSERT INTO \"a;b\" VALUES ($1, $2, E'it\\'s; $9', 'it''s; $9', $x$ ; $7 $x$, $$;$8$$)",
        "/* ; $5 */ UPDATE t SET a$3 = $1 WHERE b = $2",
        "SELECT upsert($2, $1)",
    ],
)
def test_semicolons_and_numbers_in_texts_names_and_comments_mean_nothing(statement: str) -> None:
    assert checked_statement(statement, ["a", "b"]).startswith(statement.strip()[:20])


def test_placeholders_of_sqlite() -> None:
    assert with_question_marks("UPDATE t SET a = $2, b = '$1' -- $1\n WHERE c = $1") == "UPDATE t SET a = ?2, b = '$1' -- $1\n WHERE c = ?1"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("INSERT INTO nowhere(user_id, page) VALUES ($1, $2)", "nowhere"),
        ("INSERT INTO visits(user_id, pge) VALUES ($1, $2)", "pge"),
        ("INSERT INTO visits(user_id, page) VALUES ($1, $2", "syntax|incomplete input"),
        ("INSERT INTO visits(user_id) VALUES ($1, $2)", "2 values for 1 columns|more expressions than target columns"),
        ("INSERT INTO visits(user_id, page) VALUES ($1, $2) ON CONFLICT (user_id) DO NOTHING", "ON CONFLICT"),
        ("INSERT INTO visits(user_id, page) VALUES ($1, nonsense($2))", "nonsense"),
    ],
)
async def test_a_statement_that_the_database_refuses_fails_at_the_start(place: Place, statement: str, says: str) -> None:
    with pytest.raises(FatalError, match=says) as caught:
        async with place.task(statement):
            raise AssertionError("opened")
    assert "refuses the statement of this committer" in str(caught.value)
    assert statement.partition("$1")[0] in str(caught.value)
    assert "Correct the statement" in (getattr(caught.value, "hint", None) or "")


async def test_a_table_that_is_dropped_later_is_named(place: Place) -> None:
    async with place.task() as task:
        await published(task, attempt(1, 1), (1, "a"))
        await place.run("ALTER TABLE visits RENAME TO away")
        with pytest.raises(FatalError, match="visits"):
            await published(task, attempt(2, 2), (1, "a"))
        await place.run("ALTER TABLE away RENAME TO visits")
        await published(task, attempt(2, 3), (1, "b"))
    assert await place.rows() == [(1, "a"), (1, "b")]


async def test_a_select_changes_nothing_in_sqlite_and_is_refused(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "own.db"))
    await place.run("CREATE TABLE t (a)")
    with pytest.raises(FatalError, match="refuses the statement"):
        async with place.task("SELECT $1, $2 FROM t"):
            raise AssertionError("opened")


async def test_a_procedure_that_commits_is_refused_and_changes_nothing(new_database: str) -> None:
    place = Place("postgres", new_database)
    await place.run(
        "CREATE TABLE visits (user_id bigint, page text)",
        "CREATE PROCEDURE put(bigint, text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO visits VALUES ($1, $2); COMMIT; END $$",
    )
    async with place.task("CALL put($1, $2)") as task:
        with pytest.raises(FatalError, match="invalid transaction termination"):
            await published(task, attempt(1, 1), (1, "a"))
    assert await place.rows() == []


async def test_a_function_may_do_the_work(new_database: str) -> None:
    place = Place("postgres", new_database)
    await place.run(
        "CREATE TABLE visits (user_id bigint, page text)",
        "CREATE FUNCTION put(bigint, text) RETURNS void LANGUAGE sql AS $$ INSERT INTO visits VALUES ($1, $2) $$",
    )
    async with place.task("SELECT put($1, $2)") as task:
        await published(task, attempt(1, 1), (1, "a"), (2, "b"))
    assert await place.rows() == [(1, "a"), (2, "b")]


async def test_a_deferred_constraint_names_the_row(new_database: str) -> None:
    place = Place("postgres", new_database)
    await place.run("CREATE TABLE visits (user_id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED, page text)")
    async with place.task() as task:
        with pytest.raises(FatalError, match="refuses the row user_id=1, page='b'"):
            await published(task, attempt(1, 1), (1, "a"), (2, "x"), (1, "b"))
    assert await place.rows() == []


async def test_a_character_that_the_encoding_lacks_is_named(new_database: str, postgres: str) -> None:
    name = new_database.rpartition("/")[2] + "_l1"
    admin = Place("postgres", postgres)
    await admin.run(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        place = Place("postgres", f"{new_database.rpartition('/')[0]}/{name}")
        await place.run("CREATE TABLE visits (user_id bigint, page text)")
        async with place.task() as task:
            with pytest.raises(FatalError, match="refuses the row user_id=2, page='日本'"):
                await published(task, attempt(1, 1), (1, "é"), (2, "日本"))
    finally:
        await admin.run(f"DROP DATABASE {name} WITH (FORCE)")


async def test_sqlite_refuses_what_it_would_change_silently(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "own.db"))
    await place.run("CREATE TABLE visits (user_id, page)")
    async with place.task() as task:
        with pytest.raises(FatalError, match="SQLite would store NaN as NULL"):
            task.stage([(1, 2.0), (2, float("nan"))])


async def test_a_sqlite_file_must_exist_and_be_writable(tmp_path: Path) -> None:
    async def error(path: Path) -> StateError:
        with pytest.raises(StateError) as caught:
            async with Place("sqlite", str(path)).task():
                raise AssertionError("opened")
        assert isinstance(caught.value, FatalError)
        assert caught.value.hint
        return caught.value

    assert "the file does not exist" in (await error(tmp_path / "none.db")).message
    assert not os.listdir(tmp_path)
    assert "does not exist" in (await error(tmp_path / "away" / "x.db")).message
    (tmp_path / "text.db").write_text("no database\n" * 1000)
    assert "not a SQLite file" in (await error(tmp_path / "text.db")).message


async def test_foreign_keys_are_kept_in_sqlite(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "own.db"))
    await place.run("CREATE TABLE users (id INTEGER PRIMARY KEY)", "CREATE TABLE visits (user_id REFERENCES users, page)")
    async with place.task() as task:
        with pytest.raises(FatalError, match="FOREIGN KEY constraint failed"):
            await published(task, attempt(1, 1), (7, "a"))
    assert await place.rows("PRAGMA journal_mode") == [("delete",)]


async def test_without_the_right_to_create_the_table_of_fences_the_error_has_its_text(new_database: str) -> None:
    place = Place("postgres", new_database)
    user = "limited_" + new_database[-12:]
    await place.run(
        "CREATE TABLE visits (user_id bigint, page text)",
        f"CREATE ROLE {user} LOGIN PASSWORD 's3cret'",
        f"GRANT INSERT ON visits TO {user}",
    )
    limited = Place("postgres", re.sub(r"//[^@]*@", f"//{user}:s3cret@", new_database))
    try:
        with pytest.raises(FatalError, match="stormcell_batches, which stores the newest batch") as caught:
            async with limited.task():
                raise AssertionError("opened")
        hint = getattr(caught.value, "hint", "")
        made = re.search(r"CREATE TABLE [^;]*", hint)
        assert made is not None
        await place.run(made[0], f"GRANT SELECT, INSERT, UPDATE ON stormcell_batches TO {user}")
        async with limited.task() as task:
            await published(task, attempt(1, 1), (1, "a"))
            await place.run(f"REVOKE INSERT ON visits FROM {user}")
            with pytest.raises(FatalError, match="permission denied for table visits"):
                await published(task, attempt(2, 2), (1, "a"))
        assert await place.rows() == [(1, "a")]
    finally:
        await place.run(f"DROP OWNED BY {user}", f"DROP ROLE {user}")


# build()


def topology(committer: Any, tasks: int = 1, spout: Any = None) -> Any:
    builder = TransactionalTopologyBuilder("visits", "in", spout or MemoryTransactionalSpout([[(1, "a")]], ("user_id", "page"), take=1))
    builder.set_committer("out", committer, tasks).fields_grouping("in", "user_id")
    return builder


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: topology(SqlCommitter(SqliteDatabase("x"), INSERT, ("user_id", "pag"))), "reads the field 'pag'"),
        (lambda: topology(SqlCommitter(SqliteDatabase("x"), INSERT, ("user_id",))), r"has \$1, \$2, but its fields are user_id"),
        (lambda: topology(SqlCommitter("x.db", INSERT, ("a", "b"))), r"SqlCommitter\(database\) is 'x.db'"),  # type: ignore[arg-type]
        (lambda: topology(SqlCommitter(SqliteDatabase("x"), INSERT, ())), r"SqlCommitter\(fields\) is \(\)"),
        (lambda: topology(SqlCommitter(SqliteDatabase("x"), INSERT, ("user_id", "page")), 2), "has no key, so it has one task"),
        (
            lambda: topology(SqlCommitter(SqliteDatabase("x"), INSERT, ("user_id", "page"), key="page"), 2),
            "each key must be written by one task",
        ),
        (
            lambda: topology(
                SqlCommitter(SqliteDatabase("x"), INSERT, ("user_id", "page")),
                1,
                MemoryOpaqueSpout({"p": [(1, "a")]}, ("user_id", "page"), take=1),
            ),
            "the spout is opaque",
        ),
    ],
)
def test_build_refuses_what_cannot_be_exact(made: Any, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        made().build()


def test_texts_hide_passwords() -> None:
    committer = SqlCommitter(PostgresDatabase("postgresql://me:s3cret@host/db"), INSERT, ("user_id", "page"))
    assert "s3cret" not in f"{committer!r} {committer.database} {committer.create()._output} {committer.create()._output!r}"
