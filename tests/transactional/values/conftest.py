"""Runs each test of maps on every database."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.transactional.values import MemoryValues, PostgresValues, RedisValues, SqliteValues, ValueMap
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required

NewMap = Callable[[str], ValueMap]
PLACES = ("memory", "sqlite", "redis", "postgres")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    required(why_not())
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    """Name of a database."""
    name: str = request.param
    return name


@pytest.fixture
def new_map(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> NewMap:
    """Makes maps by name, all in one empty database."""
    if place == "memory":
        made: dict[str, ValueMap] = {}
        return lambda name: made.setdefault(name, MemoryValues(name))
    if place == "sqlite":
        return lambda name: SqliteValues(tmp_path / "values.db", name)
    if place == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        with server.client() as client:
            client.flushall()
        return lambda name: RedisValues(f"redis://{HOST}:{server.port}/0", name)
    url: str = request.getfixturevalue("new_database")
    return lambda name: PostgresValues(url, name)
