"""Batches whose user code raises StopIteration or the like once: the batch is tried again, and nothing is lost."""

import asyncio
from typing import Any

import pytest

from engine import BasicBolt, ComponentError, Config, Tuple, run
from engine.errors import ENDS_OF_ITERATION
from engine.transactional import BatchBolt, BurstBolt
from tests.patience import PATIENCE_SECS
from tests.transactional.batch_topologies import Batches, BatchesCoordinator, BatchesEmitter, Store, Sums, run_batches, summing

pytestmark = [pytest.mark.guarantee("ACK-12"), pytest.mark.guarantee("TX-6")]
BATCHES = [[1, 2], [3, 4], [5, 6]]
TOTALS = {1: 3, 2: 7, 3: 11}


def once(kind: type[BaseException]) -> Any:
    left = [kind]

    def check(*, on: bool) -> None:
        if on and left:
            raise left.pop()

    return check


def plain_execute(check: Any) -> type[Any]:
    class Raises(Sums):
        def execute(self, tup: Tuple) -> None:
            check(on=tup[-1] == 3)
            super().execute(tup)

    return Raises


def awaited_execute(check: Any) -> type[Any]:
    class Raises(Sums):
        async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            check(on=tup[-1] == 3)
            super().execute(tup)

    return Raises


def prepare(check: Any) -> type[Any]:
    class Raises(Sums):
        def prepare(self) -> None:
            super().prepare()
            check(on=self.attempt.txid == 2)

    return Raises


def plain_finish(check: Any) -> type[Any]:
    class Raises(Sums):
        def finish_batch(self) -> None:
            check(on=self.attempt.txid == 2)
            super().finish_batch()

    return Raises


def awaited_finish(check: Any) -> type[Any]:
    class Raises(Sums):
        async def finish_batch(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            check(on=self.attempt.txid == 2)
            super().finish_batch()

    return Raises


def burst(check: Any) -> type[Any]:
    class Raises(BurstBolt, BatchBolt):
        output_fields = "sum"

        def prepare(self) -> None:
            self.sum = 0

        def execute_many(self, burst: Any) -> None:
            check(on=3 in burst["number"])
            self.sum += sum(burst["number"])

        def finish_batch(self) -> None:
            self.collector.emit((self.sum,))

    return Raises


def basic(check: Any) -> type[Any]:
    class Passes(BasicBolt):
        output_fields = "number"

        def execute(self, tup: Tuple) -> Any:
            check(on=tup[-1] == 3)
            return (tup[-1],)

    return Passes


def basic_in_threads(check: Any) -> type[Any]:
    class Passes(basic(check)):  # type: ignore[misc]
        threads = 2

    return Passes


def basic_awaited(check: Any) -> type[Any]:
    class Passes(BasicBolt):
        output_fields = "number"

        async def execute(self, tup: Tuple) -> Any:
            await asyncio.sleep(0)
            check(on=tup[-1] == 3)
            return (tup[-1],)

    return Passes


FORMS = [plain_execute, awaited_execute, prepare, plain_finish, awaited_finish, burst, basic, basic_in_threads, basic_awaited]


@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
@pytest.mark.parametrize("form", FORMS)
def test_the_batch_is_tried_again(form: Any, kind: type[BaseException]) -> None:
    store = Store()
    finished = run_batches(summing(Batches(BATCHES), store, sums=form(once(kind)), tasks=1))
    assert finished.state == "complete"
    assert kind.__name__ in "".join(error.text for error in finished.errors)
    assert store.by_txid == TOTALS


@pytest.mark.parametrize("kind", ENDS_OF_ITERATION)
@pytest.mark.parametrize("awaits", [False, True])
def test_an_emitter_that_raises_so_emits_its_batch_again(kind: type[BaseException], awaits: bool) -> None:
    check = once(kind)

    class Raises(BatchesEmitter):
        def emit_batch(self, attempt: Any, metadata: int, collector: Any) -> Any:
            return self.later(attempt, metadata, collector) if awaits else self.now(attempt, metadata, collector)

        def now(self, attempt: Any, metadata: int, collector: Any) -> None:
            check(on=attempt.txid == 2)
            super().emit_batch(attempt, metadata, collector)

        async def later(self, attempt: Any, metadata: int, collector: Any) -> None:
            await asyncio.sleep(0)
            self.now(attempt, metadata, collector)

    store = Store()
    finished = run_batches(summing(Batches(BATCHES, emitter=Raises), store))
    assert finished.state == "complete"
    assert store.by_txid == TOTALS


@pytest.mark.guarantee("ACK-13")
@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration])
def test_a_coordinator_that_forgets_its_end_ends_the_run_with_a_clear_error(kind: type[BaseException]) -> None:
    class Raises(BatchesCoordinator):
        def is_ready(self) -> bool:
            if self.previous == len(BATCHES):
                raise kind
            return True

    store = Store()
    with pytest.raises(ComponentError, match="raise SpoutExhausted"):
        run_batches(summing(Batches(BATCHES, coordinator=Raises), store))
    assert store.by_txid == TOTALS


def test_a_real_pool_of_a_batch_gets_its_slot_back() -> None:
    """In virtual time the loop itself guards futures from StopIteration, so this test runs on a real one."""
    store = Store()
    made = basic_in_threads(once(StopIteration))

    async def main() -> None:
        async with run(summing(Batches(BATCHES), store, sums=made, tasks=1), Config()) as running:
            await asyncio.wait_for(running.completed(), PATIENCE_SECS)

    asyncio.run(main())
    assert store.by_txid == TOTALS
