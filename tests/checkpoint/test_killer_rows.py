"""Rows that kill the task of a bolt go alone, and are given up after as many passes as any other bad row (EO-6)."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.testing import run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told, once


class Dies(Bolt):
    """Works on rows in the background. A task dies of each bad row, and takes along those of before and behind."""

    output_fields = "n"
    bad: set[int]

    def execute(self, tup: Tuple) -> None:
        self.context.create_task(self._work(tup))

    async def _work(self, tup: Tuple) -> None:
        await asyncio.sleep(0.01)
        if tup["n"] in self.bad:
            raise MemoryError("too big")
        self.collector.emit((tup["n"],), tup)
        self.collector.ack(tup)


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("bad", [{25}, {25, 27, 29}, {21, 25, 27, 29, 33, 38}])
def test_many_rows_that_kill_a_stateless_task_need_as_many_passes_as_one(bad: set[int], tasks: int) -> None:
    told, builder = Told(), TopologyBuilder("killers")
    bolt = type("DiesOf", (Dies,), {"bad": bad})
    builder.set_spout("numbers", partial(Numbers, 60, burst=20, pace_secs=0.3))
    builder.set_bolt("p", bolt, parallelism=tasks).shuffle_grouping("numbers")
    builder.set_bolt("count", told.create).shuffle_grouping("p")
    finished = run_topology(builder.build(), FAST.replace(on_error="restart", max_task_restarts=1000))
    assert told.counts() == once(60) - Counter(bad)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries == 4  # after one pass that makes the rows suspects, and three in which they go alone
