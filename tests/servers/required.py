"""Skips a test whose server is not available here. With CI=true the test fails."""

import os
from typing import Final

import pytest

MISSES: Final = "missing here: "
"""Prefix of the skip reason. tests/tiers.py counts these skips in one line."""


def required(reason: str | None) -> None:
    """Skip the test for this reason, or fail it with CI=true. Does nothing if the reason is None."""
    if reason is None:
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI needs it: {reason}", pytrace=False)
    pytest.skip(f"{MISSES}{reason}")
