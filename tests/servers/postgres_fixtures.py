"""Fixtures for tests that need PostgreSQL. One server serves the whole session. tests/conftest.py imports them.

`POSTGRES_URL=postgresql://user:password@host:port/database` selects a running server. Its user must be able to create databases.
Tests that end or freeze a server still start their own.
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
    """Return the URL of the server that all tests of the session share: "postgresql://user:password@host:port/database"."""
    if there := os.environ.get(URL):
        yield there
        return
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "postgres"), PostgresServer) as port:
        yield url(port)


@pytest.fixture
async def new_database(postgres: str) -> AsyncIterator[str]:
    """Return the URL of an empty database of the shared server. It is dropped with the test, even with open connections."""
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
    """Start servers for this test alone, with the options of `PostgresServer`. They end with the test."""
    required(why_not())
    with ExitStack() as servers:
        yield lambda **options: servers.enter_context(PostgresServer(tmp_path_factory.mktemp("postgres"), **options))


@pytest.fixture
def own_postgres(new_postgres: NewPostgres) -> PostgresServer:
    """Start a server for this test only. The test may kill and freeze it."""
    return new_postgres()
