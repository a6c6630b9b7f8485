"""A task that dies while the record of a checkpoint is being written is initialised again, whichever record that is (CP-3, CP-4)."""

import asyncio
from collections.abc import Mapping

import pytest

from engine import Config, TopologyBuilder
from engine.state import Ledger
from engine.state.memory import MemoryLedger, MemoryProvider
from engine.testing import KillTask, run_topology
from tests.checkpoint.model import Witness
from tests.checkpoint.world import Remember, ReplayingSpout, Source

SAVE_SECS = 1.0


class SlowLedger(MemoryLedger):
    """Takes a second for each write."""

    async def write(self, changes: Mapping[str, object]) -> None:
        await asyncio.sleep(SAVE_SECS)
        await super().write(changes)


class SlowProvider(MemoryProvider):
    """memory:// with slow ledgers."""

    def __init__(self) -> None:
        super().__init__()
        self._slow = SlowLedger()

    def ledger(self, name: str) -> Ledger:
        return self._slow


@pytest.mark.guarantee("CP-3", "CP-4")
@pytest.mark.parametrize("at_secs", [0.5 + 0.25 * step for step in range(40)])
def test_a_task_that_dies_during_a_save_goes_on(at_secs: float) -> None:
    source, witness = Source("s", [f"s:{number}" for number in range(20)]), Witness()
    builder = TopologyBuilder("lost")
    builder.set_spout("source", lambda: ReplayingSpout(source), max_spout_pending=3)
    builder.set_bolt("keep", lambda: Remember(witness)).fields_grouping("source", "key")
    config = Config(state_provider="tests.checkpoint.test_lost_tasks:SlowProvider", state_checkpoint_interval_ms=100)
    finished = run_topology(builder.build(), config, faults=[KillTask("keep", at_secs=at_secs)], limit_secs=300)

    assert finished.state == "complete"
    assert set(source.acked) == {f"s:{number}" for number in range(20)}
    assert set(witness.counted("keep")) == set(source.acked)
