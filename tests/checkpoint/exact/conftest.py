"""The Redis server that all rounds of a session share."""

from collections.abc import Iterator

import pytest

from tests.servers.left_open import nothing_left_open
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer, why_not
from tests.servers.required import required
from tests.servers.shared import session_folder, shared_port

__all__ = ["nothing_left_open"]


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the server. Each round uses a key prefix of its own."""
    required(why_not())
    with shared_port(session_folder(tmp_path_factory, "redis"), RedisServer) as port:
        yield f"redis://{HOST}:{port}/0"
