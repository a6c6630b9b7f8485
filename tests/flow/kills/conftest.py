"""The Redis server that all rounds of a session share."""

from collections.abc import Iterator

import pytest

from tests.servers.left_open import nothing_left_open
from tests.servers.process import HOST
from tests.servers.shared import session_folder, shared_port

__all__ = ["nothing_left_open"]


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of the server, empty if there is none. Each round uses a key prefix of its own."""
    try:
        from tests.servers.redis_server import RedisServer, why_not  # the redis client may not be installed
    except ModuleNotFoundError:
        yield ""
        return
    if why_not():
        yield ""
        return
    with shared_port(session_folder(tmp_path_factory, "redis"), RedisServer) as port:
        yield f"redis://{HOST}:{port}/0"
