"""Topologies of the measurements. Executors import this module."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from engine import BasicBolt, SpoutExhausted, Topology, Tuple
from engine.transactional import (
    BatchCollector,
    Partition,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)
from engine.transactional.spouts import AnySpout
from engine.transactional.values import ReduceInto, SqliteValues

WORDS_OF_LINE: Final = 10
DIFFERENT_WORDS: Final = 10_000
CHUNK_ROWS: Final = 1_000
SPINS: Final = 900
"""Work of `Burn`: about 20 µs. A fixed number, because a measured one would differ between the runs of a pair."""


def words_of(line: str) -> list[str]:
    """Return the words of a line. The engine and PySpark use this function."""
    return line.split()


class Split(BasicBolt):
    """Splits lines into words."""

    output_fields = "word"

    def execute(self, tup: Tuple) -> Iterator[tuple[str]]:
        for word in words_of(tup["line"]):
            yield (word,)


class Burn(BasicBolt):
    """Computes in pure Python for each line, then emits the first word."""

    output_fields = "word"

    def __init__(self, spins: int) -> None:
        self.spins = spins

    def execute(self, tup: Tuple) -> tuple[str]:
        spin(self.spins)
        return (tup["line"].partition(" ")[0],)


class BurnEach:
    """Factory of `Burn`."""

    def __init__(self, spins: int) -> None:
        self.spins = spins

    def __call__(self) -> Burn:
        return Burn(self.spins)


def spin(spins: int) -> int:
    """Compute something in pure Python."""
    total = 0
    for number in range(spins):
        total += number & 7
    return total


def counting(spout: AnySpout, bolt: Any, folder: Path, tasks: int = 2) -> Topology:
    """Return spout -> bolt -> counts by word in SQLite."""
    builder = TransactionalTopologyBuilder("bench-cluster", "lines", spout, tasks)
    builder.set_bolt("work", bolt, tasks).shuffle_grouping("lines")
    builder.set_committer("count", ReduceInto(SqliteValues(folder / "counts.db", "words"), key="word")).fields_grouping("work", "word")
    return builder.build()


def made_lines(lines: int) -> Iterator[str]:
    """Yield lines of words, the same in each run."""
    rng = random.Random(7)
    words = [f"word{number}" for number in range(DIFFERENT_WORDS)]
    for _ in range(lines):
        yield " ".join(rng.choices(words, k=WORDS_OF_LINE))


class MadeLines(PartitionedTransactionalSpout[list[int]]):
    """Makes batches of short lines where they are emitted. So a batch may be large, although nothing holds its rows."""

    output_fields = "line"

    def __init__(self, rows: int, batches: int, partitions: int) -> None:
        """rows: of a batch."""
        self.rows_each = max(1, rows // partitions)
        self.end = self.rows_each * batches
        self.partitions = partitions

    def coordinator(self) -> "MadeCoordinator":
        return MadeCoordinator(self)

    def emitter(self) -> "MadeEmitter":
        return MadeEmitter(self)


class MadeCoordinator(PartitionedCoordinator):
    """Ends after the last batch."""

    def __init__(self, spout: MadeLines) -> None:
        self.spout = spout

    def is_ready(self) -> bool:
        if min((self.positions.get(each, [0, 0])[1] for each in self.partitions()), default=0) >= self.spout.end:
            raise SpoutExhausted
        return True

    def partitions(self) -> Sequence[Partition]:
        return range(self.spout.partitions)


class MadeEmitter(PartitionedEmitter[list[int]]):
    """Emits the lines of a range."""

    def __init__(self, spout: MadeLines) -> None:
        self.spout = spout

    def plan_partition_batch(self, attempt: TransactionAttempt, partition: Partition, previous: list[int] | None) -> list[int]:
        start = previous[1] if previous else 0
        return [start, min(start + self.spout.rows_each, self.spout.end)]

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: list[int] | None
    ) -> list[int]:
        planned = self.plan_partition_batch(attempt, partition, previous)
        await self.emit_partition_batch(attempt, collector, partition, planned)
        return planned

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: list[int]
    ) -> None:
        first, end = metadata
        for start in range(first, end, CHUNK_ROWS):
            collector.emit_many([("to be",)] * min(CHUNK_ROWS, end - start))
            await collector.ready()
