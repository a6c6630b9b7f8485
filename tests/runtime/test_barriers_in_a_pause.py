"""A task that waits for its next instance loses no barrier, even if some sources have not sent theirs (SV-3, CP-2)."""

import asyncio
import itertools
from typing import Any

import pytest

from engine import BasicBolt, Fields, Spout, StatefulBasicBolt, TopologyBuilder, Tuple
from tests.runtime.stage import loop, play, running


@pytest.mark.guarantee("SV-3", "CP-2")
@pytest.mark.parametrize("dies_at", [5.69, 5.92, 6.15, 7.30, 7.53, 7.76])
def test_after_a_pause_that_ends_between_two_barriers_acks_continue_within_seconds(dies_at: float) -> None:
    """Given a fast spout and two bolts, when the last one dies three times, then acks continue within seconds."""
    acked: list[float] = []
    made: list[Any] = []

    class Every(Spout):
        output_fields = Fields("number")

        def __init__(self, secs: float) -> None:
            self.secs, self.number, self.last = secs, 0, -1.0

        def next_tuple(self) -> None:
            if loop().time() - self.last >= self.secs:
                self.last = loop().time()
                self.number += 1
                self.collector.emit((self.number,), self.number)

        def ack(self, message_id: object) -> None:
            acked.append(loop().time())

    class Slow(BasicBolt):
        output_fields = Fields("number")

        async def execute(self, tup: Tuple) -> tuple[int]:  # type: ignore[override]
            await asyncio.sleep(1.5)
            return (tup[0],)

    class Passes(BasicBolt):
        output_fields = Fields("number")

        def prepare(self) -> None:
            made.append(self)

        def execute(self, tup: Tuple) -> tuple[int]:
            return (tup[0],)

        async def die(self) -> None:
            raise OSError("gone")

    class Counts(StatefulBasicBolt):
        def execute(self, tup: Tuple) -> None:
            self.state.put("count", self.state.get("count", 0) + 1)

    builder = TopologyBuilder("pauses")
    builder.set_spout("quick", lambda: Every(0.1))
    builder.set_spout("others", lambda: Every(1.6))
    builder.set_bolt("slow", Slow).shuffle_grouping("others")
    builder.set_bolt("passes", Passes).shuffle_grouping("quick").shuffle_grouping("slow")
    builder.set_bolt("counts", Counts).shuffle_grouping("passes")

    async def main() -> None:
        async with running(builder.build(), state_checkpoint_interval_ms=100) as run:
            await asyncio.sleep(dies_at)
            for _ in range(3):
                made[-1].context.create_task(made[-1].die())
                await asyncio.sleep(1.4)
            await asyncio.sleep(60)
            assert run.state == "running"

    play(main)
    assert max(after - before for before, after in itertools.pairwise(acked)) < 30
    assert acked[-1] > dies_at + 50
