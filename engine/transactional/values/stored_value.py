"""The rule of TX-8 for one value that an attempt changes.

| stored txid | `TransactionalValue` | `OpaqueValue` |
|---|---|---|
| older than ours | changed | changed, and the old value becomes `previous` |
| ours | kept, because this batch is in it already | computed again from `previous`, because the batch may differ |
| ours, of a later attempt | kept | refused: StateFenced |
| newer than ours | `ValuesMismatch` | `ValuesMismatch` |

None as a value is the same as no value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from engine.errors import FatalError, StateError, StateFenced
from engine.state.values import ValuesMismatch
from engine.transactional.attempt import TransactionAttempt

V = TypeVar("V")


class ValuesTakenOver(StateFenced, FatalError):
    """A later epoch has written. Another process has taken over, or the coordinator's state was reset."""


class Holder(NamedTuple):
    """Names in errors for what stores a txid."""

    name: str
    anew: str
    """What to do to begin without the stored txids."""


MAP: Final = Holder("the map", "give the map a new name")


def older_transaction(where: str, attempt: TransactionAttempt, stored: TransactionAttempt, holder: Holder = MAP) -> StateError:
    """Return the error for an attempt of a txid that is older than the newest one stored."""
    if stored.epoch > attempt.epoch:
        return _taken_over(where, attempt, stored, holder)
    return ValuesMismatch(
        f"{where} has transaction {stored.txid}, which is later than {attempt}: the state of the coordinator is older than {holder.name}",
        hint="Its state was lost or restored, or belongs to another store: check state_provider (memory:// forgets at the end of a run). "
        f"Continue with the newest state, or {holder.anew}.",
    )


def overtaken(where: str, attempt: TransactionAttempt, stored_attempt_id: int, holder: Holder = MAP) -> StateFenced:
    """Return the error for an attempt when a later attempt of this or a newer txid has written."""
    later = TransactionAttempt(attempt.txid, stored_attempt_id)
    if later.epoch > attempt.epoch:
        return _taken_over(where, attempt, later, holder)
    return StateFenced(
        f"{where}: {attempt} may not write any more: a later attempt ({later.epoch}.{later.number}) has written",
        hint="If no other process runs this topology, this is harmless, because the batch was replayed meanwhile.",
    )


def _taken_over(where: str, attempt: TransactionAttempt, later: TransactionAttempt, holder: Holder) -> ValuesTakenOver:
    """Return the error for a later epoch. The process of this epoch may run now, or may have run before the state was reset."""
    return ValuesTakenOver(
        f"{where}: {attempt} may not write any more: a later attempt ({later.epoch}.{later.number}), of a later start of the topology, "
        "has written. This process has been taken over, or the state of its coordinator was restored from an older copy",
        hint="If another process runs the topology, nothing is lost, because that process continues. Otherwise restore the newest state of "
        f"the coordinator, or {holder.anew}.",
    )


@dataclass(frozen=True)
class TransactionalValue(Generic[V]):
    """A value and its txid, for spouts that replay the same tuples.

    >>> count = TransactionalValue(3, 10).apply(TransactionAttempt(4, 1), lambda old: (old or 0) + 5)
    >>> count, count.apply(TransactionAttempt(4, 2), lambda old: (old or 0) + 5)
    (TransactionalValue(txid=4, value=15), TransactionalValue(txid=4, value=15))
    """

    txid: int = 0
    """0: no value yet."""
    value: V | None = None

    def apply(self, attempt: TransactionAttempt, change: Callable[[V | None], V | None]) -> "TransactionalValue[V]":
        """Return the value to store when this attempt changes it to `change(old)`."""
        if self.txid > attempt.txid:
            raise older_transaction("the value", attempt, TransactionAttempt(self.txid, 0))
        return self if self.txid == attempt.txid else TransactionalValue(attempt.txid, change(self.value))

    def put(self, attempt: TransactionAttempt, value: V) -> "TransactionalValue[V]":
        """Return the value to store when this attempt sets it."""
        return self.apply(attempt, lambda old: value)


@dataclass(frozen=True)
class OpaqueValue(Generic[V]):
    """A value, its attempt, and the value before its txid, for any spout (TX-7).

    >>> first = OpaqueValue(3, 1, 10).apply(TransactionAttempt(4, 2), lambda old: (old or 0) + 5)
    >>> first, first.apply(TransactionAttempt(4, 3), lambda old: (old or 0) + 6).value
    (OpaqueValue(txid=4, attempt_id=2, value=15, previous=10), 16)
    """

    txid: int = 0
    """0: no value yet."""
    attempt_id: int = 0
    value: V | None = None
    previous: V | None = None

    def apply(self, attempt: TransactionAttempt, change: Callable[[V | None], V | None]) -> "OpaqueValue[V]":
        """Return the value to store when this attempt changes it to `change(old)`. `old` excludes this txid."""
        if self.txid > attempt.txid:
            raise older_transaction("the value", attempt, TransactionAttempt(self.txid, self.attempt_id))
        if self.txid == attempt.txid and self.attempt_id > attempt.attempt_id:
            raise overtaken("the value", attempt, self.attempt_id)
        old = self.previous if self.txid == attempt.txid else self.value
        return OpaqueValue(*attempt, change(old), old)

    def put(self, attempt: TransactionAttempt, value: V) -> "OpaqueValue[V]":
        """Return the value to store when this attempt sets it."""
        return self.apply(attempt, lambda old: value)
