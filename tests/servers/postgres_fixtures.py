"""Fixtures for tests that need PostgreSQL, one of each for the whole session: tests/conftest.py names them.

`POSTGRES_URL=postgresql://user:password@host:port/database` names a server that is there already, by a user who may make databases. Those
that end or freeze a server start their own all the same.
"""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import pytest

from tests.servers.postgres_server import PostgresServer, url, why_not
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port

URL: Final = "POSTGRES_URL"

NewPostgres: TypeAlias = Callable[..., PostgresServer]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server that all tests of the session share is reached: "postgresql://user:password@host:port/database"."""
    if there := os.environ.get(URL):
        yield there
        return
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "postgres"), PostgresServer) as port:
        yield url(port)


@pytest.fixture
async def new_database(postgres: str) -> AsyncIterator[str]:
    """The URL of an empty database of the shared server, which goes with the test, also where it left connections open."""
    import asyncpg

    name = f"test_{secrets.token_hex(8)}"
    connection = await asyncpg.connect(postgres)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(postgres)._replace(path=f"/{name}").geturl()
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await connection.close()


@pytest.fixture
def new_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewPostgres]:
    """Starts servers of this test alone, with the options of `PostgresServer`; they end with the test."""
    required(why_not())
    with ExitStack() as servers:
        yield lambda **options: servers.enter_context(PostgresServer(tmp_path_factory.mktemp("postgres"), **options))


@pytest.fixture
def own_postgres(new_postgres: NewPostgres) -> PostgresServer:
    """A server of this test alone, which it may kill and freeze."""
    return new_postgres()
