"""Errors of a map: a wrong URL, password or name, another program's table or file, an unavailable database."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from engine.config import Config
from engine.errors import StateDamaged, StateError, StateUnavailable, UsageError
from engine.state import provider_of
from engine.transactional.values import MemoryValues, PostgresValues, RedisValues, SqliteValues, ValuesMismatch, values_at
from tests.servers.process import HOST, free_port
from tests.servers.redis_server import RedisServer
from tests.transactional.values.tasks import add, attempt, context, open_values, read_values


async def opening_error(values: Any) -> StateError:
    with pytest.raises(StateError) as caught:
        async with open_values(values) as task:
            await task.update(attempt(1, 1), {"a": 1}, add)
    assert caught.value.hint
    assert "s3cret" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", ["", "a b", "a.b", 'a"b', "é", "7", "_a", "sqlite_x", "Stormcell", "pg_x", "a" * 49, None, "a;b"])
def test_a_name_that_some_database_cannot_use_is_refused(name: Any) -> None:
    for make in (
        MemoryValues,
        lambda it: SqliteValues("x.db", it),
        lambda it: RedisValues("redis://h", it),
        lambda it: PostgresValues("", it),
    ):
        with pytest.raises(UsageError, match="is not a valid name of a map"):
            make(name)


def test_the_url_selects_the_database() -> None:
    assert values_at("sqlite:///a/b%20c.db", "words") == SqliteValues(Path("a/b c.db"), "words")
    assert values_at("redis://host", "words") == RedisValues("redis://host", "words")
    assert values_at("postgres://host/db", "words") == PostgresValues("postgres://host/db", "words")
    assert isinstance(values_at("memory://", "words"), MemoryValues)
    for url in ("sqlite:counts", "sqlite://host/x", "sqlite://[", "mysql://[h", "mysql://h", "", "words"):
        with pytest.raises(StateError) as caught:
            values_at(url, "words")
        assert caught.value.hint


def test_texts_hide_passwords() -> None:
    for values in (RedisValues("redis://:s3cret@host/0", "words"), PostgresValues("postgresql://me:s3cret@host/db", "words")):
        assert "s3cret" not in f"{values} {values!r}"


async def test_a_file_of_state_cannot_hold_values_and_vice_versa(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    provider = provider_of(url)
    await provider.open("words")
    await provider.close()
    error = await opening_error(values_at(url, "words"))
    assert "holds the state of topologies; values need a file of their own" in error.message
    async with open_values(SqliteValues(tmp_path / "values.db", "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
    provider = provider_of(f"sqlite:///{tmp_path}/values.db")
    with pytest.raises(StateError, match="another program"):
        await provider.open("words")


async def test_a_foreign_sqlite_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE words (word)")
    assert "another program" in (await opening_error(SqliteValues(tmp_path / "other.db", "words"))).message
    (tmp_path / "text.db").write_text("no database\n" * 1000)
    assert "not a SQLite file" in (await opening_error(SqliteValues(tmp_path / "text.db", "words"))).message
    assert "does not exist" in (await opening_error(SqliteValues(tmp_path / "away" / "x.db", "words"))).message
    (tmp_path / "loop.db").symlink_to("loop.db")
    assert "its links are circular" in (await opening_error(SqliteValues(tmp_path / "loop.db", "words"))).message
    assert "is not a file" in (await opening_error(SqliteValues(tmp_path, "words"))).message


async def test_a_reader_creates_nothing(tmp_path: Path, new_database: str) -> None:
    with pytest.raises(StateError, match="there are no values in"):
        await read_values(SqliteValues(tmp_path / "values.db", "words"))
    assert not os.listdir(tmp_path)
    assert await read_values(PostgresValues(new_database, "words")) == {}
    connection = await asyncpg.connect(new_database)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()


async def test_a_file_is_shared_and_closed_with_its_last_user(tmp_path: Path) -> None:
    words, lines = SqliteValues(tmp_path / "values.db", "words"), SqliteValues(tmp_path / "values.db", "lines")
    async with open_values(words) as first:
        async with open_values(lines) as second:
            await second.update(attempt(1, 1), {"a": 1}, add)
        await first.update(attempt(1, 1), {"a": 1}, add)
    assert await read_values(lines) == {"a": 1}
    assert os.listdir(tmp_path) == ["values.db"], "the file must be closed, so its log is merged"


async def test_refusals_of_postgresql_are_clear_errors(new_database: str) -> None:
    parts = urlsplit(new_database)

    def at(**changed: Any) -> PostgresValues:
        return PostgresValues(parts._replace(**changed).geturl(), "words")

    wrong = f"{parts.username}:wrong@{parts.hostname}:{parts.port}"
    error = await opening_error(at(netloc=wrong))
    assert "refuses this password" in error.message
    assert isinstance(error, ValuesMismatch), "this error must end the run"
    assert "there is no such database" in (await opening_error(at(path="/nowhere"))).message
    away = await opening_error(at(netloc=f"{HOST}:{free_port()}"))
    assert isinstance(away, StateUnavailable)
    assert "cannot be reached" in away.message
    assert "URL" in (await opening_error(at(netloc="host:port"))).message
    assert "URL" in (await opening_error(at(query="sslmode=nonsense"))).message


async def test_a_foreign_table_is_refused_and_not_changed(new_database: str) -> None:
    connection = await asyncpg.connect(new_database)
    await connection.execute("CREATE TABLE words (word text)")
    error = await opening_error(PostgresValues(new_database, "words"))
    assert "another program has a table of this name" in error.message
    async with open_values(PostgresValues(new_database, "lines")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        await connection.execute("DROP TABLE lines")
        with pytest.raises(StateError, match="a table of this map is gone"):
            await task.update(attempt(2, 2), {"a": 1}, add)
    await connection.close()


async def test_a_missing_right_to_create_tables_is_a_clear_error(new_database: str) -> None:
    parts = urlsplit(new_database)
    role = parts.path.strip("/")
    connection = await asyncpg.connect(new_database)
    await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pass'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    try:
        url = parts._replace(netloc=f"{role}:pass@{parts.hostname}:{parts.port}").geturl()
        assert "its user may not do this" in (await opening_error(PostgresValues(url, "words"))).message
    finally:
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()


async def test_a_key_that_is_too_long_for_postgresql_is_a_clear_error(new_database: str) -> None:
    import secrets

    async with open_values(PostgresValues(new_database, "words")) as task:
        with pytest.raises(StateError, match="a key is too long") as caught:
            await task.update(attempt(1, 1), {secrets.token_hex(5000): 1}, add)
        assert "digest" in (caught.value.hint or "")


async def test_refusals_of_redis_are_clear_errors(redis_server: RedisServer) -> None:
    base = f"{HOST}:{redis_server.port}"
    assert "no password" in (await opening_error(RedisValues(f"redis://:s3cret@{base}", "words"))).message
    assert "RedisValues" in (await opening_error(RedisValues("redis://", "words"))).message
    away = await opening_error(RedisValues(f"redis://{HOST}:{free_port()}", "words"))
    assert isinstance(away, StateUnavailable)
    with redis_server.client() as client:
        client.set("{other/words}:values", "somebody else's")
        assert "which the engine did not write" in (await opening_error(RedisValues(f"redis://{base}?prefix=other", "words"))).message
        client.hset("{mine/words}:values", "a", "1")
        assert "exists without its fence" in (await opening_error(RedisValues(f"redis://{base}?prefix=mine", "words"))).message


async def test_a_map_that_is_deleted_during_a_run_is_an_error(redis_server: RedisServer) -> None:
    async with open_values(RedisValues(f"redis://{HOST}:{redis_server.port}?prefix=gone", "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        with redis_server.client() as client:
            client.flushall()
        with pytest.raises(ValuesMismatch, match="existed before, and is now missing"):
            await task.update(attempt(2, 2), {"a": 1}, add)


async def test_foreign_values_are_reported(redis_server: RedisServer) -> None:
    async with open_values(RedisValues(f"redis://{HOST}:{redis_server.port}?prefix=odd", "words")) as task:
        await task.update(attempt(1, 1), {"a": 1, "b": 2}, add)
        with redis_server.client() as client:
            client.hset("{odd/words}:values", "a", "1:{no json")
            client.hset("{odd/words}:values", "b", "nothing of ours")
        for key in "ab":
            with pytest.raises(StateError, match="cannot be read"):
                await task.get(key)


async def test_an_unavailable_database_fails_after_the_timeout(redis_server: RedisServer, tmp_path: Path) -> None:
    own = RedisServer(tmp_path)
    own.start()
    values = RedisValues(f"redis://{HOST}:{own.port}", "words")
    task = await values.open(context(config=Config(state_timeout_secs=0.3)))
    await task.update(attempt(1, 1), {"a": 1}, add)
    own.kill()
    with pytest.raises(StateUnavailable, match="tried for"):
        await task.update(attempt(2, 2), {"a": 1}, add)
    own.start()
    assert await task.update(attempt(2, 3), {"a": 1}, add) == {"a": 2}
    await task.close()
    own.kill()


async def test_a_new_map_of_an_old_topology_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with open_values(MemoryValues("words")) as task:
        await task.update(attempt(57, 1), {"a": 1}, add)
    assert "is new, at 57 (attempt 0.1) of its topology: it does not contain earlier batches" in caplog.text


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (
            "UPDATE words SET txid = 7 WHERE key = 'a'",
            "the value of 'a' is damaged: its transaction is 7, but the newest transaction of the map is 3",
        ),
        ("UPDATE words SET txid = 'x' WHERE key = 'b'", "the value of 'b' is damaged: its transaction is 'x'"),
        ("UPDATE words SET txid = -1 WHERE key = 'b'", "the value of 'b' is damaged: its transaction is -1"),
        ("UPDATE stormcell_maps SET txid = 'x'", "the fence of a map of values is damaged: kind '.*', txid 'x', attempt 2"),
        ("UPDATE stormcell_maps SET attempt = -5", "txid 2, attempt -5"),
        ("UPDATE stormcell_maps SET topology = x'ff'", "the fence of a map of values is damaged"),
        ("UPDATE stormcell_maps SET component = x'ff'", "the fence of a map of values is damaged"),
    ],
)
@pytest.mark.parametrize("kind", ["transactional", "opaque"])
async def test_a_damaged_map_ends_the_run_without_skipping_a_batch(kind: Any, statement: str, says: str, tmp_path: Path) -> None:
    """A row of a later transaction than the map's must not be skipped silently in every batch."""
    words = SqliteValues(tmp_path / "values.db", "words")
    async with open_values(words) as values:
        await values.update(attempt(1, 1), {"a": 1, "b": 1}, add, kind=kind)
        await values.update(attempt(2, 2), {"a": 1}, add, kind=kind)
    with closing(sqlite3.connect(tmp_path / "values.db", isolation_level=None)) as connection:
        connection.execute(statement)
    async with open_values(words) as values:
        with pytest.raises(StateDamaged, match=says):
            await values.update(attempt(3, 3), {"a": 1, "b": 1, "c": 1}, add, kind=kind)
