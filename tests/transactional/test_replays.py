"""Rare faults of replays, all found by the model (tests/transactional/model)."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine import BasicBolt, Run, Tuple
from engine.testing import DropTuple
from engine.transactional import BatchCollector, FailedBatch, PartitionedEmitter, TransactionalTopologyBuilder, TransactionAttempt
from engine.transactional.attempt import first_attempt_id
from engine.transactional.feature import coordinator_id
from engine.transactional.open_batches import EmitRequest, OpenBatches, PartitionOutput, Record
from engine.transactional.spout_adapters import PartitionedEmitterAdapter
from tests.transactional.batch_topologies import (
    Batches,
    Partitions,
    PartitionsCoordinator,
    PartitionsEmitter,
    Store,
    Stores,
    Sums,
    run_batches,
    summing,
)


@pytest.mark.guarantee("TX-1", "TX-3")
def test_a_coordinator_that_dies_in_the_pause_before_a_replay_sends_nothing_more() -> None:
    spout, store = Batches([[1], [2]]), Store()

    failed_thrice = asyncio.Event()

    class Fails(Sums):
        def finish_batch(self) -> None:
            if self.attempt.number == 3:
                failed_thrice.set()
            if self.attempt.epoch == 1:
                raise FailedBatch
            super().finish_batch()

    async def kill_in_a_pause(run: Run) -> None:
        await failed_thrice.wait()
        await asyncio.sleep(0.05)
        run.kill_task(run.task_ids(coordinator_id("numbers"))[0])

    run_batches(summing(spout, store, sums=Fails, tasks=1), during=kill_in_a_pause)

    assert store.by_txid == {1: 1, 2: 2}
    epochs = [attempt.epoch for attempt in spout.emitted]
    assert epochs == sorted(epochs)


class RecordsMetadata(PartitionedEmitter[list[int]]):
    """Records the metadata of its emits."""

    def __init__(self) -> None:
        self.emitted: list[list[int]] = []
        self.context = SimpleNamespace(task_index=0, tasks=1)  # type: ignore[assignment]

    def emit_partition_batch_new(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: Any) -> list[int]:
        end = 0 if previous is None else previous[1]
        return self.note([end, end + 2])

    def emit_partition_batch(self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, metadata: list[int]) -> None:
        self.note(metadata)

    def note(self, metadata: list[int]) -> list[int]:
        self.emitted.append(metadata)
        return metadata


def request_of(txid: int, epoch: int, number: int, positions: dict[int | str, Any]) -> EmitRequest:
    return EmitRequest(TransactionAttempt(txid, first_attempt_id(epoch) + number), ["a"], 0, positions, {}, {})


@pytest.mark.guarantee("TX-7")
def test_an_unsaved_batch_of_an_earlier_coordinator_is_emitted_anew() -> None:
    part = RecordsMetadata()
    adapter, collector = PartitionedEmitterAdapter(part), SimpleNamespace(take_digest=lambda: (0, None))

    async def emit(requests: Sequence[EmitRequest]) -> None:
        for each in requests:
            await adapter.emit(each, collector)  # type: ignore[arg-type]

    asyncio.run(emit([request_of(2, 1, 1, {"a": [0, 1]}), request_of(2, 1, 2, {"a": [0, 1]}), request_of(2, 2, 1, {"a": [0, 4]})]))

    assert part.emitted == [[1, 3], [1, 3], [4, 6]]


@pytest.mark.guarantee("TX-7")
@pytest.mark.parametrize("replays_differ", [False, True])
def test_a_reported_partition_keeps_its_metadata_unless_the_spout_is_opaque(replays_differ: bool) -> None:
    batches = OpenBatches(Record(), emitters=2, replays_differ=replays_differ, partitioned=True)
    batches.begin_batch(1, ["a", "b"])
    batches.begin_attempt(TransactionAttempt(1, 1))
    batches.note_output(1, 7, {"a": PartitionOutput([0, 3], 3, 1)})

    again = batches.begin_attempt(TransactionAttempt(1, 2))

    assert again.replay_metadata == ({} if replays_differ else {"a": [0, 3]})


class Slowly(PartitionsEmitter):
    """Takes long for the first batch."""

    async def emit_partition_batch_new(self, attempt: TransactionAttempt, collector: Any, partition: Any, previous: Any) -> Any:
        await asyncio.sleep(5.0 if attempt.txid == 1 else 0.0)
        return super().emit_partition_batch_new(attempt, collector, partition, previous)


class SomeOf(PartitionsCoordinator):
    """Has one partition, then another, then both in an order that gives each to the other task."""

    def __init__(self, spout: Any) -> None:
        super().__init__(spout)
        self.lists = [["a"], ["z", "b"], ["b", "a"]]

    def partitions(self) -> list[str]:
        return self.lists.pop(0) if self.lists else ["a", "b", "z"]


@pytest.mark.guarantee("TX-7")
def test_a_batch_waits_for_the_earlier_batch_that_has_its_partition() -> None:
    store, spout = Store(), Partitions({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "z": [0, 0]}, coordinator=SomeOf, emitter=Slowly)
    run_batches(summing(spout, store, emitters=2), config={"max_spout_pending": 3})

    assert sum(store.by_txid.values()) == 36
    assert [txid for txid, partition in spout.new if partition == "a"] == [1, 3]
    assert not spout.again, "no batch may be replayed"


@pytest.mark.guarantee("TX-6")
def test_a_running_call_whose_batch_failed_may_still_emit_without_an_error() -> None:
    store = Store()
    raised: list[int] = []

    class Emits(BasicBolt):
        output_fields = "number"

        async def execute(self, tup: Tuple) -> tuple[int]:
            if tup["number"] == 3 and len(raised) < 2:  # the second time it is tried again after a pause
                raised.append(1)
                raise ValueError("on purpose")
            await asyncio.sleep(0.05)
            return (tup["number"],)

    builder = TransactionalTopologyBuilder("emits", "numbers", Batches([[1, 2, 3]]))
    builder.set_bolt("emits", Emits, concurrency=8).shuffle_grouping("numbers")
    builder.set_bolt("sums", Sums).global_grouping("emits")
    builder.set_committer("store", lambda: Stores(store)).global_grouping("sums")
    finished = run_batches(builder.build())

    assert [report.text for report in finished.errors if "on purpose" not in report.text] == []
    assert store.by_txid == {1: 6}


class PreparesLong(Sums):
    """Is slow to prepare, so its tuples wait, and the report behind them arrives before they are executed."""

    async def prepare(self) -> None:
        super().prepare()
        await asyncio.sleep(1)


class AsyncBasic(BasicBolt):
    """Takes time in its calls."""

    output_fields = "sum"

    async def execute(self, tup: Tuple) -> tuple[int]:
        await asyncio.sleep(1)
        return (tup[-1],)


@pytest.mark.guarantee("TX-5")
@pytest.mark.parametrize("bolt", [PreparesLong, AsyncBasic])
def test_a_tuple_that_is_lost_while_it_waits_fails_its_batch(bolt: Any) -> None:
    store, spout = Store(), Batches([[1, 2, 3]])
    finished = run_batches(summing(spout, store, sums=bolt, tasks=1), faults=[DropTuple("numbers", "sums", 2)])

    assert len(finished.strikes) == 1
    assert [attempt.number for attempt in spout.emitted] == [1, 2]
    assert store.by_txid == {1: 6}
