"""What a test does where the server that it needs cannot be had: it is skipped, with the reason; on CI (CI=true) it fails."""

import os

import pytest


def required(reason: str | None) -> None:
    """Skip or fail for this reason; nothing without one."""
    if reason is None:
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI needs it: {reason}", pytrace=False)
    pytest.skip(reason)
