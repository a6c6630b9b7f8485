"""Usage errors in bolts and spouts have clear texts, and nothing of their batch is committed."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, Fields, SpoutExhausted, Tuple
from engine.errors import ComponentError, UsageError
from engine.testing import Finished
from engine.transactional import BatchBolt, BatchCollector, SpoutCoordinator, SpoutEmitter, TransactionalSpout, TransactionAttempt
from tests.transactional.batch_topologies import (
    Batches,
    BatchesCoordinator,
    OpaquePartitions,
    Partitions,
    Store,
    Sums,
    run_batches,
    summing,
)


def first_error(sums: Any, *, spout: Any = None) -> str:
    """Return the first error that a run reports with a bolt that makes one mistake."""
    store = Store()
    finished: Finished = run_batches(summing(spout or Batches([[1], [2]]), store, sums=sums, tasks=1), until=0.05)
    return finished.errors[0].text


def test_the_error_for_an_emit_with_the_attempt_in_front_says_to_remove_it() -> None:
    class Wrong(Sums):
        def finish_batch(self) -> None:
            self.collector.emit((self.attempt, self.sum))

    text = first_error(Wrong)
    assert "2 values, but the stream has 1 field (sum)" in text
    assert "The collector puts the attempt in front" in text


def test_wrong_values_and_streams_are_usage_errors() -> None:
    class NotValues(Sums):
        def finish_batch(self) -> None:
            self.collector.emit(self.sum)  # type: ignore[arg-type]

    class NoStream(Sums):
        def finish_batch(self) -> None:
            self.collector.emit((self.sum,), "late")

    assert "not a tuple of values" in first_error(NotValues)
    assert "stream 'late', which it does not declare" in first_error(NoStream)


def test_an_emit_after_the_batch_is_finished_is_refused() -> None:
    errors: list[str] = []

    class Late(Sums):
        def finish_batch(self) -> None:
            super().finish_batch()
            self.context.create_task(self.later())

        async def later(self) -> None:
            await asyncio.sleep(0)
            try:
                self.collector.emit((1,))
            except Exception as error:
                errors.append(str(error))

    store = Store()
    run_batches(summing(Batches([[1], [2]]), store, sums=Late, tasks=1), until=0.05)
    assert len(errors) == 2
    assert "finished, failed or superseded here" in errors[0]
    assert store.by_txid == {1: 1, 2: 2}


def test_an_emitter_that_emits_after_its_method_returned_is_refused() -> None:
    errors: list[str] = []

    class Late(Batches):
        def emitter(self) -> Any:
            emitter = super().emitter()
            emit = emitter.emit_batch

            async def later(collector: BatchCollector) -> None:
                await asyncio.sleep(0)
                try:
                    collector.emit((1,))
                except UsageError as error:
                    errors.append(error.message)

            def emit_batch(attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:
                emit(attempt, metadata, collector)
                emitter.context.create_task(later(collector))

            emitter.emit_batch = emit_batch  # type: ignore[method-assign]
            return emitter

    store = Store()
    run_batches(summing(Late([[1], [2]]), store))
    assert [error.partition(" after ")[2] for error in errors] == ["its emission had returned"] * 2
    assert store.by_txid == {1: 1, 2: 2}


def test_a_direct_emit_after_the_batch_is_finished_is_refused() -> None:
    errors: list[str] = []

    class Late(Sums):
        output_fields = {"default": "sum", "direct": Fields("sum", direct=True)}

        def finish_batch(self) -> None:
            super().finish_batch()
            self.context.create_task(self.later())

        async def later(self) -> None:
            await asyncio.sleep(0)
            try:
                self.collector.emit_direct(1, (1,), "direct")
            except UsageError as error:
                errors.append(error.message)

    run_batches(summing(Batches([[1], [2]]), Store(), sums=Late, tasks=1), until=0.05)
    assert [error.partition("which is ")[2] for error in errors] == ["finished, failed or superseded here"] * 2


def test_wrong_results_of_execute_and_finish_batch_are_usage_errors() -> None:
    class Returns(Sums):
        def execute(self, tup: Tuple) -> Any:
            return 7

    class Yields(Sums):
        def finish_batch(self) -> Any:
            yield (self.sum,)

    assert "execute() returned 7 (int)" in first_error(Returns)
    assert "finish_batch() returned <generator" in first_error(Yields)


def test_a_basic_bolt_that_returns_a_wrong_type_is_a_usage_error() -> None:
    class Text(BasicBolt):
        output_fields = "sum"

        def execute(self, tup: Tuple) -> Any:
            return "text"

    assert "execute() returned 'text'" in first_error(Text)


class _Spout(TransactionalSpout[Any]):
    output_fields = "number"

    def __init__(self, *, ready: Any = True, metadata: Any = 1) -> None:
        self.ready, self.metadata = ready, metadata

    def coordinator(self) -> SpoutCoordinator[Any]:
        spout = self

        class Coordinates(SpoutCoordinator[Any]):
            def is_ready(self) -> bool:
                if self.previous is not None:
                    raise SpoutExhausted
                return spout.ready  # type: ignore[no-any-return]

            def initialize_transaction(self, txid: int, previous: Any) -> Any:
                return spout.metadata

        return Coordinates()

    def emitter(self) -> SpoutEmitter[Any]:
        class Emits(SpoutEmitter[Any]):
            def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
                collector.emit((1,))

        return Emits()


@pytest.mark.guarantee("TX-7")
def test_metadata_that_cannot_be_stored_ends_the_run() -> None:
    with pytest.raises(ComponentError, match=r"Coordinates.initialize_transaction\(\) returned metadata that cannot be stored: .*object"):
        run_batches(summing(_Spout(metadata=object()), Store()))

    class Odd(Partitions):
        def emitter(self) -> Any:
            emitter = super().emitter()
            emitter.emit_partition_batch_new = lambda attempt, collector, partition, previous: object()  # type: ignore[method-assign]
            return emitter

    with pytest.raises(ComponentError, match="metadata that cannot be stored"):
        run_batches(summing(Odd({"a": [1]}), Store()))


def test_results_of_is_ready_and_partitions_are_validated() -> None:
    store = Store()
    with pytest.raises(ComponentError, match=r"is_ready\(\) returned 'yes'"):
        run_batches(summing(_Spout(ready="yes"), store))

    class Twice(Partitions):
        def coordinator(self) -> Any:
            coordinator = super().coordinator()
            coordinator.partitions = lambda: ["a", "a"]  # type: ignore[method-assign]
            return coordinator

    with pytest.raises(ComponentError, match="the names must differ"):
        run_batches(summing(Twice({"a": [1]}), store))


def test_a_coordinator_or_emitter_of_another_kind_is_refused() -> None:
    class Mixed(OpaquePartitions):
        def coordinator(self) -> Any:
            return BatchesCoordinator(Batches([]))

    with pytest.raises(ComponentError, match=r"Mixed.coordinator\(\) returned"):
        run_batches(summing(Mixed({"a": [1]}, lambda attempt, partition: 1), Store()))


@pytest.mark.parametrize("pending", [1, 3])
@pytest.mark.parametrize("is_async", [False, True])
def test_initialize_transaction_may_end_the_source(pending: int, is_async: bool) -> None:
    class Coordinates(BatchesCoordinator):
        def is_ready(self) -> bool:
            return True

        def initialize_transaction(self, txid: int, previous: int | None) -> Any:
            return self.later(txid) if is_async else self.now(txid)

        async def later(self, txid: int) -> int:
            await asyncio.sleep(0.001)
            return self.now(txid)

        def now(self, txid: int) -> int:
            if txid > 3:
                raise SpoutExhausted
            return txid

    store = Store()
    finished = run_batches(summing(Batches([[1], [2], [3]], coordinator=Coordinates), store), config={"max_spout_pending": pending})
    assert store.by_txid == {1: 1, 2: 2, 3: 3}
    assert finished.errors == ()


def test_a_batch_bolt_needs_its_two_methods() -> None:
    class Half(BatchBolt):
        def execute(self, tup: Tuple) -> None: ...

    from engine import TopologyError
    from engine.transactional import TransactionalTopologyBuilder

    builder = TransactionalTopologyBuilder("t", "numbers", Batches([[1]]))
    builder.set_bolt("half", Half).shuffle_grouping("numbers")
    with pytest.raises(TopologyError, match="finish_batch"):
        builder.build()
