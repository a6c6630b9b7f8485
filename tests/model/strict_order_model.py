"""One Kafka partition in strict order (KS-11) as a list of what was emitted: the oracle of tests/kafka/test_strict_order.py.

No states and no marks: `run` is what was emitted since the last time that something came again, in the order of the partition.
"""

from collections.abc import Iterable

FREE = 2**31 - 1


class StrictOrderModel:
    """What the owner of a partition knows."""

    def __init__(self, start: int) -> None:
        self.position = start
        self.fetched: list[int] = []
        self.run: list[int] = []
        self.acked: set[int] = set()
        """Of the run."""
        self.ghosts: set[int] = set()
        """Emitted, cut off the run, and without a verdict yet."""
        self.held: set[int] = set()
        self.gone: set[int] = set()
        """Given up."""
        self.room = FREE

    def feed(self, offsets: Iterable[int]) -> None:
        """Take in what is not known yet."""
        self.fetched += [offset for offset in offsets if offset >= self.position]
        self.position = max([self.position, *(offset + 1 for offset in self.fetched)])

    @property
    def in_flight(self) -> set[int]:
        """Emitted, without a verdict."""
        return (set(self.run) - self.acked - self.held) | self.ghosts

    def take(self) -> int | None:
        """What is emitted next."""
        left = [offset for offset in self.fetched if offset not in self.run and offset not in self.gone]
        if self.held or self.ghosts or len(self.in_flight) >= self.room or not left:
            return None
        self.run.append(left[0])
        return left[0]

    def ack(self, offset: int) -> None:
        """It counts only where nothing before it comes again."""
        if offset in self.ghosts:
            self.ghosts.remove(offset)
        elif offset in self.in_flight:
            self.acked.add(offset)
            self.room += not self.held and self.room < FREE

    def fail(self, offset: int) -> bool:
        """False where it is not in flight."""
        if offset not in self.in_flight:
            return False
        self.ghosts.discard(offset)
        self.held.add(offset)
        self.room = 1
        return True

    def again(self, offset: int) -> None:
        """Its time has come: it is emitted again, and all that the run has behind it."""
        self.held.remove(offset)
        if offset in self.run:
            self.ghosts |= {one for one in self.run if one > offset} & self.in_flight
            self.run = [one for one in self.run if one < offset]
            self.acked.intersection_update(self.run)

    def give_up(self, offset: int) -> None:
        """Its letter has arrived."""
        self.held.remove(offset)
        self.gone.add(offset)
        self.run = [one for one in self.run if one != offset]

    @property
    def end(self) -> int:
        """What may be committed."""
        return min((one for one in self.fetched if one not in self.acked and one not in self.gone), default=self.position)
