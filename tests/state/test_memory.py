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


def test_the_suite_leaves_out_tests_of_missing_capabilities() -> None:
    left_out = {name for name, test in vars(TestMemory).items() if name.startswith("test_") and test is None}
    assert "test_a_ledger_survives_a_reopen" in left_out
    assert "test_a_second_process_is_refused_or_fences_the_first" in left_out
    assert "test_a_ledger_sets_and_removes_entries" not in left_out
