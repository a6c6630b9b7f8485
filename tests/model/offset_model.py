"""Model of one partition's window: plain sets of offsets, for tests/kafka/test_offset_manager.py.

It has no entries, no head and no runs: an offset belongs to the sets that describe its state.
"""

from collections.abc import Iterable


class OffsetModel:
    """State of one owner of a partition, from the assignment to the revocation."""

    def __init__(self, start: int, acked: Iterable[int] = ()) -> None:
        self.position = start
        self.acked = set(acked)
        """Offsets that this owner acked, or an earlier one, as its commit says."""
        self.fetched: set[int] = set()
        self.open: set[int] = set()
        """Offsets that are fetched and not acked."""
        self.waiting: set[int] = set()
        self.in_flight: set[int] = set()
        self.held: set[int] = set()
        self.closed = False

    def feed(self, offsets: Iterable[int]) -> int:
        """Add offsets that are new; return their number."""
        new = [] if self.closed else [offset for offset in offsets if offset >= self.position]
        self.fetched.update(new)
        self.open.update(new)
        self.open -= self.acked
        self.waiting.update(new)
        self.waiting -= self.acked
        self.position = max([self.position, *(offset + 1 for offset in new)])
        return len(new)

    def reach(self, position: int) -> None:
        """Skip to a position, because nothing more is below it."""
        self.position = max(self.position, position)

    def take(self, most: int) -> list[int]:
        """Return the next offsets to emit."""
        found = sorted(self.waiting)[:most]
        self.waiting.difference_update(found)
        self.in_flight.update(found)
        return found

    def settle(self, offset: int) -> None:
        """Mark an offset as done."""
        if not self.closed:
            self.acked.add(offset)
            for state in (self.open, self.waiting, self.in_flight, self.held):
                state.discard(offset)

    def fail(self, offset: int) -> bool:
        """Fail an offset in flight; return False for any other."""
        return self._move(offset, self.in_flight, self.held)

    def take_again(self, offset: int) -> bool:
        """Emit a held offset again; return False for any other."""
        return self._move(offset, self.held, self.in_flight)

    def _move(self, offset: int, source: set[int], target: set[int]) -> bool:
        if self.closed or offset not in source:
            return False
        source.remove(offset)
        target.add(offset)
        return True

    def close(self) -> None:
        """Revoke the partition."""
        self.closed = True

    @property
    def end(self) -> int:
        """Offset that may be committed."""
        return min(self.open, default=self.position)

    @property
    def acked_above(self) -> set[int]:
        """Acked offsets above the commit `end`."""
        end = self.end
        return {offset for offset in self.acked if offset >= end}
