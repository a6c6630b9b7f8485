"""The death of a stateless task that holds no row makes a recovery only while barriers are under way (EO-5)."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engine import TopologyBuilder, Tuple
from engine.testing import KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, PassOn, Told, once


class Slow(PassOn):
    """Takes 0.25 s for each row, so that the barrier waits behind rows."""

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.25)
        return super().execute(tup)


@pytest.mark.guarantee("EO-5")
@pytest.mark.parametrize(("secs", "recoveries"), [(1.15, 0), (1.95, 1), (2.45, 0), (2.95, 1)])
def test_a_stateless_task_that_dies_without_a_row_makes_a_recovery_only_while_barriers_are_under_way(secs: float, recoveries: int) -> None:
    """Rows come every 1.3 s. `p` gets the barrier from `numbers` at once, and from `slow` behind its three rows."""
    told, builder = Told(), TopologyBuilder("stateless")
    builder.set_spout("numbers", partial(Numbers, 9, burst=3, pace_secs=1.3))
    builder.set_bolt("slow", Slow).shuffle_grouping("numbers")
    builder.set_bolt("p", PassOn).shuffle_grouping("numbers").shuffle_grouping("slow")
    builder.set_bolt("count", told.create).shuffle_grouping("p")
    finished = run_topology(builder.build(), FAST, faults=[KillTask("p", at_secs=secs)])
    assert told.counts() == once(9) + once(9)
    assert finished.snapshot.components["numbers"].failed == 0
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == recoveries
