"""The window of one partition as plain sets of offsets: the oracle of tests/kafka/test_offset_manager.py.

No entries, no head and no runs: an offset stands in the sets that say what became of it.
"""

from collections.abc import Iterable


class OffsetModel:
    """What one owner of a partition knows, from its assignment to its revocation."""

    def __init__(self, start: int, acked: Iterable[int] = ()) -> None:
        self.position = start
        self.acked = set(acked)
        """Done: by this owner, or by one before it, as its commit said."""
        self.fetched: set[int] = set()
        self.open: set[int] = set()
        """Fetched and not acked."""
        self.waiting: set[int] = set()
        self.in_flight: set[int] = set()
        self.held: set[int] = set()
        self.closed = False

    def feed(self, offsets: Iterable[int]) -> int:
        """Take in what is not known yet; return how many."""
        new = [] if self.closed else [offset for offset in offsets if offset >= self.position]
        self.fetched.update(new)
        self.open.update(new)
        self.open -= self.acked
        self.waiting.update(new)
        self.waiting -= self.acked
        self.position = max([self.position, *(offset + 1 for offset in new)])
        return len(new)

    def reach(self, position: int) -> None:
        """There is nothing more below this."""
        self.position = max(self.position, position)

    def take(self, most: int) -> list[int]:
        """What is emitted next."""
        found = sorted(self.waiting)[:most]
        self.waiting.difference_update(found)
        self.in_flight.update(found)
        return found

    def settle(self, offset: int) -> None:
        """It is done."""
        if not self.closed:
            self.acked.add(offset)
            for state in (self.open, self.waiting, self.in_flight, self.held):
                state.discard(offset)

    def fail(self, offset: int) -> bool:
        """Its tuple failed; False where it has no tuple."""
        return self._move(offset, self.in_flight, self.held)

    def take_again(self, offset: int) -> bool:
        """It is emitted once more; False where it does not wait for that."""
        return self._move(offset, self.held, self.in_flight)

    def _move(self, offset: int, source: set[int], target: set[int]) -> bool:
        if self.closed or offset not in source:
            return False
        source.remove(offset)
        target.add(offset)
        return True

    def close(self) -> None:
        """Somebody else owns it."""
        self.closed = True

    @property
    def end(self) -> int:
        """What may be committed."""
        return min(self.open, default=self.position)

    @property
    def acked_above(self) -> set[int]:
        """What a commit at `end` leaves out."""
        end = self.end
        return {offset for offset in self.acked if offset >= end}
