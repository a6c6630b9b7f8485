"""Topologies with one batch of many rows of about 100 bytes."""

from collections.abc import Iterator
from typing import Any

from engine import BasicBolt, SpoutExhausted, Topology, Tuple
from engine.transactional import (
    BatchCollector,
    Committer,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)
from engine.transactional.values import MemoryValues, ReduceInto

PARTITIONS = 2
TASKS = 2
KEYS = 1_000
TEXT = "x" * 80
EMITTED_AT_ONCE = 1_000


class OneBatch(PartitionedCoordinator):
    """Lists the partitions once."""

    def is_ready(self) -> bool:
        if self.positions:
            raise SpoutExhausted
        return True

    def partitions(self) -> list[int]:
        return list(range(PARTITIONS))


class Emits(PartitionedEmitter[list[int]]):
    """Emits the numbers of a range, each with a text. Cannot plan its batch, so it runs in the engine's process."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    async def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: list[int] | None
    ) -> list[int]:
        planned = self.range_of(partition)
        await self.emit_partition_batch(attempt, collector, partition, planned)
        return planned

    async def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, metadata: list[int]
    ) -> None:
        for part in _parts(*metadata):
            collector.emit_many([(number % KEYS, f"{number:010}{TEXT}") for number in part])
            await collector.ready()

    def range_of(self, partition: int) -> list[int]:
        each = self.rows // PARTITIONS
        return [partition * each, (partition + 1) * each]


class Plans(Emits):
    """Emits on executors."""

    def plan_partition_batch(self, attempt: TransactionAttempt, partition: Any, previous: list[int] | None) -> list[int]:
        return self.range_of(partition)


def _parts(begin: int, end: int) -> Iterator[range]:
    return (range(at, min(at + EMITTED_AT_ONCE, end)) for at in range(begin, end, EMITTED_AT_ONCE))


class Rows(PartitionedTransactionalSpout[list[int]]):
    """A source of one batch."""

    output_fields = ("key", "text")

    def __init__(self, rows: int, *, plans: bool) -> None:
        self.rows = rows
        self.plans = plans

    def coordinator(self) -> OneBatch:
        return OneBatch()

    def emitter(self) -> Emits:
        return Plans(self.rows) if self.plans else Emits(self.rows)


class Passes(BasicBolt):
    """Emits each row again."""

    output_fields = ("key", "text")

    def execute(self, tup: Tuple) -> tuple[Any, Any]:
        return (tup["key"], tup["text"])


class Counts(Committer):
    """Counts the rows and their characters."""

    def __init__(self, counted: list[int]) -> None:
        self.counted = counted
        self.rows = self.characters = 0

    def execute(self, tup: Tuple) -> None:
        self.rows += 1
        self.characters += len(tup["text"])

    def finish_batch(self) -> None:
        self.counted += [self.rows, self.characters]


def topology_of(rows: int, counted: list[int], *, plans: bool, combines: bool = False) -> Topology:
    """Return a topology with one batch. `counted` gets rows and characters, if the committer gets each row."""
    builder = TransactionalTopologyBuilder("sizes", "rows", Rows(rows, plans=plans), PARTITIONS)
    builder.set_bolt("pass", Passes, TASKS).fields_grouping("rows", "key")
    if combines:
        reduced = ReduceInto(MemoryValues(), key="key", value="text", reduce=max)
        builder.set_committer("keep", reduced).fields_grouping("pass", "key")
    else:
        builder.set_committer("keep", lambda: Counts(counted)).global_grouping("pass")
    return builder.build()
