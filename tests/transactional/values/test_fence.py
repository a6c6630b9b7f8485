"""Who may write while others do: the comparison that each store makes in the step that writes (TX-8)."""

from dataclasses import replace

import pytest

from engine.state.values import Fence, Writer, may_write
from engine.transactional import TransactionAttempt

WRITER = Writer("the map", "transactional", "counts", "count", 0)
BEFORE = Fence("transactional", "counts", "count", TransactionAttempt(1, 1))
NOW = TransactionAttempt(2, 2)


@pytest.mark.guarantee("TX-8")
def test_a_fence_that_is_as_it_was_seen_lets_write() -> None:
    assert may_write(BEFORE, BEFORE, NOW, WRITER)


@pytest.mark.guarantee("TX-8")
def test_so_does_one_that_another_task_of_the_component_has_raised_to_this_attempt() -> None:
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
def test_one_that_was_raised_by_anything_else_does_not(fence: Fence | None) -> None:
    assert not may_write(fence, BEFORE, NOW, WRITER)
