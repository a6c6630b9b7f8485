"""An operator restarts tasks of a transactional topology: no batch is lost, and the snapshot names failed batches (SV-9, TX-5)."""

import asyncio
from typing import Any

import pytest

from engine import Run
from engine.transactional import FailedBatch
from engine.transactional.feature import coordinator_id
from tests.transactional.batch_topologies import Batches, Store, Stores, Sums, run_batches, summing

FIVE = [[1], [2], [3], [4], [5]]
COORDINATOR = coordinator_id("numbers")


class Slow(Sums):
    async def finish_batch(self) -> None:
        await asyncio.sleep(0.004)
        super().finish_batch()


class Commits(Stores):
    async def finish_batch(self) -> None:
        await asyncio.sleep(0.003)
        super().finish_batch()


@pytest.mark.guarantee("SV-9", "TX-5")
@pytest.mark.parametrize("component", ["numbers", "sums", "store", COORDINATOR])
@pytest.mark.parametrize("at_secs", [0.0, 0.005, 0.011, 0.017])
def test_any_task_may_be_restarted_at_any_time(component: str, at_secs: float) -> None:
    async def restart(run: Run) -> None:
        await asyncio.sleep(at_secs)
        for task in run.task_ids(component):
            run.restart_task(task)

    store = Store()
    topology = summing(Batches(FIVE), store, emitters=2, sums=Slow, stores=lambda: Commits(store))
    finished = run_batches(topology, during=restart, config={"max_spout_pending": 3, "on_error": "stop"})
    assert store.by_txid == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert sorted(store.txids) == store.txids
    assert {task.restarts for task in finished.snapshot.components[component].tasks} == {1}


@pytest.mark.guarantee("SV-5")
def test_a_failed_batch_is_in_the_snapshot() -> None:
    class FailsOnce(Sums):
        failed = False

        def finish_batch(self) -> None:
            if self.attempt.txid == 2 and not FailsOnce.failed:
                FailsOnce.failed = True
                raise FailedBatch("on purpose")
            super().finish_batch()

    finished = run_batches(summing(Batches(FIVE), Store(), sums=FailsOnce, tasks=1), config={"max_spout_pending": 1})
    [failure] = finished.snapshot.failures
    assert (failure.component_id, failure.message_id) == (COORDINATOR, "batch 2 (attempt 1.2), processing")
    assert (failure.reason, failure.failed_component) == ("failed", "sums")


def test_a_batch_is_traced_by_its_text() -> None:
    traces: list[Any] = []

    async def trace(run: Run) -> None:
        traces.append(run.trace_message(COORDINATOR, "batch 3 (attempt 1.3), commit"))
        await run.completed()

    run_batches(summing(Batches(FIVE), Store(), tasks=1), during=trace, config={"max_spout_pending": 1})
    assert traces[0].state == "acked"
    assert "by store[" in traces[0].text
