"""Cycles: an edge that closes a cycle stops no sender, and max_spout_pending bounds its tuples (BP-5)."""

from random import Random
from typing import Any

import pytest

from engine import BasicBolt, Config, Fields, Topology, TopologyBuilder, Tuple
from tests.runtime.stage import AtOnce, Numbers, play_run


def ring(size: int, *, laps: int, at_once: int = 1, count: int = 2000, parallelism: int = 1) -> tuple[Topology, Numbers]:
    """Build a spout and a cycle of two bolts. Each tuple makes `laps` laps, and doubles in the first."""
    spout = (AtOnce if at_once > 1 else Numbers)(count)

    class Round(BasicBolt):
        output_fields = Fields("number", "lap")

        def execute(self, tup: Tuple) -> Any:
            lap = tup["lap"] + 1 if "lap" in tup.fields else 0
            if lap < laps:
                yield (tup[0], lap)
                if lap == 0:
                    yield (tup[0], lap)

    builder = TopologyBuilder("ring", config=Config(max_spout_pending=size * 4, executor_receive_buffer_size=size))
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("one", Round, parallelism).shuffle_grouping("source").shuffle_grouping("two")
    builder.set_bolt("two", Round, parallelism).shuffle_grouping("one")
    return builder.build(), spout


@pytest.mark.guarantee("BP-5")
@pytest.mark.parametrize("size", [2, 10, 100])
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_cycle_with_full_mailboxes_does_not_deadlock(size: int, parallelism: int, seed: int) -> None:
    topology, spout = ring(size, laps=7, count=300, parallelism=parallelism)
    run = play_run(topology, shuffle=Random(seed))
    assert run.state == "complete"
    assert sorted(spout.acked) == list(range(300))


@pytest.mark.guarantee("BP-5")
def test_a_bolt_that_feeds_itself_does_not_deadlock() -> None:
    class Itself(BasicBolt):
        output_fields = Fields("number", "lap")

        def execute(self, tup: Tuple) -> Any:
            lap = tup["lap"] + 1 if len(tup) == 2 else 0
            if lap < 3:
                for _ in range(3):
                    yield (tup[0], lap)

    spout = Numbers(300)
    builder = TopologyBuilder("itself", config=Config(max_spout_pending=50, executor_receive_buffer_size=2))
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("itself", Itself).shuffle_grouping("source").shuffle_grouping("itself")
    run = play_run(builder.build())
    assert run.state == "complete"
    assert sorted(spout.acked) == list(range(300))


@pytest.mark.guarantee("BP-5")
def test_two_cycles_that_share_a_bolt_do_not_deadlock() -> None:
    class Hop(BasicBolt):
        output_fields = Fields("number", "hops")

        def execute(self, tup: Tuple) -> Any:
            hops = tup["hops"] + 1 if len(tup) == 2 else 0
            if hops < 6:
                yield (tup[0], hops)

    spout = Numbers(200)
    builder = TopologyBuilder("eight", config=Config(max_spout_pending=30, executor_receive_buffer_size=3))
    builder.set_spout("source", lambda: spout)
    builder.set_bolt("hub", Hop).shuffle_grouping("source").shuffle_grouping("left").shuffle_grouping("right")
    builder.set_bolt("left", Hop).shuffle_grouping("hub")
    builder.set_bolt("right", Hop).shuffle_grouping("hub")
    run = play_run(builder.build())
    assert run.state == "complete"
    assert sorted(spout.acked) == list(range(200))
