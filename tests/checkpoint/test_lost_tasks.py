"""A task that dies during the save of a checkpoint's record is initialised again, in every phase (CP-3, CP-4)."""

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from engine import Config, TopologyBuilder
from engine.state import Ledger
from engine.state.memory import MemoryLedger, MemoryProvider
from engine.testing import KillTask, run_topology
from tests.checkpoint.model import Witness
from tests.checkpoint.world import Remember, ReplayingSpout, Source

SAVE_SECS = 1.0
MOMENTS = [1.25 + 0.25 * step for step in range(40)]
"""Seconds. The first save is before the run begins."""


class SlowLedger(MemoryLedger):
    """Takes a second for each write, and records the times and the phases."""

    saves: ClassVar[list[tuple[object, float, float]]] = []

    async def write(self, changes: Mapping[str, object]) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(SAVE_SECS)
        await super().write(changes)
        record: Any = changes.get("record")
        self.saves.append((record[0] if record else None, began, asyncio.get_running_loop().time()))


class SlowProvider(MemoryProvider):
    """memory:// with slow ledgers."""

    def __init__(self) -> None:
        super().__init__()
        self._slow = SlowLedger()

    def ledger(self, name: str) -> Ledger:
        return self._slow


def killed_at(at_secs: float) -> tuple[Source, Witness, list[object]]:
    """Run with a task that dies at `at_secs`. Return the source, the witness, and the phases saved at that time."""
    SlowLedger.saves.clear()
    source, witness = Source("s", [f"s:{number}" for number in range(20)]), Witness()
    builder = TopologyBuilder("lost")
    builder.set_spout("source", lambda: ReplayingSpout(source), max_spout_pending=3)
    builder.set_bolt("keep", lambda: Remember(witness)).fields_grouping("source", "key")
    config = Config(state_provider="tests.checkpoint.test_lost_tasks:SlowProvider", state_checkpoint_interval_ms=100)
    finished = run_topology(builder.build(), config, faults=[KillTask("keep", at_secs=at_secs)], limit_secs=300)
    assert finished.state == "complete"
    [strike] = finished.strikes
    return source, witness, [phase for phase, began, ended in SlowLedger.saves if began + 0.1 < strike.secs < ended - 0.1]


@pytest.mark.guarantee("CP-3", "CP-4")
@pytest.mark.parametrize("at_secs", MOMENTS)
def test_a_task_that_dies_during_a_save_goes_on(at_secs: float) -> None:
    source, witness, _ = killed_at(at_secs)
    assert set(source.acked) == {f"s:{number}" for number in range(20)}
    assert set(witness.counted("keep")) == set(source.acked)


@pytest.mark.guarantee("CP-4", "CP-5")
def test_a_prepared_checkpoint_survives_the_death_of_its_task() -> None:
    """The task dies while COMMITTING is saved. Every tuple in flight was prepared, so none fails."""
    runs = [killed_at(at_secs) for at_secs in MOMENTS]
    replayed = {str(phase): source.replayed for source, _, phases in runs for phase in phases}
    assert set(replayed) >= {"committing", "preparing"}
    assert not [source.replayed for source, _, phases in runs if phases == ["committing"] and source.replayed]
    assert [source for source, _, phases in runs if phases == ["preparing"] and source.replayed], "an unprepared tuple fails"
