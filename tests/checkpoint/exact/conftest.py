"""The servers of the committers' targets."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.servers.kafka_admin import create_topic
from tests.servers.left_open import nothing_left_open
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port

__all__ = ["nothing_left_open"]
ServerOf: TypeAlias = Callable[[str], Awaitable[tuple[str, str]]]


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the server. Each round uses a key prefix of its own."""
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "redis"), RedisServer) as port:
        yield f"redis://{HOST}:{port}/0"


@pytest.fixture
async def server_of(request: pytest.FixtureRequest) -> AsyncIterator[ServerOf]:
    """Return the server of a kind, and the name of a new database, map or topic there."""
    databases: list[str] = []

    async def server(kind: str) -> tuple[str, str]:
        name = f"output_{secrets.token_hex(4)}"
        match kind.partition(" ")[0]:
            case "redis":
                return request.getfixturevalue("redis"), name
            case "kafka":
                return (kafka := request.getfixturevalue("kafka")), await create_topic(kafka, name, partitions=3)
            case "postgres":
                databases.append(name)
                await _on_postgres(f"CREATE DATABASE {name}")
                return urlsplit(request.getfixturevalue("postgres"))._replace(path=f"/{name}").geturl(), name
        return "", name

    async def _on_postgres(statement: str) -> None:
        connection = await asyncpg.connect(request.getfixturevalue("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    yield server
    for name in databases:
        await _on_postgres(f"DROP DATABASE {name} WITH (FORCE)")
