"""`zookeeper://` passes the ledger part of the suite of state providers on a real server."""

import secrets
from pathlib import Path

import pytest

from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite


@pytest.mark.guarantee("CP-8")
class TestZooKeeper(StateProviderSuite):
    keeps_rows = False

    @pytest.fixture(autouse=True)
    def _running(self, zookeeper: str) -> None:
        self._url = f"zookeeper://{zookeeper}/{secrets.token_hex(8)}"

    def provider(self, folder: Path) -> StateProvider:
        return provider_of(f"{self._url}/{folder.name}?lease_secs=2")
