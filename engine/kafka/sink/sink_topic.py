"""A topic that a sink writes: its partitions, and which of them a record goes to."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from engine.errors import UsageError
from engine.kafka.client.producer_link import java_partition
from engine.kafka.sink.records import Outgoing
from engine.kafka.sink.sink_config import Partitioner


class SinkTopic:
    """One topic. Until `partitions` are known its records wait here."""

    def __init__(self, name: str, partitioner: Partitioner | None) -> None:
        self.name: Final = name
        self.partitions: tuple[int, ...] = ()
        """All, ascending; empty: not known yet."""
        self.available: tuple[int, ...] = ()
        """Those that have a leader."""
        self.waiting: deque[Outgoing] = deque()
        self._partitioner = partitioner
        self._turn = 0

    def learn(self, partitions: Sequence[int], available: Sequence[int]) -> None:
        """Take over what the cluster says; what it says of a topic that is gone for now is not believed."""
        if partitions:
            self.partitions, self.available = tuple(partitions), tuple(available)

    def taken(self, partition: int) -> None:
        """A partition's batch is sent: records without a key fill another one's from now on."""
        if self._current() == partition:
            self._turn += 1

    def _current(self) -> int:
        among = self.available or self.partitions
        return among[self._turn % len(among)]

    def choose(self, key: bytes | None, wanted: int | None) -> int:
        """Return the partition of a record; UsageError where the config's functions name one that is not there."""
        chosen: object = wanted
        if chosen is None:
            if self._partitioner is not None:
                chosen = self._partitioner(key, list(self.partitions), list(self.available))
            elif key is not None:
                return java_partition(key, self.partitions)
            else:
                return self._current()
        if chosen not in self.partitions:
            text = f"topic {self.name!r} has no partition {chosen!r} (it has {len(self.partitions)})"
            raise UsageError(text, hint="Correct what partition= or partitioner= returns.")
        return chosen
