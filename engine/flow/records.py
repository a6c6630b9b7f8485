"""`Records` has the records of one pack and is the value of its tuple. `PackCall` is the progress of a bolt through these records."""

import asyncio
from collections.abc import Iterator
from operator import length_hint
from typing import Any


class Records(tuple[Any, ...]):
    """The records of one pack. The spout keeps the same object, and reads `failed_index` when the pack fails."""

    failed_index: int | None = None
    """Index of the record that failed. None if it is unknown."""

    def mark_failed(self, left: Iterator[Any]) -> None:
        """Mark the record that was taken last from `left`, an iterator over these records, as the failed one."""
        self.failed_index = len(self) - length_hint(left) - 1


class PackCall:
    """Progress of one call of `execute` through the records of a pack."""

    __slots__ = ("is_over", "left", "records", "yielded")

    def __init__(self, records: Records) -> None:
        self.records = records
        self.left = iter(records)
        self.yielded = 0
        """Rows that the bolt's generators have yielded."""
        self.is_over = False
        """True once the call is cancelled. A cancelled call emits nothing more."""

    @property
    def progress(self) -> tuple[int, int]:
        """Records left and rows yielded. The time limit restarts when one of these numbers changes."""
        return length_hint(self.left), self.yielded

    def raise_if_over(self) -> None:
        """Raise CancelledError again in a call that has swallowed its cancellation."""
        if self.is_over:
            raise asyncio.CancelledError

    def mark_failed(self) -> None:
        """Mark the newest record as the failed one."""
        self.records.mark_failed(self.left)
