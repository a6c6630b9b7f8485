"""Each error of PostgreSQL either may pass, and is retried, or ends the run with what to do (TX-8)."""

import inspect
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

import engine
from engine.errors import ComponentError, StateError, StateUnavailable
from engine.state.postgres.errors import translated_error
from engine.state.postgres.link import PostgresLink
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from engine.transactional.values import PostgresValues, ReduceInto, ValuesMismatch
from tests.servers.process import HOST, free_port
from tests.transactional.values.tasks import add, attempt, open_values, read_values

pytestmark = pytest.mark.guarantee("TX-8")

TEMPORARY = {"08", "25", "40", "53", "55", "57", "58", "72", "F0", "XX"}
"""Classes of SQLSTATE whose errors may pass."""
DAMAGE = {"XX001", "XX002"}


def test_each_error_either_may_pass_or_ends_the_run() -> None:
    errors = [each for _, each in inspect.getmembers(asyncpg.exceptions, inspect.isclass) if issubclass(each, asyncpg.PostgresError)]
    assert len(errors) > 200
    for error in errors:
        code = error.sqlstate or ""
        translated = translated_error(error("its text"), "PostgreSQL at db:5432/x", 1.0)
        may_pass = (code[:2] in TEMPORARY and code not in DAMAGE) or error is asyncpg.InvalidCachedStatementError
        assert isinstance(translated, StateUnavailable) == may_pass, error
        assert "its text" in translated.message, error
        assert translated.hint, error
        assert may_pass or "temporary" not in translated.hint, error


def test_a_broken_state_of_the_client_may_pass() -> None:
    """Raised if the server ends a session at the very moment of a call."""
    error = asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")
    assert isinstance(translated_error(error, "PostgreSQL", 1.0), StateUnavailable)
    for unsupported in (asyncpg.DataError("no"), asyncpg.UnsupportedServerFeatureError("no")):
        assert not isinstance(translated_error(unsupported, "PostgreSQL", 1.0), StateUnavailable)


@pytest.fixture
async def latin1(postgres: str, new_database: str) -> AsyncIterator[str]:
    """Return the URL of a database that stores no letters but those of Western Europe."""
    parts = urlsplit(new_database)
    name = f"{parts.path.strip('/')}_latin"
    connection = await asyncpg.connect(postgres)
    await connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        yield parts._replace(path=f"/{name}").geturl()
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


async def test_a_key_that_the_database_cannot_store_ends_the_run(latin1: str) -> None:
    values = PostgresValues(latin1, "words")
    builder: Any = TransactionalTopologyBuilder("words", "in", MemoryTransactionalSpout([[("é",), ("日本",)]], "word", take=10))
    builder.set_committer("count", ReduceInto(values, key="word")).fields_grouping("in", "word")
    with pytest.raises(ComponentError, match="the encoding of its database lacks a character") as caught:
        async with engine.run(builder.build()) as run:
            await run.completed()
    assert "'count' (task " in str(caught.value)
    assert "ENCODING 'UTF8'" in (caught.value.hint or "")
    assert await read_values(values) == {}


async def test_a_value_that_the_database_cannot_store_ends_the_run(latin1: str) -> None:
    async with open_values(PostgresValues(latin1, "words")) as task:
        await task.update(attempt(1, 1), {"a": "é"}, lambda stored, new: new)
        with pytest.raises(ValuesMismatch, match="encoding"):
            await task.update(attempt(2, 2), {"a": "日本"}, lambda stored, new: new)


@pytest.mark.parametrize(
    ("foreign", "says"),
    [
        ("ALTER TABLE words ADD CHECK (length(key) < 3)", "a constraint refuses a row"),
        ("ALTER TABLE words DROP COLUMN value", "another program made the table of this map"),
        (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
            "CREATE TRIGGER no BEFORE INSERT ON words EXECUTE FUNCTION no()",
            "a trigger refuses a row: no",
        ),
    ],
)
async def test_what_another_program_did_to_the_table_ends_the_run(foreign: str, says: str, new_database: str) -> None:
    async with open_values(PostgresValues(new_database, "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        connection = await asyncpg.connect(new_database)
        await connection.execute(foreign)
        await connection.close()
        with pytest.raises(ValuesMismatch, match=says):
            await task.update(attempt(2, 2), {"long": 1}, add)


async def test_a_server_without_tls_ends_the_run_if_the_url_asks_for_it(new_database: str) -> None:
    with pytest.raises(ValuesMismatch, match="does not speak TLS"):
        await PostgresValues(f"{new_database}?sslmode=require", "words").open(None)  # type: ignore[arg-type]


# Several hosts


def with_hosts(url: str, *hosts: str, query: str = "") -> str:
    parts = urlsplit(url)
    user, _, own = parts.netloc.rpartition("@")
    netloc = f"{user}@{','.join(own if host == 'own' else host for host in hosts)}"
    return parts._replace(netloc=netloc, query=query).geturl()


@pytest.mark.parametrize("order", [lambda dead: (dead, "own"), lambda dead: ("own", dead)])
async def test_a_url_may_name_several_hosts(order: Callable[[str], tuple[str, ...]], new_database: str) -> None:
    url = with_hosts(new_database, *order(f"{HOST}:{free_port()}"), query="target_session_attrs=primary")
    values = PostgresValues(url, "words")
    async with open_values(values) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
    assert await read_values(values) == {"a": 1}
    assert f"{HOST}:{urlsplit(new_database).port}" in str(values)
    assert urlsplit(url).password not in str(values)


async def test_a_silent_host_does_not_use_up_the_time_of_the_others(new_database: str) -> None:
    with socket.create_server((HOST, 0)) as silent:  # the system accepts connections for it, and nobody answers
        link = PostgresLink(with_hosts(new_database, f"{HOST}:{silent.getsockname()[1]}", "own"), connect_secs=0.5)
        assert await link.fetch("SELECT 1")
        await link.close()


async def test_hosts_that_cannot_be_reached_are_named_together() -> None:
    one, two = (f"{HOST}:{free_port()}" for _ in range(2))
    with pytest.raises(StateUnavailable, match=f"PostgreSQL at {one},{two}/db cannot be reached"):
        await PostgresLink(f"postgresql://me:s3cret@{one},{two}/db").open()


async def test_no_primary_among_the_hosts_may_pass(new_database: str) -> None:
    with pytest.raises(StateUnavailable, match="no host is the one that target_session_attrs asks for"):
        await PostgresLink(with_hosts(new_database, "own", "own", query="target_session_attrs=standby")).open()


async def test_a_wrong_password_is_not_tried_at_the_other_hosts(new_database: str) -> None:
    parts = urlsplit(with_hosts(new_database, "own", "own"))
    with pytest.raises(StateError, match="refuses this password"):
        await PostgresLink(parts._replace(netloc=parts.netloc.replace("s3cret", "wrong")).geturl()).open()


async def test_after_a_failover_the_hosts_are_asked_again(new_database: str) -> None:
    """The former primary is a standby now, and keeps the connection."""
    async with open_values(PostgresValues(new_database, "words")) as task:
        await task.update(attempt(1, 1), {"a": 1}, add)
        connection = task._store._link._connection  # type: ignore[attr-defined]
        await connection.execute("SET default_transaction_read_only = on")
        assert await task.update(attempt(2, 2), {"a": 1}, add) == {"a": 2}


def test_an_address_in_brackets_may_follow_another_host() -> None:
    assert PostgresLink("postgresql://me:s3cret@one,[::1]:5433/db").where == "PostgreSQL at one:5432,[::1]:5433/db"


@pytest.mark.parametrize("hosts", ["one,", "one:99999", "one:port", "one,two:x", "[::1"])
def test_an_invalid_host_is_an_error_that_shows_no_password(hosts: str) -> None:
    with pytest.raises(StateError, match="has no valid host and port") as caught:
        PostgresLink(f"postgresql://me:s3cret@{hosts}/db")
    assert "s3cret" not in str(caught.value)
    assert "two:5432" in (caught.value.hint or "")
