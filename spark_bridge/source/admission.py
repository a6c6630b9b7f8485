"""How many transactions one micro-batch takes."""

from collections.abc import Callable
from typing import Final

MOST_COUNTED: Final = 1000
"""Whose rows are counted for one micro-batch, where rows bound it: each costs a read of a manifest."""


def admitted(begin: int, newest: int, max_transactions: int | None, max_rows: int | None, rows_of: Callable[[int], int]) -> int:
    """Return the last txid of a micro-batch that begins behind `begin`: `begin` where there is nothing new.

    At least one transaction is taken, however many rows it has.

    >>> admitted(4, 9, 3, None, lambda txid: 100)
    7
    >>> admitted(4, 9, 3, 250, lambda txid: 100)
    6
    """
    end = newest if max_transactions is None else min(newest, begin + max_transactions)
    if max_rows is None:
        return max(begin, end)
    end = min(end, begin + MOST_COUNTED)
    taken = 0
    for txid in range(begin + 1, end + 1):
        taken += rows_of(txid)
        if taken > max_rows and txid > begin + 1:
            return txid - 1
    return max(begin, end)
