"""Staged output that never counted is dropped from Redis, too (EO-9)."""

import secrets

import pytest

from engine import Config
from tests.checkpoint.test_committer_restarts import leave_output_of_a_task_that_is_gone


@pytest.mark.guarantee("EO-9")
@pytest.mark.parametrize("behind", [pytest.param(0, marks=pytest.mark.deep), 1])
def test_output_that_never_counted_is_dropped_although_its_task_exists_no_longer(behind: int, redis: str) -> None:
    leave_output_of_a_task_that_is_gone(behind, Config(state_provider=f"{redis}?prefix={secrets.token_hex(4)}"))
