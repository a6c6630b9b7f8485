"""`redis://` passes the suite of state providers on a real server."""

from pathlib import Path

import pytest

from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite
from tests.servers.process import HOST
from tests.servers.redis_server import RedisServer


@pytest.mark.guarantee("CP-6", "CP-7", "CP-8", "CP-9")
class TestRedis(StateProviderSuite):
    @pytest.fixture(autouse=True)
    def _running(self, server: RedisServer) -> None:
        self._port = server.port

    def provider(self, folder: Path) -> StateProvider:
        return provider_of(f"redis://{HOST}:{self._port}/0?prefix={folder.name}")
