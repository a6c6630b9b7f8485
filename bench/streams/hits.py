"""Rows with a key and a time, which works of windows and their peers share. Imports the standard library only."""

import gc
from typing import Any, Final, NamedTuple

START_MS: Final = 1_700_000_000_000
STEP: Final = 7919
"""A prime. The keys come in this step, so that neighbours are no neighbours in a dict, and each comes equally often."""


class Hit(NamedTuple):
    """One row."""

    key: str
    at: int
    """Milliseconds since 1970."""


def hits(rows: int, keys: int, rows_per_second: int) -> list[Any]:
    """Return rows in the order of their times. The garbage collector never traverses them, because a job would not have them all.

    >>> hits(3, 10, 2)
    [Hit(key='key 0', at=1700000000000), Hit(key='key 9', at=1700000000500), Hit(key='key 8', at=1700000001000)]
    """
    names = [f"key {number}" for number in range(keys)]
    made = [Hit(names[number * STEP % keys], START_MS + number * 1000 // rows_per_second) for number in range(rows)]
    gc.collect()
    gc.freeze()
    return made
