"""Decides whether a task of a committer has written a txid, after any change of its parallelism (TX-8). Does no I/O."""

from collections.abc import Mapping, Sequence

from engine.state.rows import StoredTxid


class WrittenInPart(Exception):
    """Some tasks have written a txid, and the committer has another parallelism now. No task knows which rows of its own are missing."""

    def __init__(self, newest: StoredTxid, missing: Sequence[int]) -> None:
        super().__init__(newest, missing)
        self.newest = newest
        self.missing = missing


def is_written(stored: Mapping[int, StoredTxid], task: int, parallelism: int, txid: int) -> bool:
    """Return whether this task's part of a txid is written. stored: newest txids by task, none of them later than `txid`.

    >>> is_written({0: StoredTxid(7, 2)}, 1, 2, 7), is_written({0: StoredTxid(7, 1)}, 1, 2, 7)
    (False, True)
    """
    newest = max(stored.values(), default=None)
    if newest is None or newest.txid < txid:
        return False
    if newest.parallelism == parallelism:
        return stored.get(task) == newest
    missing = [task for task in range(newest.parallelism) if stored.get(task) != newest]
    if missing:
        raise WrittenInPart(newest, missing)
    return True
