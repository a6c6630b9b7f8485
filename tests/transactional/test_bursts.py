"""Batch bolts that take many tuples at once get bursts, and behave like other batch bolts otherwise (TX-5, TX-6)."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable
from typing import Any

import pytest

from engine import Burst, Fields, TopologyError, UsageError
from engine.testing import DropTuple
from engine.transactional import BatchBolt, BurstBolt, FailedBatch, TransactionalTopologyBuilder, TransactionAttempt
from tests.transactional.batch_topologies import Batches, BatchesEmitter, Store, run_batches, summing

Bursts = dict[int, list[list[int]]]


class SumsBursts(BurstBolt):
    """Sums the last values of the tuples, and records the bursts of each txid."""

    output_fields = "sum"
    burst_rows = 4
    bursts: Bursts

    def prepare(self) -> None:
        self.sum = 0
        self.finished = False

    def execute_many(self, burst: Burst) -> Awaitable[None] | None:
        assert not self.finished
        assert all(attempt == self.attempt for attempt in burst["attempt"])
        numbers = [row[-1] for row in burst.rows]
        self.bursts[self.attempt.txid].append(numbers)
        self.sum += sum(numbers)
        return None

    def finish_batch(self) -> None:
        self.finished = True
        self.collector.emit((self.sum,))


def noting(base: type[BurstBolt] = SumsBursts) -> tuple[type[BurstBolt], Bursts]:
    """Return a class that records its bursts, and the record."""
    noted: Bursts = defaultdict(list)
    return type("Noting", (base,), {"bursts": noted}), noted


@pytest.mark.guarantee("TX-5")
def test_a_batch_arrives_in_full_bursts_and_a_last_one_with_the_rest() -> None:
    sums, bursts = noting()
    store = Store()
    run_batches(summing(Batches([list(range(10)), [], [1, 2, 3, 4], [5]]), store, sums=sums, tasks=1), config={"max_spout_pending": 3})
    assert bursts == {1: [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]], 3: [[1, 2, 3, 4]], 4: [[5]]}
    assert store.by_txid == {1: 45, 2: 0, 3: 10, 4: 5}


@pytest.mark.guarantee("TX-5")
@pytest.mark.parametrize("room", [2, 3, 1000])
def test_tuples_that_arrive_during_a_slow_burst_wait_in_order(room: int) -> None:
    class Slow(SumsBursts):
        async def execute_many(self, burst: Burst) -> None:
            await asyncio.sleep(1)
            super().execute_many(burst)
            await asyncio.sleep(1)

    sums, bursts = noting(Slow)
    store = Store()
    batches = [list(range(txid, txid + 22)) for txid in range(3)]
    config = {"max_spout_pending": 3, "executor_receive_buffer_size": room}
    run_batches(summing(Batches(batches), store, sums=sums, tasks=1), config=config)
    assert {txid: [number for burst in found for number in burst] for txid, found in bursts.items()} == dict(enumerate(batches, 1))
    assert all([len(burst) for burst in found] == [4, 4, 4, 4, 4, 2] for found in bursts.values())
    assert store.by_txid == {txid: sum(batch) for txid, batch in enumerate(batches, 1)}


@pytest.mark.guarantee("TX-5")
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_burst_has_only_tuples_with_the_same_fields(is_slow: bool) -> None:
    seen: list[tuple[tuple[str, ...], list[int]]] = []

    class Parts(BatchBolt):
        output_fields = {"even": Fields("even"), "odd": Fields("odd", "again")}

        def execute(self, tup: Any) -> None:
            number = tup["number"]
            self.collector.emit((number,) if number % 2 == 0 else (number, number), "odd" if number % 2 else "even")

        def finish_batch(self) -> None: ...

    class Sees(BurstBolt):
        burst_rows = 3

        def execute_many(self, burst: Burst) -> Awaitable[None] | None:
            assert all(tup.fields is burst.fields for tup in burst)
            seen.append((burst.fields.names[1:], [row[1] for row in burst.rows]))
            return asyncio.sleep(1) if is_slow else None

        def finish_batch(self) -> None: ...

    builder = TransactionalTopologyBuilder("parts", "numbers", Batches([[0, 2, 4, 6, 1, 8, 3, 5]]))
    builder.set_bolt("parts", Parts).shuffle_grouping("numbers")
    builder.set_bolt("sees", Sees).shuffle_grouping("parts", "even").shuffle_grouping("parts", "odd")
    run_batches(builder.build())
    even, odd = ("even",), ("odd", "again")
    assert seen == [(even, [0, 2, 4]), (even, [6]), (odd, [1]), (even, [8]), (odd, [3, 5])]


@pytest.mark.guarantee("TX-3", "TX-6")
@pytest.mark.parametrize("number", [2, 9])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_burst_that_raises_fails_its_batch_and_drops_only_its_instance(number: int, is_slow: bool) -> None:
    class Fails(SumsBursts):
        def execute_many(self, burst: Burst) -> Awaitable[None] | None:
            is_first = self.attempt.number <= 3
            if self.attempt.txid == 2 and is_first and any(row[-1] == number for row in burst.rows):
                if is_slow:
                    return self.raise_later()
                raise FailedBatch
            return super().execute_many(burst)

        async def raise_later(self) -> None:
            await asyncio.sleep(1)
            raise FailedBatch

    sums, _ = noting(Fails)
    store = Store()
    spout = Batches([[1], list(range(10)), [2, 3]])
    run_batches(summing(spout, store, sums=sums, tasks=1), config={"max_spout_pending": 3})
    assert store.txids == [1, 2, 3]
    assert store.by_txid == {1: 1, 2: 45, 3: 5}
    assert [attempt.txid for attempt in spout.emitted] == [1, 2, 3, 2, 3]


@pytest.mark.guarantee("TX-2", "TX-5")
def test_a_committer_may_take_bursts() -> None:
    sums, bursts = noting()
    builder = TransactionalTopologyBuilder("bursts", "numbers", Batches([[1, 2, 3, 4, 5], [6]]))
    builder.set_committer("store", sums).global_grouping("numbers")
    run_batches(builder.build(), config={"max_spout_pending": 2})
    assert bursts == {1: [[1, 2, 3, 4], [5]], 2: [[6]]}


@pytest.mark.guarantee("TX-5", "GRP-4")
def test_a_tuple_that_is_lost_on_its_way_to_a_burst_bolt_fails_the_batch() -> None:
    sums, _ = noting()
    store = Store()
    spout = Batches([[1, 2, 3]])
    run_batches(summing(spout, store, sums=sums, tasks=1), faults=[DropTuple("numbers", "sums", 2)])
    assert store.by_txid == {1: 6}
    assert [attempt.txid for attempt in spout.emitted] == [1, 1]


@pytest.mark.guarantee("TX-6")
@pytest.mark.parametrize("error", [None, "odd", ValueError("odd")])
def test_a_burst_that_fails_a_tuple_fails_its_batch(error: Any) -> None:
    failed: list[int] = []

    class FailsOdd(SumsBursts):
        def execute_many(self, burst: Burst) -> Awaitable[None] | None:
            for tup, number in burst.items("number"):
                burst.ack(tup)
                if number % 2 and not failed:
                    failed.append(number)
                    burst.fail(tup, error)
            return super().execute_many(burst)

    sums, _ = noting(FailsOdd)
    store = Store()
    spout = Batches([[2, 4], [2, 3]])
    finished = run_batches(summing(spout, store, sums=sums, tasks=1))
    assert store.by_txid == {1: 6, 2: 5}
    assert [attempt.txid for attempt in spout.emitted] == [1, 2, 2]
    assert not finished.errors


def test_a_direct_call_of_execute_is_a_burst_of_one() -> None:
    builder = TransactionalTopologyBuilder("by-hand", "numbers", Batches([[1, 2]]))
    sums, bursts = noting()

    class ByHand(BatchBolt):
        output_fields = "sum"

        def execute(self, tup: Any) -> None:
            inner = sums()
            inner.attempt = self.attempt
            inner.prepare()
            inner.execute(tup)

        def finish_batch(self) -> None: ...

    builder.set_bolt("sums", ByHand).shuffle_grouping("numbers")
    run_batches(builder.build())
    assert bursts == {1: [[1], [2]]}


@pytest.mark.parametrize("burst_rows", [0, -1, True, "4", None])
def test_an_invalid_size_of_bursts_is_refused(burst_rows: object) -> None:
    sums = type("Sums", (SumsBursts,), {"burst_rows": burst_rows})
    with pytest.raises(TopologyError, match=r"burst_rows = .* Give a number of tuples, at least 1"):
        summing(Batches([[1]]), Store(), sums=sums)


@pytest.mark.guarantee("TX-1", "TX-4")
@pytest.mark.parametrize("as_rows", [False, True])
def test_rows_and_single_values_of_a_batch(as_rows: bool) -> None:
    class Copies(BurstBolt):
        output_fields = "number"

        def execute_many(self, burst: Burst) -> None:
            numbers = (row[-1] for row in burst.rows)
            if as_rows:
                self.collector.emit_many((number,) for number in numbers)
            else:
                self.collector.emit_each(numbers)

        def finish_batch(self) -> None: ...

    store = Store()
    run_batches(summing(Batches([[1, 2, 3], [], [4]]), store, sums=Copies))
    assert store.by_txid == {1: 6, 2: 0, 3: 4}


@pytest.mark.parametrize("given", ["ab", b"ab", None, 5])
@pytest.mark.parametrize("method", ["emit_each", "emit_many"])
def test_rows_of_a_batch_that_are_no_list_are_an_error(method: str, given: Any) -> None:
    class Letters(BurstBolt):
        output_fields = "letter"

        def execute_many(self, burst: Burst) -> None:
            with pytest.raises(UsageError, match=rf"'sums' called {method}\({given!r}\), which takes a list") as raised:
                getattr(self.collector, method)(given)
            assert raised.value.hint == f"Write {method}([...]). To emit one tuple, call emit((value,))."
            self.collector.emit_each([5])

        def finish_batch(self) -> None: ...

    store = Store()
    run_batches(summing(Batches([[1]]), store, sums=Letters))
    assert store.by_txid == {1: 5}


def test_an_emit_of_a_batch_with_an_anchor_is_an_error() -> None:
    class Anchors(BurstBolt):
        output_fields = "number"

        def execute_many(self, burst: Burst) -> None:
            with pytest.raises(UsageError, match="in place of a stream") as raised:
                self.collector.emit((5,), burst[0])
            with pytest.raises(UsageError, match="in place of a stream"):
                self.collector.emit_many([(5,)], [burst[0]])  # type: ignore[arg-type]
            assert "None has an anchor" in (raised.value.hint or "")
            self.collector.emit((5,))

        def finish_batch(self) -> None: ...

    store = Store()
    run_batches(summing(Batches([[1]]), store, sums=Anchors))
    assert store.by_txid == {1: 5}


def test_rows_of_an_emitter_that_are_no_list_are_an_error() -> None:
    class Emitter(BatchesEmitter):
        def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: Any) -> None:
            with pytest.raises(UsageError, match=r"called emit_many\(None\), which takes a list"):
                collector.emit_many(None)
            collector.emit_each(self.spout.batches[metadata - 1])

    store = Store()
    run_batches(summing(Batches([[1, 2]], emitter=Emitter), store))
    assert store.by_txid == {1: 3}
