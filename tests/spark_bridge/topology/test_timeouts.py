"""Calls that never return are bounded on Spark, and calls that only take long are not disturbed (CL-1, CL-3)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine import Tuple
from engine.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.test_failures import EXPECTED, NUMBERS, Adds, numbers

pytestmark = pytest.mark.asyncio


class Hangs(BatchBolt):
    """Waits for ever in the first attempt."""

    output_fields = "number"

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    async def execute(self, tup: Tuple) -> None:
        if tup["number"] == 13 and not self.marker.exists():
            self.marker.touch()
            await asyncio.Event().wait()
        self.collector.emit((tup["number"],))

    def finish_batch(self) -> None: ...


@pytest.mark.guarantee("CL-3")
async def test_a_call_that_hangs_fails_its_attempt_after_the_timeout(tmp_path: Path) -> None:
    marker = tmp_path / "hung"
    played = await play(lambda committed: numbers(committed, lambda: Hangs(marker)), jobs=LocalJobs(), batch_timeout_secs=1)
    assert marker.exists()
    assert played.committed.rows() == EXPECTED


class Slow(BatchBolt):
    """Each call returns in time, and nothing is emitted before the end."""

    output_fields = "number"

    def __init__(self) -> None:
        self.came: list[tuple[int]] = []

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(0.1)
        self.came.append((tup["number"],))

    def finish_batch(self) -> None:
        self.collector.emit_many(self.came)


@pytest.mark.guarantee("CL-1")
async def test_a_slow_bolt_that_makes_progress_is_no_timeout() -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("slow", "numbers", MemoryTransactionalSpout(NUMBERS, "number", take=40))
        builder.set_bolt("slow", Slow).fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).global_grouping("slow")
        return builder.build()

    played = await play(build, jobs=LocalJobs(), batch_timeout_secs=1)
    assert played.committed.rows() == NUMBERS
    assert played.snapshot.transactions.failed == 0


class HangingSpout(MemoryTransactionalSpout):
    """Plans batches. One call of its planner never returns, once."""

    def __init__(self, method: str) -> None:
        super().__init__(NUMBERS, "number", take=10)
        self.hangs_in = [method]

    def emitter(self) -> Any:
        spout, plain = self, super().emitter()

        async def wait(name: str) -> None:
            if name in spout.hangs_in:
                spout.hangs_in.remove(name)
                await asyncio.Event().wait()

        class Hanging(type(plain)):  # type: ignore[misc]
            async def commit(self, attempt: Any) -> None:
                await wait("commit")

            async def cleanup_before(self, txid: int) -> None:
                await wait("cleanup_before")

        return Hanging(spout.data, spout.take)


@pytest.mark.guarantee("CL-1")
@pytest.mark.parametrize("method", ["commit", "cleanup_before"])
async def test_a_call_of_a_planner_that_hangs_is_bounded(method: str) -> None:
    def build(committed: Committed) -> Any:
        builder = TransactionalTopologyBuilder("hangs", "numbers", HangingSpout(method))
        builder.set_bolt("after", Adds).fields_grouping("numbers", "number")
        builder.set_committer("keep", committed.committer).global_grouping("after")
        return builder.build()

    played = await play(build, jobs=LocalJobs(), batch_timeout_secs=1)
    assert played.committed.rows() == EXPECTED
    assert f"{method}() did not return within 1 s" in played.errors[0]
