"""`sqlite:///path` passes the suite for state providers."""

from pathlib import Path

import pytest

from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite


@pytest.mark.guarantee("CP-6", "CP-7", "CP-8", "CP-9")
class TestSqlite(StateProviderSuite):
    def provider(self, folder: Path) -> StateProvider:
        return provider_of(f"sqlite:///{folder}/state.db")
