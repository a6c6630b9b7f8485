"""Model of a Kafka partition in strict order (KS-11): a list of emitted offsets, for tests/kafka/test_strict_order.py.

It has no states and no marks. `run` holds the offsets that were emitted since the last retry, in the order of the partition.
"""

from collections.abc import Iterable

FREE = 2**31 - 1


class StrictOrderModel:
    """State of the owner of a partition."""

    def __init__(self, start: int) -> None:
        self.position = start
        self.fetched: list[int] = []
        self.run: list[int] = []
        self.acked: set[int] = set()
        """Acked offsets of `run`."""
        self.ghosts: set[int] = set()
        """Offsets that were emitted, then cut off from `run`, and have no verdict yet."""
        self.held: set[int] = set()
        self.gone: set[int] = set()
        """Offsets that were given up."""
        self.room = FREE

    def feed(self, offsets: Iterable[int]) -> None:
        """Add offsets that are new."""
        self.fetched += [offset for offset in offsets if offset >= self.position]
        self.position = max([self.position, *(offset + 1 for offset in self.fetched)])

    @property
    def in_flight(self) -> set[int]:
        """Offsets that were emitted and have no verdict."""
        return (set(self.run) - self.acked - self.held) | self.ghosts

    def take(self) -> int | None:
        """Return the next offset to emit."""
        left = [offset for offset in self.fetched if offset not in self.run and offset not in self.gone]
        if self.held or self.ghosts or len(self.in_flight) >= self.room or not left:
            return None
        self.run.append(left[0])
        return left[0]

    def ack(self, offset: int) -> None:
        """Ack an offset. It counts only if no offset before it is emitted again."""
        if offset in self.ghosts:
            self.ghosts.remove(offset)
        elif offset in self.in_flight:
            self.acked.add(offset)
            self.room += not self.held and self.room < FREE

    def fail(self, offset: int) -> bool:
        """Fail an offset in flight; return False for any other."""
        if offset not in self.in_flight:
            return False
        self.ghosts.discard(offset)
        self.held.add(offset)
        self.room = 1
        return True

    def again(self, offset: int) -> None:
        """The backoff is over: the offset is emitted again, and so are all later ones of `run`."""
        self.held.remove(offset)
        if offset in self.run:
            self.ghosts |= {one for one in self.run if one > offset} & self.in_flight
            self.run = [one for one in self.run if one < offset]
            self.acked.intersection_update(self.run)

    def give_up(self, offset: int) -> None:
        """The dead letter of an offset was written."""
        self.held.remove(offset)
        self.gone.add(offset)
        self.run = [one for one in self.run if one != offset]

    @property
    def end(self) -> int:
        """Offset that may be committed."""
        return min((one for one in self.fetched if one not in self.acked and one not in self.gone), default=self.position)
