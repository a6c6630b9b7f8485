"""A store that refuses a write for good, such as on a full disk: the task dies of it, so that everyone sees the reason (CP-4, EO-5)."""

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from engine import Config, TopologyBuilder
from engine.errors import StateError
from engine.testing import run_topology
from tests.checkpoint.scenarios.kit import Numbers, Told, once
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowLookupStore, SlowProvider
from tests.checkpoint.test_committers import Target, Writing

ROWS = 200


class FullStore(SlowLookupStore):
    """Refuses a number of writes, after the first ones."""

    left = 0

    async def stage(self, txid: int, round_: int, blobs: Any) -> None:
        if txid > 2 and FullStore.left:
            FullStore.left -= 1
            raise StateError("the disk is full")
        await super().stage(txid, round_, blobs)


class FullDisk(SlowProvider):
    """A provider of such stores."""

    async def store(self, component_id: str, task_index: int, slots: range) -> Any:
        return FullStore(self._disk, self._conditions, component_id, task_index, slots)


@pytest.mark.guarantee("CP-4", "EO-5")
@pytest.mark.parametrize("kind", ["state", "committer"])  # an instance that a rollback replaces, and one that it keeps
def test_a_task_that_cannot_write_dies_of_it_and_goes_on_when_it_can(kind: str) -> None:
    FullStore.left = 3
    IN_USE["full"] = FullDisk(Disk(), Conditions(random.Random(1)), resident=False)
    target, told, builder = Target(), Told(), TopologyBuilder("full", Config(state_provider="tests.checkpoint.slow_store:provider?full"))
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    if kind == "committer":
        builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("numbers")
    else:
        builder.set_bolt("out", told.create).shuffle_grouping("numbers")
    finished = run_topology(builder.build())
    assert [report.text for report in finished.errors] == ["StateError: the disk is full"] * 3
    assert (Counter(target.rows) if kind == "committer" else told.counts("out")) == once(ROWS)
