"""Parts of transactional topologies for tests: spouts of numbers, bolts that record their calls, and a function to run them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine import Config, SpoutExhausted, Tuple
from engine.testing import Finished, run_topology
from engine.transactional import (
    BatchBolt,
    BatchCollector,
    Committer,
    OpaqueEmitter,
    OpaquePartitionedTransactionalSpout,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    SpoutCoordinator,
    SpoutEmitter,
    TransactionalSpout,
    TransactionalTopologyBuilder,
    TransactionAttempt,
)


class Batches(TransactionalSpout[list[int]]):
    """Emits the numbers of `batches`, one list for each txid. The tasks divide each list."""

    output_fields = "number"

    def __init__(self, batches: Iterable[list[int]], *, coordinator: Any = None, emitter: Any = None) -> None:
        self.batches = [list(batch) for batch in batches]
        self.makes = (coordinator or BatchesCoordinator, emitter or BatchesEmitter)
        self.initialized: list[int] = []
        self.emitted: list[TransactionAttempt] = []

    def coordinator(self) -> Any:
        return self.makes[0](self)

    def emitter(self) -> Any:
        return self.makes[1](self)


class BatchesCoordinator(SpoutCoordinator[int]):
    def __init__(self, spout: Batches) -> None:
        self.spout = spout

    def is_ready(self) -> bool:
        if (self.previous or 0) >= len(self.spout.batches):
            raise SpoutExhausted
        return True

    def initialize_transaction(self, txid: int, previous: int | None) -> int:
        self.spout.initialized.append(txid)
        return (previous or 0) + 1


class BatchesEmitter(SpoutEmitter[int]):
    def __init__(self, spout: Batches) -> None:
        self.spout = spout

    def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
        if self.context.task_index == 0:
            self.spout.emitted.append(attempt)
        numbers = self.spout.batches[metadata - 1][self.context.task_index :: self.context.tasks]
        collector.emit_many([(number,) for number in numbers])


class Partitions(PartitionedTransactionalSpout[list[int]]):
    """Emits `take` numbers of each partition in each batch."""

    output_fields = ("partition", "number")

    def __init__(self, data: dict[str, list[int]], take: int = 2, *, coordinator: Any = None, emitter: Any = None) -> None:
        self.data, self.take = data, take
        self.makes = (coordinator or PartitionsCoordinator, emitter or PartitionsEmitter)
        self.new: list[tuple[int, str]] = []
        self.again: list[tuple[int, str]] = []

    def coordinator(self) -> Any:
        return self.makes[0](self)

    def emitter(self) -> Any:
        return self.makes[1](self)


class PartitionsCoordinator(PartitionedCoordinator):
    def __init__(self, spout: Any) -> None:
        self.spout = spout

    def is_ready(self) -> bool:
        ends = {name: (self.positions.get(name) or [0, 0])[1] for name in self.spout.data}
        if all(ends[name] >= len(numbers) for name, numbers in self.spout.data.items()):
            raise SpoutExhausted
        return True

    def partitions(self) -> list[str]:
        return sorted(self.spout.data)


class PartitionsEmitter(PartitionedEmitter[list[int]]):
    def __init__(self, spout: Partitions) -> None:
        self.spout = spout

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: list[int] | None
    ) -> list[int]:
        start = 0 if previous is None else previous[1]
        metadata = [start, min(start + self.spout.take, len(self.spout.data[partition]))]
        self.spout.new.append((attempt.txid, partition))
        self._emit(collector, partition, metadata)
        return metadata

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, metadata: list[int]) -> None:
        self.spout.again.append((attempt.txid, partition))
        self._emit(collector, partition, metadata)

    def _emit(self, collector: BatchCollector, partition: str, metadata: list[int]) -> None:
        for number in self.spout.data[partition][metadata[0] : metadata[1]]:
            collector.emit((partition, number))


class OpaquePartitions(OpaquePartitionedTransactionalSpout[list[int]]):
    """Emits `take(attempt, partition)` numbers of each partition in each batch, and none of a partition that is `away`."""

    output_fields = ("partition", "number")

    def __init__(self, data: dict[str, list[int]], take: Callable[[TransactionAttempt, str], int]) -> None:
        self.data, self.take = data, take
        self.starts: list[tuple[TransactionAttempt, str, int]] = []

    def coordinator(self) -> PartitionedCoordinator:
        return PartitionsCoordinator(self)

    def emitter(self) -> "OpaquePartitionsEmitter":
        return OpaquePartitionsEmitter(self)


class OpaquePartitionsEmitter(OpaqueEmitter[list[int]]):
    def __init__(self, spout: OpaquePartitions) -> None:
        self.spout = spout

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: list[int] | None
    ) -> list[int]:
        start = 0 if previous is None else previous[1]
        self.spout.starts.append((attempt, partition, start))
        numbers = self.spout.data[partition][start : start + self.spout.take(attempt, partition)]
        collector.emit_many([(partition, number) for number in numbers])
        return [start, start + len(numbers)]


class Sums(BatchBolt):
    """Sums the last values of the tuples."""

    output_fields = "sum"

    def prepare(self) -> None:
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup[-1]

    def finish_batch(self) -> None:
        self.collector.emit((self.sum,))


@dataclass
class Store:
    """Values that a committer stored, in the order of the commits."""

    commits: list[tuple[TransactionAttempt, int]] = field(default_factory=list)

    @property
    def by_txid(self) -> dict[int, int]:
        """Value of each txid in its last commit."""
        return {attempt.txid: value for attempt, value in self.commits}

    @property
    def txids(self) -> list[int]:
        """Txids in the order of the commits."""
        return [attempt.txid for attempt, _ in self.commits]


class Stores(Committer):
    """Stores the sum of each batch."""

    output_fields = "sum"

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sum = 0

    def execute(self, tup: Tuple) -> None:
        self.sum += tup[-1]

    def finish_batch(self) -> None:
        self.store.commits.append((self.attempt, self.sum))
        self.collector.emit((self.sum,))


def summing(spout: Any, store: Store, *, emitters: int = 1, sums: Any = Sums, tasks: int = 2, stores: Any = None) -> Any:
    """Return a topology: the spout, a bolt that sums its numbers, and a committer that stores the sum."""
    builder = TransactionalTopologyBuilder("summing", "numbers", spout, emitters)
    builder.set_bolt("sums", sums, tasks).shuffle_grouping("numbers")
    builder.set_committer("store", stores or (lambda: Stores(store))).global_grouping("sums")
    return builder.build()


def run_batches(topology: Any, **options: Any) -> Finished:
    """Run a topology to its end in virtual time, with the settings `config`."""
    return run_topology(topology, Config(**options.pop("config", {})), **options)
