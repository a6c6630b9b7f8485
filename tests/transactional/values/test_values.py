"""The rule of TX-8 for one value, compared with its whole history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FatalError, StateFenced
from engine.transactional import TransactionAttempt
from engine.transactional.values import OpaqueValue, TransactionalValue, ValuesMismatch

Batch = list[int]
HISTORIES = st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), max_size=8)
"""Amounts of the attempts of each txid; the last attempt commits."""


def adding(amount: int):
    return lambda old: (old or 0) + amount


@pytest.mark.guarantee("TX-8")
@given(HISTORIES)
def test_an_opaque_value_is_the_sum_of_each_txids_last_attempt(history: list[Batch]) -> None:
    value, number = OpaqueValue[int](), 0
    for txid, amounts in enumerate(history, 1):
        before = value.value
        for amount in amounts:
            number += 1
            value = value.apply(TransactionAttempt(txid, number), adding(amount))
            assert value == OpaqueValue(txid, number, (before or 0) + amount, before)
            assert value.apply(TransactionAttempt(txid, number), adding(amount)) == value
    assert (value.value or 0) == sum(amounts[-1] for amounts in history)


@pytest.mark.guarantee("TX-8")
@given(HISTORIES)
def test_a_transactional_value_counts_each_txid_once(history: list[Batch]) -> None:
    value, number = TransactionalValue[int](), 0
    for txid, amounts in enumerate(history, 1):
        for _ in amounts:
            number += 1
            value = value.apply(TransactionAttempt(txid, number), adding(amounts[0]))
    assert value == TransactionalValue(len(history), sum(amounts[0] for amounts in history) if history else None)


@pytest.mark.guarantee("TX-8")
@pytest.mark.parametrize("value", [TransactionalValue(5, 1), OpaqueValue(5, 9, 1, 0)])
def test_an_older_txid_is_an_error_with_a_hint(value: TransactionalValue[int] | OpaqueValue[int]) -> None:
    with pytest.raises(ValuesMismatch, match="the state of the coordinator is older than the map") as caught:
        value.put(TransactionAttempt(4, 99), 7)
    assert isinstance(caught.value, FatalError)
    assert "memory://" in (caught.value.hint or "")


@pytest.mark.guarantee("TX-8")
def test_a_lower_attempt_of_the_same_txid_is_refused() -> None:
    value = OpaqueValue(5, 9, 1, 0)
    with pytest.raises(StateFenced):
        value.put(TransactionAttempt(5, 8), 7)
    assert TransactionalValue(5, 1).put(TransactionAttempt(5, 8), 7) == TransactionalValue(5, 1)


def test_a_value_can_be_put_without_reading_the_old_one() -> None:
    assert OpaqueValue[str]().put(TransactionAttempt(1, 1), "a") == OpaqueValue(1, 1, "a", None)
    assert TransactionalValue(1, "a").put(TransactionAttempt(2, 5), "b") == TransactionalValue(2, "b")
