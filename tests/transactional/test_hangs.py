"""Calls that never return cost their batch `batch_timeout_secs`. Slow calls and many calls do not (TX-5)."""

import asyncio
import threading
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.testing import run_topology_async
from engine.transactional import BatchCollector, OpaqueEmitter, TransactionAttempt
from tests.patience import PATIENCE_SECS
from tests.transactional.batch_topologies import Batches, BatchesEmitter, OpaquePartitions, Store, Stores, Sums, run_batches, summing

pytestmark = pytest.mark.guarantee("TX-5", "TX-3")
SHORT = {"batch_timeout_secs": 5}


class HangsOnce:
    """Waits for ever the first time."""

    def __init__(self) -> None:
        self.hangs = True

    async def wait(self) -> None:
        if self.hangs:
            self.hangs = False
            await asyncio.Event().wait()


@pytest.mark.parametrize("method", ["emit_batch", "commit", "cleanup_before"])
@pytest.mark.parametrize("pending", [1, 3])
def test_an_emitter_whose_method_never_returns_is_called_again(method: str, pending: int) -> None:
    once = HangsOnce()

    class Emits(BatchesEmitter):
        async def emit_batch(self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector) -> None:  # type: ignore[override]
            if method == "emit_batch":
                await once.wait()
            super().emit_batch(attempt, metadata, collector)

        async def commit(self, attempt: TransactionAttempt) -> None:
            if method == "commit":
                await once.wait()

        async def cleanup_before(self, txid: int) -> None:
            if method == "cleanup_before":
                await once.wait()

    store = Store()
    finished = run_batches(
        summing(Batches([[1], [2], [3], [4], [5]], emitter=Emits), store, emitters=2),
        config={"max_spout_pending": pending, **SHORT},
        limit_secs=60,
    )
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert 5 <= finished.secs < 7
    assert any("did not return within 5 s (batch_timeout_secs)" in report.text for report in finished.errors)


def test_an_emitter_that_hung_continues_from_its_positions() -> None:
    once = HangsOnce()

    class Emits(OpaqueEmitter[int]):
        async def emit_partition_batch(
            self, attempt: TransactionAttempt, collector: BatchCollector, partition: Any, previous: int | None
        ) -> int:
            start = previous or 0
            collector.emit_many([(partition, number) for number in spout.data[partition][start : start + 2]])
            if attempt.txid == 2 and partition == "b":
                await once.wait()
            return min(start + 2, len(spout.data[partition]))

    class Hangs(OpaquePartitions):
        def coordinator(self) -> Any:
            coordinator = super().coordinator()
            coordinator.is_ready = lambda: len(store.commits) < 5  # type: ignore[method-assign]
            return coordinator

        def emitter(self) -> Any:
            return Emits()

    store = Store()
    spout = Hangs({"a": list(range(6)), "b": list(range(10, 16))}, lambda attempt, partition: 2)
    run_batches(summing(spout, store, emitters=2), config={"max_spout_pending": 3, **SHORT}, until=30)
    assert sum(store.by_txid.values()) == sum(range(6)) + sum(range(10, 16))


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("pending", [1, 3])
def test_a_basic_bolt_whose_execute_never_returns_processes_the_next_attempt(width: int, pending: int) -> None:
    once = HangsOnce()

    class Hangs(BasicBolt):
        output_fields = "number"
        concurrency = width

        async def execute(self, tup: Tuple) -> tuple[int]:
            await once.wait()
            return (tup["number"],)

    store = Store()
    finished = run_batches(
        summing(Batches([[1], [2], [3]]), store, sums=Hangs), config={"max_spout_pending": pending, **SHORT}, limit_secs=60
    )
    assert store.by_txid == {1: 1, 2: 2, 3: 3}
    assert "execute() did not return within 5 s" in finished.errors[0].text


def test_a_timeout_error_of_user_code_is_reported_as_its_error() -> None:
    raised: list[int] = []

    class Gives(BasicBolt):
        output_fields = "number"

        async def execute(self, tup: Tuple) -> tuple[int]:
            if not raised:
                raised.append(1)
                raise TimeoutError("mine")
            return (tup["number"],)

    store = Store()
    finished = run_batches(summing(Batches([[1]]), store, sums=Gives), limit_secs=60)
    assert store.by_txid == {1: 1}
    assert finished.errors[0].text == "TimeoutError: mine"


@pytest.mark.parametrize("late", [False, True], ids=["processing", "commit"])
@pytest.mark.parametrize("room", [16, 32768])
def test_a_batch_whose_calls_return_does_not_time_out_however_long_it_takes(late: bool, room: int) -> None:
    class Slow:
        async def execute(self, tup: Tuple) -> None:
            await asyncio.sleep(0.1)
            super().execute(tup)  # type: ignore[misc]

    class SlowSums(Slow, Sums): ...  # type: ignore[misc]

    class SlowStores(Slow, Stores): ...  # type: ignore[misc]

    store = Store()
    kinds: Any = {"stores": lambda: SlowStores(store)} if late else {"sums": SlowSums}
    topology = summing(Batches([list(range(60)), [1]]), store, tasks=1, **({"sums": _Each} | kinds))
    config = {"batch_timeout_secs": 1, "message_timeout_secs": 1, "executor_receive_buffer_size": room, "max_spout_pending": 2}
    finished = run_batches(topology, config=config, limit_secs=100)
    assert store.commits[0][0].number == 1
    assert store.by_txid == {1: sum(range(60)), 2: 1}
    assert finished.secs == pytest.approx(6, abs=0.5)


class _Each(BasicBolt):
    output_fields = "number"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["number"],)


def test_a_batch_whose_call_never_returns_fails_although_the_mailbox_is_full() -> None:
    once = HangsOnce()

    class Hangs(Sums):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await once.wait()
            super().execute(tup)

    store = Store()
    topology = summing(Batches([list(range(100)), [1]]), store, sums=Hangs, tasks=1)
    run_batches(topology, config={"executor_receive_buffer_size": 16, "max_spout_pending": 2, **SHORT}, limit_secs=60)
    assert store.by_txid == {1: sum(range(100)), 2: 1}


def test_a_thread_that_never_returns_does_not_block_the_others() -> None:
    stuck = threading.Event()
    entered: list[int] = []

    class Blocks(BasicBolt):
        output_fields = "number"
        threads = 2

        def execute(self, tup: Tuple) -> tuple[int]:
            if not entered:
                entered.append(1)
                stuck.wait()
            return (tup["number"],)

    store = Store()

    async def play_in_real_time() -> None:
        async with asyncio.timeout(PATIENCE_SECS):
            topology = summing(Batches([[1], [2]]), store, sums=Blocks, tasks=1)
            await run_topology_async(topology, Config(batch_timeout_secs=0.2))

    try:
        asyncio.run(play_in_real_time())
    finally:
        stuck.set()
    assert store.by_txid == {1: 1, 2: 2}
