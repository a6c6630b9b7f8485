"""Where a query with a new checkpoint begins, and which consumer it may be."""

from spark_bridge.handover import Handover, HandoverError, Position, TransactionDeleted
from spark_bridge.source.options import SourceOptions


def check_consumer(handover: Handover, name: str) -> None:
    """Raise HandoverError, which names those that there are, where nobody has declared this consumer."""
    handover.consumer(name)
    declared = handover.consumer_names()
    if name not in declared:
        there = f"it has: {', '.join(declared)}" if declared else "it has none"
        hint = (
            "Declare it on SparkHandover, which keeps for it what it has not read; or correct the name; "
            f"or: python -m spark_bridge consumers {handover.storage.url} add {name}"
        )
        raise HandoverError(f"{handover.storage.url} has no consumer {name!r} ({there})", hint=hint)


def check_not_planned(handover: Handover, options: SourceOptions, position: Position) -> None:
    """Raise HandoverError where a new checkpoint would repeat what its consumer has planned, and nobody has said where it begins."""
    if options.starting is None and position.planned > 0:
        raise _planned_already(handover, options, position)


def first_offset(handover: Handover, options: SourceOptions, position: Position) -> int:
    """Return the txid behind which a checkpoint begins; the same one until its first micro-batch is done. Raises HandoverError."""
    if position.committed > 0:  # the first micro-batch of some checkpoint is done
        check_not_planned(handover, options, position)
    if options.starting == "committed":
        if options.consumer is None:
            raise HandoverError("startingTxid is 'committed', and no consumer is given", hint='Add .option("consumer", name).')
        return position.committed
    deleted = handover.deleted()
    if not isinstance(options.starting, int):
        return deleted
    return _before(handover, options.starting, deleted)


def _before(handover: Handover, first: int, deleted: int) -> int:
    if first <= deleted:
        text = f"{handover.storage.url}: startingTxid is {first}, and all up to txid {deleted} is deleted"
        raise TransactionDeleted(text, hint=f"Begin at {deleted + 1} or later, or at 'earliest'.")
    newest = handover.newest()
    if first > newest + 1:
        text = f"{handover.storage.url}: startingTxid is {first}, and the newest txid is {newest}"
        raise HandoverError(text, hint=f"Begin at {newest + 1}, the next one, or earlier.")
    return first - 1


def _planned_already(handover: Handover, options: SourceOptions, position: Position) -> HandoverError:
    text = (
        f"{handover.storage.url}: this query has a new checkpoint, and its consumer {options.consumer!r} has planned up to txid "
        f"{position.planned} and committed up to {position.committed}: with another checkpoint, or by another query"
    )
    hint = (
        "(1) Start it with the checkpoint that it had: it goes on where it was. "
        "(2) If this is another query, give it a consumer of its own. "
        f'(3) If the old checkpoint is lost, say where to begin: .option("startingTxid", "committed") repeats what comes after '
        f'{position.committed}, "earliest" all that is there, a number from that txid on (`run` takes --option startingTxid=committed).'
    )
    return HandoverError(text, hint=hint)
