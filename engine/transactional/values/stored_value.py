"""The rule of TX-8 for one value: what becomes of it when an attempt wants to change it.

| stored txid | `TransactionalValue` | `OpaqueValue` |
|---|---|---|
| older than ours | changed | changed; what it was becomes `previous` |
| ours | kept as it is: this batch is in it already | changed anew, from `previous`: the batch may differ |
| ours, of a later attempt | kept as it is | refused: StateFenced |
| newer than ours | `ValuesMismatch` | `ValuesMismatch` |

None as a value is as good as no value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from engine.errors import FatalError, StateError, StateFenced
from engine.transactional.attempt import TransactionAttempt

V = TypeVar("V")

ValueKind: TypeAlias = Literal["transactional", "opaque"]
"""Which rule a map's values follow."""


class ValuesMismatch(StateError, FatalError):
    """Values cannot be kept there: what is stored is newer, of another kind or owner, or the database refuses. No try would do better."""


class ValuesTakenOver(StateFenced, FatalError):
    """A later epoch of the coordinator has written: this process has been taken over, or the coordinator's state was set back."""


def older_transaction(where: str, attempt: TransactionAttempt, stored: TransactionAttempt) -> StateError:
    """Return the error for an attempt of a txid that is older than the newest one stored."""
    if stored.epoch > attempt.epoch:
        return _taken_over(where, attempt, stored)
    return ValuesMismatch(
        f"{where} holds transaction {stored.txid}, and this is {attempt}: what the coordinator has stored does not reach so far",
        hint="Its state was lost or set back, or is another one: look at state_provider (memory:// forgets at the end of a run). "
        "Go on with the newest state, or give the map a new name.",
    )


def overtaken(where: str, attempt: TransactionAttempt, stored_attempt_id: int) -> StateFenced:
    """Return the error for an attempt when a later one of its txid, or of a newer one, has written."""
    later = TransactionAttempt(attempt.txid, stored_attempt_id)
    if later.epoch > attempt.epoch:
        return _taken_over(where, attempt, later)
    return StateFenced(
        f"{where}: {attempt} may not write any more: a later attempt ({later.epoch}.{later.number}) has",
        hint="Where no other process runs this topology, this is harmless: the batch was replayed meanwhile.",
    )


def _taken_over(where: str, attempt: TransactionAttempt, later: TransactionAttempt) -> ValuesTakenOver:
    """An epoch rises with each start alone. Whether a process has it now, or had it before the state was set back, is not known here."""
    return ValuesTakenOver(
        f"{where}: {attempt} may not write any more: a later attempt ({later.epoch}.{later.number}), of a later start of the topology, "
        "has. This process has been taken over, or the state of its coordinator was set back",
        hint="Where another process runs the topology, nothing is lost: that one goes on. Where none does, give the coordinator its newest "
        "state back, or give the map a new name.",
    )


@dataclass(frozen=True)
class TransactionalValue(Generic[V]):
    """A value and the txid that made it; for sources that give the same tuples for the same txid.

    >>> count = TransactionalValue(3, 10).apply(TransactionAttempt(4, 1), lambda old: (old or 0) + 5)
    >>> count, count.apply(TransactionAttempt(4, 2), lambda old: (old or 0) + 5)
    (TransactionalValue(txid=4, value=15), TransactionalValue(txid=4, value=15))
    """

    txid: int = 0
    """0: there is no value yet."""
    value: V | None = None

    def apply(self, attempt: TransactionAttempt, change: Callable[[V | None], V | None]) -> "TransactionalValue[V]":
        """Return what is to be stored when this attempt makes `change(old)` of the value."""
        if self.txid > attempt.txid:
            raise older_transaction("the value", attempt, TransactionAttempt(self.txid, 0))
        return self if self.txid == attempt.txid else TransactionalValue(attempt.txid, change(self.value))

    def put(self, attempt: TransactionAttempt, value: V) -> "TransactionalValue[V]":
        """Return what is to be stored when this attempt sets the value."""
        return self.apply(attempt, lambda old: value)


@dataclass(frozen=True)
class OpaqueValue(Generic[V]):
    """A value, the attempt that made it, and what it was before that txid; for any source (TX-7).

    >>> first = OpaqueValue(3, 1, 10).apply(TransactionAttempt(4, 2), lambda old: (old or 0) + 5)
    >>> first, first.apply(TransactionAttempt(4, 3), lambda old: (old or 0) + 6).value
    (OpaqueValue(txid=4, attempt_id=2, value=15, previous=10), 16)
    """

    txid: int = 0
    """0: there is no value yet."""
    attempt_id: int = 0
    value: V | None = None
    previous: V | None = None

    def apply(self, attempt: TransactionAttempt, change: Callable[[V | None], V | None]) -> "OpaqueValue[V]":
        """Return what is to be stored when this attempt makes `change(old)` of the value, old being without this txid."""
        if self.txid > attempt.txid:
            raise older_transaction("the value", attempt, TransactionAttempt(self.txid, self.attempt_id))
        if self.txid == attempt.txid and self.attempt_id > attempt.attempt_id:
            raise overtaken("the value", attempt, self.attempt_id)
        old = self.previous if self.txid == attempt.txid else self.value
        return OpaqueValue(*attempt, change(old), old)

    def put(self, attempt: TransactionAttempt, value: V) -> "OpaqueValue[V]":
        """Return what is to be stored when this attempt sets the value."""
        return self.apply(attempt, lambda old: value)
