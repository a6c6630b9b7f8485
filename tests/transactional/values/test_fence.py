"""Concurrent writers: each store compares the fence in the step that writes (TX-8)."""

from dataclasses import replace

import pytest

from engine.state.values import Fence, Writer, may_write
from engine.transactional import TransactionAttempt

WRITER = Writer("the map", "transactional", "counts", "count", 0)
BEFORE = Fence("transactional", "counts", "count", TransactionAttempt(1, 1))
NOW = TransactionAttempt(2, 2)


@pytest.mark.guarantee("TX-8")
def test_an_unchanged_fence_allows_the_write() -> None:
    assert may_write(BEFORE, BEFORE, NOW, WRITER)


@pytest.mark.guarantee("TX-8")
def test_a_fence_that_another_task_raised_to_this_attempt_allows_the_write() -> None:
    assert may_write(replace(BEFORE, attempt=NOW), BEFORE, NOW, WRITER)


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize(
    "fence",
    [
        None,
        replace(BEFORE, attempt=NOW, component="another"),
        replace(BEFORE, attempt=TransactionAttempt(2, 3)),
        replace(BEFORE, attempt=TransactionAttempt(3, 2)),
    ],
    ids=["gone", "another component", "a later attempt", "a later txid"],
)
def test_any_other_raised_fence_refuses_the_write(fence: Fence | None) -> None:
    assert not may_write(fence, BEFORE, NOW, WRITER)
