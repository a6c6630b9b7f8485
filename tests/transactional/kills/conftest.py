"""Servers of the combinations. Each starts when the first combination needs it."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.servers.left_open import nothing_left_open
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port
from tests.transactional.kills.combinations import Combination
from tests.transactional.kills.rounds import Servers

__all__ = ["nothing_left_open"]

FIXTURES: Final = {"kafka": "kafka", "redis": "redis", "postgres": "new_database", "zookeeper": "zookeeper"}


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of the server that all tests of the session share. Each round has its own prefix."""
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "redis"), RedisServer) as port:
        yield f"redis://{HOST}:{port}/0"


@pytest.fixture
def servers(combination: Combination, request: pytest.FixtureRequest) -> Servers:
    """Return the servers that the combination needs."""
    return Servers(**{name: request.getfixturevalue(FIXTURES[name]) for name in combination.needs})
