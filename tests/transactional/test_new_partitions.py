"""Partitions that appear, disappear and move to another task while batches are open (TX-7)."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import Config, SpoutExhausted
from engine.testing import run_topology
from engine.transactional import (
    BatchCollector,
    Partition,
    PartitionedCoordinator,
    PartitionedEmitter,
    PartitionedTransactionalSpout,
    TransactionAttempt,
)
from tests.transactional.test_memory_spout import Kept, topology

pytestmark = pytest.mark.guarantee("TX-7")


class Lists(PartitionedTransactionalSpout[int]):
    """Emits rows (partition, 0), (partition, 1), …: for each batch a list of partitions, and one row of each."""

    output_fields = "row"

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self.lists = lists

    def coordinator(self) -> PartitionedCoordinator:
        return ListsCoordinator(self.lists)

    def emitter(self) -> PartitionedEmitter[int]:
        return ListsEmitter()


class ListsCoordinator(PartitionedCoordinator):
    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self.left = list(lists)
        self.known: set[Partition] = set()

    def is_ready(self) -> bool:
        if not self.left:
            raise SpoutExhausted
        return True

    def partitions(self) -> Sequence[Partition]:
        self.known = set(self.positions)
        self.newest = self.left.pop(0)
        return self.newest

    def forgotten(self) -> Collection[Partition]:
        """Partitions of no later batch."""
        return self.known - {partition for partitions in [self.newest, *self.left] for partition in partitions}


class ListsEmitter(PartitionedEmitter[int]):
    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, previous: int | None
    ) -> int:
        number = 0 if previous is None else previous + 1
        collector.emit(((partition, number),))
        return number

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Partition, metadata: int) -> None:
        collector.emit(((partition, metadata),))


def rows_of(lists: Sequence[Sequence[str]]) -> list[list[Any]]:
    numbers: dict[str, int] = {}
    batches = []
    for partitions in lists:
        batches.append(sorted((p, numbers.get(p, 0)) for p in partitions))
        numbers.update({p: numbers.get(p, 0) + 1 for p in partitions})
    return batches


COME = [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]] * 2
PAUSE = [["a", "b"], ["a"], ["b", "a"], ["a"], ["a", "b"]]
MOVE = [["a", "b", "c"], ["b", "c"], ["a", "c"], ["c", "b", "a"], ["c"], ["b"], ["a"]]


@pytest.mark.parametrize("pending", [1, 4, 8])
@pytest.mark.parametrize("lists", [COME, PAUSE, MOVE], ids=["come", "pause", "move"])
def test_each_partition_continues_from_its_last_row(lists: Any, pending: int) -> None:
    kept = Kept()
    run_topology(topology(Lists(lists), kept), Config(max_spout_pending=pending))
    assert list(kept.batches.values()) == rows_of(lists)


@pytest.mark.parametrize("pending", [1, 4, 8])
def test_a_new_partition_causes_no_replay(pending: int) -> None:
    kept = Kept()
    run_topology(topology(Lists(COME), kept), Config(max_spout_pending=pending))
    assert [attempt.number for attempt in kept.attempts] == list(range(1, 9))


@pytest.mark.guarantee("TX-9")
@pytest.mark.parametrize("pending", [1, 4])
def test_the_position_of_a_forgotten_partition_is_deleted(tmp_path: Path, pending: int) -> None:
    kept = Kept()
    config = Config(max_spout_pending=pending, state_provider=f"sqlite:///{tmp_path}/state.db")
    lists = [["a", "b"], ["a", "c"], ["a"], ["d"], ["d"], ["d"], ["d"]]
    run_topology(topology(Lists(lists), kept), config)
    assert list(kept.batches.values()) == rows_of(lists)
    run_topology(topology(Lists([["a", "d"]]), kept), config)
    assert kept.batches[8] == [("a", 0), ("d", 4)]
