"""`redis://` passes the suite of state providers on a real server."""

from pathlib import Path

import pytest

from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer
from tests.state.test_namespace_model import lived


@pytest.mark.guarantee("CP-6", "CP-7", "CP-8", "CP-9")
class TestRedis(StateProviderSuite):
    @pytest.fixture(autouse=True)
    def _running(self, server: RedisServer) -> None:
        self._port = server.port

    def provider(self, folder: Path) -> StateProvider:
        return provider_of(f"redis://{HOST}:{self._port}/0?prefix={folder.name}")


@pytest.mark.guarantee("CP-12", "CP-13", "CP-14")
@pytest.mark.parametrize("seed", range(6))
def test_namespaces_in_redis_agree_with_dicts(server: RedisServer, seed: int, tmp_path: Path) -> None:
    lived(lambda: provider_of(f"redis://{HOST}:{server.port}/0?prefix={tmp_path.name}"), seed, steps=80)
