"""Redis servers of the integration tests. Tests without a server are skipped with the reason. With CI=true they fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.left_open import nothing_left_open
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required

__all__ = ["nothing_left_open"]


@pytest.fixture(scope="session")
def redis_installed() -> None:
    required(why_not())


@pytest.fixture(scope="session")
def session_server(redis_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(session_server: RedisServer) -> RedisServer:
    """Return the emptied server of the session."""
    with session_server.client() as client:
        client.flushall()
    return session_server


@pytest.fixture
def own_server(redis_installed: None, tmp_path: Path) -> Iterator[RedisServer]:
    """Start a server for this test only. The test may kill it."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()
