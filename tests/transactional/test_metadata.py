"""The engine copies metadata: a spout that later changes an object that it returned or got changes no batch (TX-7)."""

from typing import Any

import pytest

from engine import SpoutExhausted
from engine.transactional import BatchCollector, FailedBatch, OpaqueEmitter, PartitionedEmitter, TransactionAttempt
from tests.transactional.batch_topologies import (
    Batches,
    BatchesCoordinator,
    BatchesEmitter,
    OpaquePartitions,
    Partitions,
    Store,
    Stores,
    run_batches,
    summing,
)

pytestmark = pytest.mark.guarantee("TX-7", "TX-3")


def failing_once(store: Store) -> Any:
    """Return committers that fail txid 2 once, so that it and the later batches are replayed."""
    failed: list[int] = []

    class Fails(Stores):
        def finish_batch(self) -> None:
            if self.attempt.txid == 2 and not failed:
                failed.append(1)
                raise FailedBatch
            super().finish_batch()

    return lambda: Fails(store)


@pytest.mark.parametrize("pending", [1, 3])
def test_a_coordinator_may_change_and_return_the_previous_metadata(pending: int) -> None:
    class Coordinates(BatchesCoordinator):
        def is_ready(self) -> bool:
            if (self.previous or [0])[0] >= len(self.spout.batches):  # type: ignore[index]
                raise SpoutExhausted
            return True

        def initialize_transaction(self, txid: int, previous: Any) -> Any:
            metadata = previous or [0]
            metadata[0] += 1
            return metadata

    class Emits(BatchesEmitter):
        def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
            super().emit_batch(attempt, metadata.pop(), collector)

    store = Store()
    spout = Batches([[1], [2], [3], [4], [5]], coordinator=Coordinates, emitter=Emits)
    run_batches(summing(spout, store, emitters=2, stores=failing_once(store)), config={"max_spout_pending": pending})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


def _next(previous: Any, numbers: list[int]) -> Any:
    """Change the metadata of the batch before to those of the next two numbers."""
    metadata = previous or [0, 0]
    metadata[0] = metadata[1]
    metadata[1] = min(metadata[0] + 2, len(numbers))
    return metadata


@pytest.mark.parametrize("pending", [1, 3])
def test_an_opaque_emitter_may_change_and_return_the_previous_metadata(pending: int) -> None:
    class Emits(OpaqueEmitter[Any]):
        def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: Any) -> Any:
            metadata = _next(previous, spout.data[partition])
            collector.emit_many([(partition, number) for number in spout.data[partition][slice(*metadata)]])
            return metadata

    class Changes(OpaquePartitions):
        def emitter(self) -> Any:
            return Emits()

    store = Store()
    spout = Changes({"a": list(range(12))}, lambda attempt, partition: 2)
    run_batches(summing(spout, store, stores=failing_once(store)), config={"max_spout_pending": pending})
    assert sum(store.by_txid.values()) == sum(range(12))


@pytest.mark.parametrize("pending", [1, 3])
def test_a_partitioned_emitter_may_change_the_metadata_that_it_gets(pending: int) -> None:
    class Emits(PartitionedEmitter[Any]):
        def emit_partition_batch_new(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: Any) -> Any:
            metadata = _next(previous, spout.data[partition])
            self.emit_partition_batch(attempt, collector, partition, list(metadata))
            return metadata

        def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, metadata: Any) -> None:
            end, start = metadata.pop(), metadata.pop()
            collector.emit_many([(partition, number) for number in spout.data[partition][start:end]])

    class Changes(Partitions):
        def emitter(self) -> Any:
            return Emits()

    store = Store()
    spout = Changes({"a": list(range(12)), "b": list(range(7))})
    run_batches(summing(spout, store, emitters=2, stores=failing_once(store)), config={"max_spout_pending": pending})
    assert sum(store.by_txid.values()) == sum(range(12)) + sum(range(7))
