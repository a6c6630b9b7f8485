"""Errors of user code after a commit's ack are reported, and the commit counts (TX-11). Deaths of a coordinator are followed by pauses."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from engine import ComponentError, FatalError, SpoutExhausted
from engine.state import Ledger
from engine.state.memory import MemoryProvider
from tests.transactional.batch_topologies import (
    Batches,
    BatchesCoordinator,
    BatchesEmitter,
    Partitions,
    PartitionsCoordinator,
    Store,
    Stores,
    run_batches,
    summing,
)

pytestmark = pytest.mark.guarantee("TX-11")
DATA = {"a": [1, 2, 3, 4, 5], "b": [10, 20]}
SUMS = {1: 33, 2: 7, 3: 5}


def forgetting(forgotten: Any) -> Partitions:
    """Return a spout whose coordinator has this `forgotten`."""

    class Forgets(PartitionsCoordinator):
        def forgotten(self) -> Any:
            return forgotten(self)

    return Partitions(DATA, coordinator=Forgets)


def raises(error: BaseException) -> Any:
    def forgotten(coordinator: Any) -> Any:
        raise error

    return forgotten


async def _raises_later(coordinator: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("not now")


FAULTS: dict[str, Any] = {
    "raises": raises(ValueError("not now")),
    "is cancelled": raises(asyncio.CancelledError()),
    "raises later": _raises_later,
    "gives a text": lambda coordinator: "a",
    "gives nothing": lambda coordinator: None,
    "gives what is no name": lambda coordinator: [["a"]],
}


@pytest.mark.parametrize("on_error", ["restart", "fail"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("pending", [1, 3])
def test_a_forgotten_that_always_raises_loses_no_commit_and_no_coordinator(fault: str, on_error: str, pending: int) -> None:
    store = Store()
    config = {"on_error": on_error, "max_spout_pending": pending}
    finished = run_batches(summing(forgetting(FAULTS[fault]), store), config=config, limit_secs=10)
    assert store.by_txid == SUMS
    assert store.txids == [1, 2, 3]
    assert {attempt.epoch for attempt, _ in store.commits} == {1}
    assert finished.errors
    assert all("the batch stays committed" in report.next_step for report in finished.errors)


def test_a_forgotten_that_never_returns_does_not_delay_batches() -> None:
    async def forgotten(coordinator: Any) -> Any:
        await asyncio.Event().wait()

    store = Store()
    finished = run_batches(summing(forgetting(forgotten), store), limit_secs=10)
    assert store.by_txid == SUMS
    assert finished.secs < 1


def test_a_forgotten_may_be_async() -> None:
    seen: list[list[Any]] = []

    class Forgets(PartitionsCoordinator):
        def is_ready(self) -> bool:
            seen.append(sorted(self.positions))
            return super().is_ready()

        async def forgotten(self) -> list[str]:
            return ["b"]

        def partitions(self) -> list[str]:
            return ["b", "a"] if not self.spout.new else ["a"]

    store = Store()
    run_batches(summing(Partitions({"a": [1] * 10, "b": []}, coordinator=Forgets), store), limit_secs=10)
    assert seen[-1] == ["a"]


def test_a_fatal_error_of_forgotten_ends_the_run_after_the_commit_is_durable(tmp_path: Path) -> None:
    store, config = Store(), {"state_provider": f"sqlite:///{tmp_path / 'x.db'}"}
    with pytest.raises(ComponentError, match="for good"):
        run_batches(summing(forgetting(raises(FatalError("for good"))), store), config=config, limit_secs=10)
    assert store.txids == [1]
    run_batches(summing(forgetting(lambda coordinator: ()), store), config=config)
    assert store.txids == [1, 2, 3]
    assert store.by_txid == SUMS


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cleanup_before_that_raises_does_not_fail_a_batch(is_async: bool) -> None:
    class Plain(BatchesEmitter):
        def cleanup_before(self, txid: int) -> Any:
            raise OSError(f"cannot clean up before {txid}")

    class Later(BatchesEmitter):
        async def cleanup_before(self, txid: int) -> None:
            await asyncio.sleep(0)
            raise OSError(f"cannot clean up before {txid}")

    store, spout = Store(), Batches([[1], [2], [3]], emitter=Later if is_async else Plain)
    finished = run_batches(summing(spout, store, emitters=2), limit_secs=10)
    assert store.by_txid == {1: 1, 2: 2, 3: 3}
    assert [attempt.txid for attempt in spout.emitted] == [1, 2, 3]
    assert "OSError: cannot clean up before 2" in {report.text for report in finished.errors}


def test_a_coordinator_that_dies_repeatedly_without_a_commit_ends_the_run() -> None:
    opened: list[int] = []

    class Dies(BatchesCoordinator):
        def open(self) -> None:
            opened.append(1)

        async def is_ready(self) -> bool:  # type: ignore[override]
            if self.previous == 1:
                await asyncio.sleep(0.05)  # batch 1 is processed, and not committed
                raise ValueError("no second batch")
            return super().is_ready()

    class Slow(Stores):
        async def finish_batch(self) -> None:  # type: ignore[override]
            await asyncio.sleep(1)
            super().finish_batch()

    store = Store()
    config = {"max_spout_pending": 2, "on_error": "restart"}
    with pytest.raises(ComponentError, match="no second batch"):
        run_batches(summing(Batches([[1], [2]], coordinator=Dies), store, stores=lambda: Slow(store)), config=config, limit_secs=600)
    assert len(opened) == 6


def test_a_coordinator_that_dies_after_each_commit_continues_after_growing_pauses() -> None:
    opened: list[float] = []

    class Dies(BatchesCoordinator):
        def open(self) -> None:
            opened.append(self.context.clock.now())
            self.asked = 0

        def is_ready(self) -> bool:
            self.asked += 1
            if self.asked > 1 and (self.previous or 0) < len(self.spout.batches):
                raise ValueError("one batch is enough")
            return super().is_ready()

    store = Store()
    run_batches(summing(Batches([[number] for number in range(1, 13)], coordinator=Dies), store), limit_secs=600)
    assert store.by_txid == {number: number for number in range(1, 13)}
    pauses = [after - before for before, after in itertools.pairwise(opened)]
    assert pauses[0] < 0.05
    assert pauses[1:6] == pytest.approx([1, 2, 4, 8, 16], abs=0.05)
    assert pauses[6:] == pytest.approx([30] * len(pauses[6:]), abs=0.05)


def test_a_coordinator_that_dies_after_a_long_life_is_replaced_at_once() -> None:
    opened: list[float] = []
    died: list[float] = []

    class Dies(BatchesCoordinator):
        def open(self) -> None:
            opened.append(self.context.clock.now())

        def is_ready(self) -> bool:
            now = self.context.clock.now()
            if len(opened) > 3:
                raise SpoutExhausted
            if now - opened[-1] > 11:
                died.append(now)
                raise ValueError("enough")
            return False

    run_batches(summing(Batches([], coordinator=Dies), Store()), limit_secs=600)
    assert opened[1:] == pytest.approx(died, abs=0.02)


class BadWrites(MemoryProvider):
    def ledger(self, name: str) -> Ledger:
        ledger = super().ledger(name)

        async def write(changes: Any) -> None:
            raise ValueError("a provider's own mistake")

        ledger.write = write  # type: ignore[method-assign]
        return ledger


@pytest.mark.parametrize("on_error", ["restart", "fail"])
def test_a_provider_that_raises_a_foreign_error_ends_the_run(on_error: str) -> None:
    config = {"on_error": on_error, "state_provider": "tests.transactional.test_behind_commits:BadWrites"}
    with pytest.raises(ComponentError, match="its transactions cannot be stored: ValueError: a provider's own mistake"):
        run_batches(summing(Batches([[1], [2]]), Store()), config=config, limit_secs=100)
