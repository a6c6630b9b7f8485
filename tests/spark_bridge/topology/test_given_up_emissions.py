"""An emission that was given up, such as after a write error, leaves nothing to the next one (CL-1, CL-3)."""

import asyncio
import errno
from typing import Any

import pytest

from engine.transactional import BatchCollector, TransactionalTopologyBuilder, TransactionAttempt
from spark_bridge.topology import local_emitters
from spark_bridge.topology.result_files import ResultWriter
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.test_on_spark import Passes
from tests.transactional.batch_topologies import Batches, BatchesEmitter

pytestmark = pytest.mark.asyncio

ROWS = 30_000


class Slow(BatchesEmitter):
    """Emits in many steps of the loop."""

    async def emit_batch(  # type: ignore[override]
        self, attempt: TransactionAttempt, metadata: int, collector: BatchCollector
    ) -> None:
        own = self.spout.batches[metadata - 1][self.context.task_index :: self.context.tasks]
        for begin in range(0, len(own), 1_000):
            collector.emit_many([(number,) for number in own[begin : begin + 1_000]])
            await collector.ready()
            await asyncio.sleep(0)


def topology(committed: Committed, *, has_bolt: bool) -> Any:
    builder = TransactionalTopologyBuilder("given-up", "numbers", Batches([list(range(ROWS)), [1, 2, 3]], emitter=Slow), 2)
    if has_bolt:
        builder.set_bolt("passes", Passes, 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("passes" if has_bolt else "numbers")
    return builder.build()


@pytest.mark.guarantee("CL-1", "CL-3")
@pytest.mark.parametrize("has_bolt", [True, False])
@pytest.mark.parametrize("fails_at", [1, 2, 3])
async def test_after_a_write_error_every_row_is_committed_once(monkeypatch: pytest.MonkeyPatch, fails_at: int, has_bolt: bool) -> None:
    writes = 0
    owner: Any = local_emitters if has_bolt else ResultWriter
    name = "append_blocks" if has_bolt else "write"
    original = getattr(owner, name)

    def write(*arguments: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(*arguments)

    monkeypatch.setattr(owner, name, write)
    monkeypatch.setattr("spark_bridge.topology.outbox.OUT_BYTES", 20_000)
    played = await play(lambda committed: topology(committed, has_bolt=has_bolt), jobs=LocalJobs())

    assert len(played.errors) == 1
    assert played.committed.rows() == sorted([(number,) for number in range(ROWS)] + [(1,), (2,), (3,)])
