"""The PostgreSQL of the tests: it answers, checks passwords, keeps commits, can be frozen, and ends with its program."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.patience import PATIENCE_SECS
from tests.servers.keeper import descendants, living
from tests.servers.postgres_fixtures import NewPostgres
from tests.servers.postgres_server import PASSWORD, PostgresServer

pytestmark = pytest.mark.deep

FREEZER = """
import sys
from pathlib import Path
from tests.servers.postgres_server import PostgresServer

server = PostgresServer(Path(sys.argv[1]))
server.start()
if sys.argv[2] == "frozen":
    server.freeze()
print(server.process.pid, flush=True)
sys.stdin.read()
"""


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, and fail after a timeout."""
    async with asyncio.timeout(PATIENCE_SECS):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def connected(url: str, **options: object) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, **options)
    try:
        yield connection
    finally:
        connection.terminate()


async def test_committed_rows_are_read(new_database: str) -> None:
    async with connected(new_database) as one, connected(new_database) as other:
        await one.execute("CREATE TABLE words (word text PRIMARY KEY, count bigint)")
        await one.execute("INSERT INTO words VALUES ('storm', 1)")
        assert await other.fetchval("SELECT count FROM words WHERE word = 'storm'") == 1


@pytest.mark.parametrize("_", range(2))
async def test_each_database_is_new(new_database: str, _: int) -> None:
    async with connected(new_database) as connection:
        await connection.execute("CREATE TABLE words ()")


async def test_a_wrong_password_is_refused(postgres: str) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(postgres, password=f"not {PASSWORD}")


async def test_committed_rows_survive_kill_9(own_postgres: PostgresServer) -> None:
    """Committed rows survive kill -9, others do not."""
    async with connected(own_postgres.url) as one, connected(own_postgres.url) as other:
        assert await one.fetchval("SELECT current_setting('fsync') || current_setting('synchronous_commit')") == "onon"
        await one.execute("CREATE TABLE txids (txid bigint)")
        await one.execute("INSERT INTO txids VALUES (1)")
        await other.execute("BEGIN; INSERT INTO txids VALUES (2)")
        own_postgres.kill()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await other.execute("COMMIT")
    own_postgres.start()
    async with connected(own_postgres.url) as again:
        assert await again.fetch("SELECT txid FROM txids") == [(1,)]


async def test_a_frozen_server_answers_when_it_is_thawed(own_postgres: PostgresServer) -> None:
    """The connections of a frozen server hang too."""
    async with connected(own_postgres.url) as connection:
        own_postgres.freeze()
        asked = asyncio.create_task(connection.fetchval("SELECT 1"))
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert not done
        own_postgres.thaw()
        assert await asked == 1


@pytest.mark.parametrize("state", ["running", "frozen"])
async def test_all_of_its_processes_end_with_their_program(tmp_path: Path, state: str) -> None:
    """Given a program with a server, when kill -9 ends the program, then no process of the server is left."""
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", FREEZER, tmp_path, state, stdin=PIPE, stdout=PIPE)
    assert program.stdout is not None
    pid = int(await program.stdout.readline())
    family = {pid, *descendants(pid)}
    assert len(family) > 3
    program.kill()
    await program.wait()
    await until(lambda: living().keys().isdisjoint(family))


async def test_settings_are_applied(new_postgres: NewPostgres) -> None:
    async with connected(new_postgres(settings={"max_connections": 7}).url) as connection:
        assert await connection.fetchval("SHOW max_connections") == "7"
