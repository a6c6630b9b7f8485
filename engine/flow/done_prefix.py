"""The cumulative ack (FC-6): how far everything is done."""

from typing import Any


class DonePrefix:
    """Ranges of record numbers that are done, in any order; `done` is the last number below which nothing is missing, itself included.

    Numbers begin with 1. Holds one entry for each range that is done above the prefix.

    >>> prefix = DonePrefix()
    >>> for number in (1, 3, 4):
    ...     _ = prefix.add(number, number, f"line {number}")
    >>> prefix.done, prefix.position
    (1, 'line 1')
    >>> prefix.add(2, 2, "line 2")
    True
    >>> prefix.done, prefix.position
    (4, 'line 4')
    """

    def __init__(self) -> None:
        self.done = 0
        self.position: Any = None
        """Of the record of number `done`; None before the first."""
        self._ahead: dict[int, tuple[int, Any]] = {}

    def add(self, first: int, last: int, position: Any) -> bool:
        """Note that the records from first to last are done, where last stands at position; tell whether the prefix has grown."""
        if first != self.done + 1:
            self._ahead[first] = (last, position)
            return False
        self.done, self.position = last, position
        while (following := self._ahead.pop(self.done + 1, None)) is not None:
            self.done, self.position = following
        return True

    @property
    def ranges_ahead(self) -> int:
        """How many ranges wait for a gap below them to close."""
        return len(self._ahead)
