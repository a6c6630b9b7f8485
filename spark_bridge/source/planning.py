"""Decides the first and the last transaction of a micro-batch, and checks the consumer of a query."""

from collections.abc import Callable
from typing import Final

from spark_bridge.handover import Handover, HandoverError, Position, TransactionDeleted
from spark_bridge.source.options import SourceOptions

MAX_COUNTED: Final = 1000
"""Largest number of transactions whose rows are counted for one micro-batch. Each one costs the read of a manifest."""


def last_txid(begin: int, newest: int, max_transactions: int | None, max_rows: int | None, rows_of: Callable[[int], int]) -> int:
    """Return the last txid of a micro-batch that begins after `begin`. Equals `begin` without a new transaction.

    A micro-batch has at least one transaction, even if that exceeds `max_rows`.

    >>> last_txid(4, 9, 3, None, lambda txid: 100)
    7
    >>> last_txid(4, 9, 3, 250, lambda txid: 100)
    6
    """
    end = newest if max_transactions is None else min(newest, begin + max_transactions)
    if max_rows is None:
        return max(begin, end)
    end = min(end, begin + MAX_COUNTED)
    rows = 0
    for txid in range(begin + 1, end + 1):
        rows += rows_of(txid)
        if rows > max_rows and txid > begin + 1:
            return txid - 1
    return max(begin, end)


def check_consumer(handover: Handover, name: str) -> None:
    """Raise HandoverError with the declared consumers if this one is not declared."""
    handover.consumer(name)  # raises if the name is not valid
    declared = handover.consumer_names()
    if name not in declared:
        known = f"it has: {', '.join(declared)}" if declared else "it has none"
        hint = (
            "Declare it on SparkHandover, which keeps unread batches for it, or correct the name, "
            f"or run: python -m spark_bridge consumers {handover.storage.url} add {name}"
        )
        raise HandoverError(f"{handover.storage.url} has no consumer {name!r} ({known})", hint=hint)


# The start of a new checkpoint


def first_offset(handover: Handover, options: SourceOptions, position: Position) -> int:
    """Return the txid after which a checkpoint begins. The txid does not change before the first micro-batch is done.

    Raises HandoverError.
    """
    if position.committed > 0:  # some checkpoint has finished its first micro-batch
        check_not_planned(handover, options, position)
    if options.starting == "committed":
        if options.consumer is None:
            raise HandoverError("startingTxid is 'committed', but the query has no consumer", hint='Add .option("consumer", name).')
        return position.committed
    deleted = handover.deleted()
    if not isinstance(options.starting, int):
        return deleted
    return _offset_before(handover, options.starting, deleted)


def _offset_before(handover: Handover, first: int, deleted: int) -> int:
    if first <= deleted:
        text = f"{handover.storage.url}: startingTxid is {first}, but all transactions up to txid {deleted} are deleted"
        raise TransactionDeleted(text, hint=f"Begin at {deleted + 1} or later, or at 'earliest'.")
    newest = handover.newest()
    if first > newest + 1:
        text = f"{handover.storage.url}: startingTxid is {first}, but the newest txid is {newest}"
        raise HandoverError(text, hint=f"Begin at {newest + 1}, which is the next one, or earlier.")
    return first - 1


def check_not_planned(handover: Handover, options: SourceOptions, position: Position) -> None:
    """Raise HandoverError if a new checkpoint would repeat planned transactions and the user has set no startingTxid."""
    if options.starting is not None or position.planned == 0:
        return
    text = (
        f"{handover.storage.url}: this query has a new checkpoint, but its consumer {options.consumer!r} has planned up to txid "
        f"{position.planned} and committed up to {position.committed}, with another checkpoint or by another query"
    )
    hint = (
        "(1) Start the query with its old checkpoint, and it continues from there. "
        "(2) If this is another query, give it a consumer of its own. "
        f'(3) If the old checkpoint is lost, set the begin: .option("startingTxid", "committed") repeats the transactions after '
        f'{position.committed}, "earliest" all existing ones, a number those from that txid (`run` takes --option startingTxid=committed).'
    )
    raise HandoverError(text, hint=hint)


# The start of any micro-batch


def check_follows(handover: Handover, options: SourceOptions, position: Position, begin: int, end: int | None, *, is_new: bool) -> None:
    """Raise HandoverError if a micro-batch does not continue its consumer's plan, because it would skip batches or read deleted ones.

    A micro-batch may read the next transactions, repeat the planned ones, or begin a new checkpoint by startingTxid. `end`: None before it
    is chosen. `is_new`: the checkpoint has not finished a micro-batch.
    """
    is_repeated = end == position.planned and position.began in (None, begin)
    if begin == position.planned or is_repeated:
        return
    may_start_here = position.planned == 0 or options.starting is not None
    if may_start_here and (is_new or begin > position.planned) and begin == first_offset(handover, options, position):
        return
    text = (
        f"{handover.storage.url}: this query continues after txid {begin}, but its consumer {options.consumer!r} has planned up to txid "
        f"{position.planned}. A checkpoint, its folder and its consumer belong together, and these do not match"
    )
    hint = (
        "(1) If another query uses this consumer, or this query joins the stream with itself, give each stream its own consumer. "
        "(2) If one of the three was restored from a copy, removed or recreated, put back a set that belongs together. "
    )
    if begin > position.planned:
        hint += f'(3) To continue and never read the transactions between: .option("startingTxid", "{begin + 1}").'
    else:
        hint += f'(3) Or begin with a new checkpoint and .option("startingTxid", "{position.planned + 1}"), the next transaction.'
    raise HandoverError(text, hint=hint)
