"""Sources of random flows with windows: partitions with rows in an order of their own, which outlive the processes."""

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from engine import Spout, SpoutExhausted

MOST_EMITS: Final = 3
"""Rows that a call emits at most."""


class Row(NamedTuple):
    """One row. Its number is its identity."""

    number: int
    key: str
    at: int
    """Time in milliseconds."""


@dataclass(eq=False)
class Source:
    """The rows of one source by partition, and what its spouts have done with them."""

    name: str
    partitions: Sequence[Sequence[Row]]
    bound_ms: int
    rewinds: bool
    """True: its spouts have positions, so each row counts once (EO-1). False: they emit a row until it is acked."""
    is_partitioned: bool = False
    """True: its parallelism may change between two processes."""
    has_ids: bool = False
    pauses: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Seconds for which a partition has no more rows, by partition and the index of the next row."""
    pace_secs: float = 0.0
    draws: random.Random = field(default_factory=random.Random)
    is_gone: bool = False
    """The process was killed, so calls of its spouts are ignored."""
    acked: set[int] = field(default_factory=set)
    emitted: set[int] = field(default_factory=set)
    sent_again: set[int] = field(default_factory=set)
    """Rows that a source without positions has sent again, so they may count twice."""
    after_deaths: set[int] = field(default_factory=set)
    """Those of them that came again after the death of an instance. The watermark may have passed them (ET-1)."""

    def __post_init__(self) -> None:
        self.partition_by_number = {row.number: partition for partition, rows in enumerate(self.partitions) for row in rows}
        self.row_by_number = {row.number: row for row in self.rows}

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.partitions for row in rows]


class PartitionsSpout(Spout):
    """Reads the partitions of its task, interleaved in another way by each instance. Of some of them more rows come only later."""

    output_fields = Row._fields

    def __init__(self, source: Source) -> None:
        self.source = source
        self.due = 0.0
        self.current: int | None = None
        self.next: dict[int, int] = {}

    def open(self) -> None:
        self.mine = range(self.context.task_index, len(self.source.partitions), self.context.tasks)
        self.next = dict.fromkeys(self.mine, 0)
        self.waits: dict[tuple[int, int], float] = {}

    def has_rows(self, partition: int) -> bool:
        """Tell whether a partition has a row now."""
        at = (partition, self.next[partition])
        if at[1] == len(self.source.partitions[partition]):
            return False
        if at in self.source.pauses:
            now = self.context.clock.now()
            return now >= self.waits.setdefault(at, now + self.source.pauses[at])
        return True

    def has_ended(self, partition: int) -> bool:
        """Tell whether all rows of a partition have been emitted."""
        return self.next[partition] == len(self.source.partitions[partition])

    def next_tuple(self) -> None:
        source = self.source
        if source.is_gone or all(map(self.has_ended, self.mine)):
            raise SpoutExhausted
        now = self.context.clock.now()
        if now < self.due:
            return
        if source.pace_secs:
            self.due = now + source.pace_secs * source.draws.expovariate(1)
        for _ in range(source.draws.randint(1, MOST_EMITS)):
            ready = [partition for partition in self.mine if self.has_rows(partition)]
            if not ready:
                return
            self.current = source.draws.choice(ready)
            row = source.partitions[self.current][self.next[self.current]]
            self.next[self.current] += 1
            self.emit(row)

    def emit(self, row: Row) -> None:
        """Emit one row."""
        self.collector.emit(row, row.number if self.source.has_ids else None)

    def partitions(self) -> list[int]:
        return [partition for partition in self.mine if not self.has_ended(partition)]

    def partition_of(self, message_id: Any) -> Hashable:
        return self.current if message_id is None else self.source.partition_by_number[message_id]

    def caught_up(self, partition: Hashable = None) -> bool:
        assert isinstance(partition, int)
        return not self.has_rows(partition)


class SeekingSpout(PartitionsSpout):
    """Has positions."""

    def seek(self, position: Mapping[str, int] | None) -> None:
        self.next = {partition: (position or {}).get(str(partition), 0) for partition in self.mine}

    def position(self) -> dict[str, int]:
        return {str(partition): index for partition, index in self.next.items()}


class PartitionedSpout(SeekingSpout):
    """Has positions that can be divided anew."""

    partitioned = True


class ReplayingSpout(PartitionsSpout):
    """Emits each row until it is acked. After a death, those that are not come again in their order."""

    def open(self) -> None:
        super().open()
        self.failed: list[Row] = []

    def next_tuple(self) -> None:
        if self.failed and not self.source.is_gone:
            row = self.failed.pop(0)
            self.collector.emit(row, row.number)
        else:
            super().next_tuple()

    def emit(self, row: Row) -> None:
        source = self.source
        if row.number in source.acked:
            return
        if row.number in source.emitted:
            source.sent_again.add(row.number)
            source.after_deaths.add(row.number)
        source.emitted.add(row.number)
        self.collector.emit(row, row.number)

    def ack(self, message_id: Any) -> None:
        if not self.source.is_gone:
            self.source.acked.add(message_id)

    def fail(self, message_id: Any) -> None:
        if not self.source.is_gone:
            self.source.sent_again.add(message_id)
            self.failed.append(self.source.row_by_number[message_id])
