"""Scenario 5 with flow control: records that were read ahead, and packs that a bolt has failed.

Behind each scenario stands its mutant, the simpler rule, as a patch of the engine.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from engine import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings, TopologyBuilder
from engine.runtime.spout_executor import SpoutExecutor
from engine.testing import Fault, KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Tally, Told

Patch = pytest.MonkeyPatch


class Numbers(FlowProducer):
    """Yields the records 0 to 39. The position of a record is the number of the next one."""

    async def records(self, after: int | None) -> AsyncIterator[tuple[int, int]]:  # type: ignore[override]
        for number in range(after or 0, 40):
            yield number + 1, number


class PassOn(FlowControlBolt):
    """Takes 0.2 s for each record, and fails some, once each."""

    output_fields = "n"

    def __init__(self, failing: set[int]) -> None:
        self.failing = failing

    async def process(self, record: int) -> tuple[int]:
        await asyncio.sleep(0.2)
        if record in self.failing:
            self.failing.remove(record)
            raise ValueError(f"{record} fails once")
        return (record,)


def _counted(failing: set[int], *faults: Fault) -> Counter[Any]:
    told, builder = Told(), TopologyBuilder("scenario")
    settings = FlowSettings(initial_window=1, max_window=1, pack_records=5, pack_ms=1000)
    builder.set_spout("numbers", lambda: FlowControlSpout(Numbers(), settings))
    builder.set_bolt("p", partial(PassOn, failing)).direct_grouping("numbers")
    builder.set_bolt("count", partial(Tally, told)).shuffle_grouping("p")
    run_topology(builder.build(), FAST, faults=faults)
    return told.counts()


def read_ahead() -> Counter[Any]:
    """The producer has yielded all of its records when the barrier comes, and most of them were not sent. Then a task dies."""
    return _counted(set(), KillTask("count", at_secs=4.5))


def position_of_read_ahead(patch: Patch) -> None:
    """Mutant: the position is behind the last record that the producer has yielded."""

    def position(spout: Any) -> Any:
        return spout._reader._last_yielded

    patch.setattr(FlowControlSpout, "position", position)


def returned_packs() -> Counter[Any]:
    """A bolt fails the third record of a pack, the first two of which have been counted."""
    return _counted({7, 23})


def packs_are_resent(patch: Patch) -> None:
    """Mutant: flow control sends a failed pack again at once, as without state, and the interval is not repeated."""

    def resend(executor: Any, row: Any, failure: Any, had_no_effect: bool) -> None:
        spout = executor.component
        spout._controller.note_tree_failure(row[2], failure, spout.context.clock.now())
        spout.context.wake()

    patch.setattr(SpoutExecutor, "_fail_row", resend)
