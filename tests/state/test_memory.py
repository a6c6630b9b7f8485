"""`memory://` passes the suite for state providers."""

from pathlib import Path
from typing import ClassVar

import pytest

from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite


@pytest.mark.guarantee("CP-6", "CP-8")
class TestMemory(StateProviderSuite):
    durable: ClassVar[bool] = False

    def provider(self, folder: Path) -> StateProvider:
        return provider_of("memory://")
