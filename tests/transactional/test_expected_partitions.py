"""An emitter hears of all its partitions before it emits them again one after another (TX-7)."""

from collections.abc import Mapping
from typing import Any

import pytest

from engine.transactional import FailedBatch, Partition, TransactionAttempt
from tests.transactional.batch_topologies import Partitions, PartitionsEmitter, Store, run_batches, summing
from tests.transactional.test_metadata import failing_once

pytestmark = pytest.mark.guarantee("TX-7")

DATA = {"a": [1, 2, 3, 4], "b": [10, 20, 30, 40], "c": [100, 200, 300, 400]}
SUMS = {1: 333, 2: 777}


class Expecting(PartitionsEmitter):
    """Notes what it must expect, and what it had emitted again by then. Changes its copy of the metadata."""

    def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, list[int]]) -> Any:
        self.spout.expected.append((attempt.txid, {name: tuple(metadata) for name, metadata in planned.items()}, list(self.spout.again)))  # type: ignore[attr-defined]
        for metadata in planned.values():
            metadata.clear()


class ExpectingLater(Expecting):
    async def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, list[int]]) -> None:  # type: ignore[override]
        super().expect_partition_batches(attempt, planned)


def expecting(emitter: Any) -> Any:
    spout: Any = Partitions(DATA, emitter=emitter)
    spout.expected = []
    return spout


@pytest.mark.parametrize("emitter", [Expecting, ExpectingLater])
def test_a_replay_of_several_partitions_is_announced(emitter: Any) -> None:
    spout, store = expecting(emitter), Store()
    run_batches(summing(spout, store, stores=failing_once(store)), config={"max_spout_pending": 1})
    assert store.by_txid == SUMS
    assert spout.expected == [(2, {"a": (2, 4), "b": (2, 4), "c": (2, 4)}, [])]


def test_each_task_hears_of_its_own_partitions_if_there_are_several() -> None:
    spout, store = expecting(Expecting), Store()
    run_batches(summing(spout, store, emitters=2, stores=failing_once(store)), config={"max_spout_pending": 1})
    assert store.by_txid == SUMS
    assert [sorted(planned) for _, planned, _ in spout.expected] == [["a", "c"]]  # the other task has only "b"


def test_a_refusal_fails_the_batch() -> None:
    class Refusing(Expecting):
        def expect_partition_batches(self, attempt: TransactionAttempt, planned: Mapping[Partition, list[int]]) -> None:
            super().expect_partition_batches(attempt, planned)
            if len(self.spout.expected) == 1:  # type: ignore[attr-defined]
                raise FailedBatch("not now")

    spout, store = expecting(Refusing), Store()
    run_batches(summing(spout, store, stores=failing_once(store)), config={"max_spout_pending": 1})
    assert store.by_txid == SUMS
    assert [again for _, _, again in spout.expected] == [[], []]
