"""An instance in a child process has the context variables of its `prepare`, as in the run (ACK-17)."""

import asyncio
from typing import Any

import pytest

from engine import Config, TopologyBuilder
from engine.testing import Capture, Feeder, run_topology
from tests.processes.stateful_bolts import Owned


@pytest.mark.guarantee("ACK-17", "PR-1")
@pytest.mark.parametrize("is_process", [False, True], ids=["in the run", "in a child"])
def test_calls_and_hooks_see_what_prepare_has_set(*, is_process: bool) -> None:
    numbers, seen = Feeder("number"), Capture()
    builder = TopologyBuilder("owned", Config(state_checkpoint_interval_ms=100))
    builder.set_spout("numbers", numbers)
    builder.set_bolt("owned", Owned, processes=is_process).shuffle_grouping("numbers")
    builder.set_bolt("seen", seen).shuffle_grouping("owned")

    async def during(run: Any) -> None:
        await numbers.settled(numbers.feed((1,)))  # at the end of a checkpoint
        await asyncio.sleep(0.3)
        await numbers.settled(numbers.feed((2,)))
        numbers.close()

    finished = run_topology(builder.build(), during=during)
    assert finished.errors == ()
    assert seen.values == [("prepare", "prepare")] * 2
