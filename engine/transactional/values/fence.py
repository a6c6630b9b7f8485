"""Decides by the fence of a map which attempt may write (docs/decisions/0004, "Fencing"). Does no I/O."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from engine.api.fields import short_repr
from engine.errors import StateDamaged, UsageError
from engine.state.values import RESTORE, Fence, ValuesMismatch, Writer
from engine.transactional.attempt import TransactionAttempt
from engine.transactional.values.stored_value import MAP, Holder, older_transaction, overtaken


class WriteStep(Enum):
    """The next step of an attempt that writes to a map."""

    CREATE = "create"
    """Create the map, which does not exist."""
    UNDO = "undo"
    """First restore the values that an older attempt of this txid replaced."""
    WRITE = "write"


def next_step(writer: Writer, attempt: TransactionAttempt, fence: Fence | None) -> WriteStep:
    """Return the next step of an attempt. fence: as read from the store, None if the map does not exist.

    Raises StateFenced if a later attempt has written, ValuesMismatch if no retry can succeed.
    """
    if fence is None:
        return WriteStep.CREATE
    _check_owner(writer, fence)
    stored = TransactionAttempt(*fence.attempt)
    check_not_older(writer.where, attempt, stored)
    if attempt == stored and fence.component != writer.component:
        raise ValuesMismatch(
            f"{writer.where} is written by two components, {fence.component!r} and {writer.component!r}: a txid counts once in each value",
            hint="Give each its own map.",
        )
    check_no_gap(writer.where, attempt, stored, "A committer must call update() for each batch, also an empty one.")
    if fence.is_undoing or (fence.kind == "opaque" and attempt.txid == stored.txid and attempt != stored):
        return WriteStep.UNDO
    return WriteStep.WRITE


def check_not_older(where: str, attempt: TransactionAttempt, stored: TransactionAttempt, holder: Holder = MAP) -> None:
    """Raise the error for an attempt that is older than the newest one that has written."""
    if attempt.txid < stored.txid:
        raise older_transaction(where, attempt, stored, holder)
    if attempt.attempt_id < stored.attempt_id:
        raise overtaken(where, attempt, stored.attempt_id, holder)


def check_no_gap(where: str, attempt: TransactionAttempt, stored: TransactionAttempt, hint: str = "") -> None:
    """Raise ValuesMismatch if transactions are missing between the newest one stored and this one."""
    if 0 < stored.txid < attempt.txid - 1:
        raise ValuesMismatch(
            f"{where} has transactions up to {stored.txid}, and this is {attempt}: the transactions in between are missing",
            hint=f"If the database was restored, restore the newest copy. {hint}".strip(),
        )


def _check_owner(writer: Writer, fence: Fence) -> None:
    if fence.topology != writer.topology:
        raise ValuesMismatch(
            f"{writer.where} belongs to topology {fence.topology!r}, and this is {writer.topology!r}", hint="Give the map another name."
        )
    if fence.kind != writer.kind:
        raise ValuesMismatch(
            f"{writer.where} stores {fence.kind} values, but the writer has {writer.kind} values",
            hint=f"Set kind={fence.kind!r}, or give the map another name. With an opaque spout values must be opaque.",
        )


def damaged_rows(where: str, attempt: TransactionAttempt, txids: Sequence[Any], keys: Sequence[object]) -> StateDamaged | None:
    """Return the error for the first key with an impossible txid, None if all are possible."""
    if not txids or (set(map(type, txids)) == {int} and min(txids) >= 0 and max(txids) <= attempt.txid):
        return None
    for txid, key in zip(txids, keys, strict=True):
        if type(txid) is not int or not 0 <= txid <= attempt.txid:
            found = f"its transaction is {short_repr(txid)}, but the newest transaction of the map is {attempt}"
            return StateDamaged(f"{where}: the value of {short_repr(key)} is damaged: {found}", hint=RESTORE)
    return None


def vanished(where: str) -> ValuesMismatch:
    """Return the error for a map that this run has written and that no longer exists."""
    return ValuesMismatch(
        f"{where} existed before, and is now missing", hint="Was it removed, or the server restarted without its data? Restore it."
    )


def updated_twice(where: str, attempt: TransactionAttempt) -> UsageError:
    """Return the error for a second update in one attempt."""
    return UsageError(
        f"{where}: {attempt} called update() twice", hint="Put all keys of a batch into one call. For two calls use two maps."
    )
