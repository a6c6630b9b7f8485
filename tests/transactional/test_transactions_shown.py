"""The snapshot shows the transactions of a run: counts, and the open txids by phase."""

import asyncio
from typing import Any

from engine import Committer, Config
from engine.testing import run_topology
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder, TransactionsEntry, TransactionsSnapshot


class CommitsTwo(Committer):
    """Commits two batches, and never returns from the third."""

    def execute(self, tup: Any) -> None:
        """Ignore the rows."""

    async def finish_batch(self) -> None:
        if self.attempt.txid == 3:
            await asyncio.Event().wait()


def test_the_snapshot_has_the_open_txids_by_phase() -> None:
    builder = TransactionalTopologyBuilder("kept", "rows", MemoryTransactionalSpout([(number,) for number in range(50)], "number", 3))
    builder.set_bolt("keep", CommitsTwo).global_grouping("rows")
    finished = run_topology(builder.build(), Config(max_spout_pending=4, message_timeout_secs=1000), until=2.0)
    assert finished.snapshot.entry(TransactionsEntry).value == TransactionsSnapshot(
        component_id="rows/coordinator", committed_txid=2, committed=2, failed=0, open_txids={"committing": (3,), "processed": (4, 5, 6)}
    )
    assert finished.snapshot.to_dict()["transactions"]["open_txids"] == {"committing": [3], "processed": [4, 5, 6]}
