"""State that outlives a run: txids, attempts, metadata, positions (TX-7, TX-9)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine import Config, Run
from engine.errors import ComponentError, StateError, TopologyError
from engine.transactional import FailedBatch
from engine.transactional.open_batches import Record
from engine.transactional.transactional_state import TransactionalState, entries_of, record_of
from tests.transactional.batch_topologies import Batches, OpaquePartitions, Partitions, Store, Stores, Sums, run_batches, summing

FIVE = [[1], [2], [3], [4], [5]]


def dies_after(store: Store, txid: int) -> Any:
    """Return committers that end the run after they stored a txid, before its commit phase is over."""
    from engine import FatalError

    class Dies(Stores):
        def finish_batch(self) -> None:
            super().finish_batch()
            if self.attempt.txid == txid:
                raise FatalError("killed in the commit phase")

    return lambda: Dies(store)


@pytest.mark.guarantee("TX-9", "TX-1")
def test_a_completed_run_is_not_repeated_and_new_batches_are_processed(tmp_path: Path) -> None:
    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}"}
    run_batches(summing(Batches(FIVE[:3]), store), config=config)
    assert store.txids == [1, 2, 3]
    again = Batches(FIVE)
    run_batches(summing(again, store), config=config)
    assert store.txids == [1, 2, 3, 4, 5]
    assert again.initialized == [4, 5]
    assert [attempt.epoch for attempt, _ in store.commits] == [1, 1, 1, 2, 2]


@pytest.mark.guarantee("RUN-5")
def test_a_refused_start_releases_the_store(tmp_path: Path) -> None:
    class Flaky(Batches):
        made = 0

        def emitter(self) -> Any:
            self.made += 1
            if self.made == 1:
                raise OSError("no such file")
            return super().emitter()

    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}"}
    topology = summing(Flaky(FIVE), store)
    with pytest.raises(TopologyError, match="no such file"):
        run_batches(topology, config=config)
    run_batches(topology, config=config)
    assert store.txids == [1, 2, 3, 4, 5]


@pytest.mark.guarantee("TX-9", "TX-7")
def test_a_txid_in_doubt_is_replayed_by_its_metadata(tmp_path: Path) -> None:
    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}", "max_spout_pending": 3}
    with pytest.raises(ComponentError, match="killed in the commit phase"):
        run_batches(summing(Batches(FIVE), store, stores=dies_after(store, 3)), config=config)
    assert store.txids == [1, 2, 3]
    again = Batches(FIVE)
    run_batches(summing(again, store), config=config)
    assert store.txids == [1, 2, 3, 3, 4, 5]
    assert again.initialized == [4, 5]
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


@pytest.mark.guarantee("TX-9", "TX-7")
def test_partitions_continue_and_a_txid_in_doubt_is_emitted_by_its_metadata(tmp_path: Path) -> None:
    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}", "max_spout_pending": 2}
    data = {"a": list(range(5)), "b": list(range(100, 103))}
    with pytest.raises(ComponentError, match="killed in the commit phase"):
        run_batches(summing(Partitions(data), store, emitters=2, stores=dies_after(store, 2)), config=config)
    again = Partitions(data)
    run_batches(summing(again, store, emitters=3), config=config)  # the parallelism of emitters may change
    assert again.again == [(2, "a"), (2, "b")]
    assert sorted(again.new) == [(3, "a"), (3, "b")]
    assert store.by_txid == {1: 0 + 1 + 100 + 101, 2: 2 + 3 + 102, 3: 4}


@pytest.mark.guarantee("TX-7")
def test_an_opaque_replay_starts_where_the_committed_batch_before_it_ended(tmp_path: Path) -> None:
    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}", "max_spout_pending": 3}
    data = {"a": [1] * 10}
    with pytest.raises(ComponentError, match="killed in the commit phase"):
        run_batches(summing(OpaquePartitions(data, lambda attempt, partition: 3), store, stores=dies_after(store, 2)), config=config)
    again = OpaquePartitions(data, lambda attempt, partition: 2)
    run_batches(summing(again, store), config=config)
    assert store.by_txid == {1: 3, 2: 2, 3: 2, 4: 2, 5: 1}
    assert again.starts[0][2] == 3


@pytest.mark.guarantee("TX-7", "TX-3")
def test_an_opaque_replay_also_replays_later_batches_so_that_nothing_is_skipped() -> None:
    """The example of the specification: A emits 1-50 and B 51-100. A fails and emits 1-40, so B must begin at 41."""
    data = {"a": list(range(1, 201))}
    store = Store()
    failed: list[int] = []

    class FailsOnce(Stores):
        def finish_batch(self) -> None:
            if self.attempt.txid == 1 and not failed:
                failed.append(1)
                raise FailedBatch
            super().finish_batch()

    spout = OpaquePartitions(data, lambda attempt, partition: 40 if failed and attempt.txid == 1 else 50)
    run_batches(summing(spout, store, stores=lambda: FailsOnce(store)), config={"max_spout_pending": 2})
    assert [value for _, value in store.commits] == [sum(range(1, 41)), sum(range(41, 91)), sum(range(91, 141)), sum(range(141, 191)), 1955]
    assert sum(value for _, value in store.commits) == sum(data["a"])


@pytest.mark.guarantee("TX-7")
def test_a_lost_partition_does_not_stop_others_and_continues_from_its_position() -> None:
    away: set[int] = {2, 3}
    data = {"a": [1] * 8, "b": [10] * 8}
    store = Store()
    spout = OpaquePartitions(data, lambda attempt, partition: 0 if partition == "b" and attempt.txid in away else 2)
    run_batches(summing(spout, store, emitters=2), config={"max_spout_pending": 2})
    assert store.by_txid == {1: 22, 2: 2, 3: 2, 4: 22, 5: 20, 6: 20}


@pytest.mark.guarantee("TX-7")
def test_a_transactional_replay_that_differs_ends_the_run() -> None:
    store = Store()
    spout = Batches([[1, 2], [3, 4]])

    class FailsOnce(Stores):
        def finish_batch(self) -> None:
            if len(spout.emitted) == 1:
                spout.batches[0] = [1, 3]
                raise FailedBatch
            super().finish_batch()

    with pytest.raises(ComponentError, match=r"txid 1 was emitted again with different tuples: 2 tuples the first time, now 2, others"):
        run_batches(summing(spout, store, stores=lambda: FailsOnce(store)))
    assert store.commits == []


@pytest.mark.guarantee("TX-9")
def test_the_record_can_be_written_and_read() -> None:
    from engine.transactional.open_batches import UNPARTITIONED, PartitionOutput

    record = Record(
        6,
        {"x": 1},
        {"a": [1, 2], 3: None},
        None,
        {"a": PartitionOutput([2, 4], 2, 2**64 - 1), UNPARTITIONED: PartitionOutput(None, 0, None)},
    )
    assert record_of(entries_of(record, partitioned=True), "t", partitioned=True) == record
    assert record_of({}, "t", partitioned=True) == Record()
    with pytest.raises(StateError, match="spout with partitions"):
        record_of(entries_of(record, partitioned=True), "t", partitioned=False)
    with pytest.raises(StateError, match="cannot be read"):
        record_of({"transactions": [99]}, "t", partitioned=True)


@pytest.mark.guarantee("TX-9")
async def test_an_owner_that_lost_the_claim_cannot_save() -> None:
    from engine import FatalError
    from engine.state import provider_of

    provider = provider_of("memory://")
    first = TransactionalState("t", provider, partitioned=False, timeout_secs=1)
    epoch, record, _ = await first.claim()
    assert (epoch, record) == (1, Record())
    await first.save(Record(1, 1))
    assert (await first.claim())[0] == 2
    from engine.state.memory import MemoryLedger

    ledger = provider.ledger("transactions")
    assert isinstance(ledger, MemoryLedger)
    ledger._claimed = 1  # like the ledger of the older owner
    with pytest.raises(FatalError, match="taken over by another process"):
        await first.save(Record(2, 2))


def test_a_topology_id_that_is_already_running_is_refused(tmp_path: Path) -> None:
    config = {"state_provider": f"sqlite:///{tmp_path / 'x.db'}"}

    class Long(Sums):
        async def finish_batch(self) -> None:
            await asyncio.sleep(60)

    async def second(run: Run) -> None:
        with pytest.raises(StateError, match="runs already"):
            async with Run(summing(Batches(FIVE), Store()), Config(**config)):
                pass  # pragma: no cover

    run_batches(summing(Batches(FIVE[:1]), Store(), sums=Long), config=config, during=second)
