"""A checkpoint waits for the inputs that a bolt keeps (EO-3)."""

import logging
from collections import Counter
from functools import partial
from typing import Any

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.testing import DropTuple, Finished, KillTask, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told, counted, once
from tests.checkpoint.test_sources import plain


class Collects(Bolt):
    """Emits at a tick what has come since the last one."""

    output_fields = "n"
    tick_tuple_freq_secs = 0.7

    def prepare(self) -> None:
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.kept.append(tup)
            return
        for each in self.kept:
            self.collector.emit((each["n"],), each)
            self.collector.ack(each)
        self.kept.clear()


@pytest.mark.guarantee("EO-1", "EO-3")
@pytest.mark.parametrize("beside", [False, True])
def test_a_bolt_gets_ticks_while_a_checkpoint_waits_for_its_inputs(beside: bool) -> None:
    told, builder = Told(), TopologyBuilder("ticks")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    declarer = builder.set_bolt("collects", Collects).shuffle_grouping("numbers")
    if beside:  # its rows know no barrier, and must not keep the bolt from settling
        builder.set_spout("plain", plain)
        declarer.shuffle_grouping("plain")
    builder.set_bolt("count", told.create).shuffle_grouping("collects")
    finished = run_topology(builder.build(), FAST, faults=[KillTask("count", at_secs=2.5)])
    assert Counter({row: count for row, count in told.counts().items() if row < 1000}) == once(40)
    assert finished.secs < 20


class Joins(Bolt):
    """Keeps each row of one source until that of the other has come."""

    output_fields = "n"

    def prepare(self) -> None:
        self.kept: dict[int, Tuple] = {}

    def execute(self, tup: Tuple) -> None:
        other = self.kept.pop(tup["n"], None)
        if other is None:
            self.kept[tup["n"]] = tup
            return
        self.collector.emit((tup["n"],), [other, tup])
        self.collector.ack(other)
        self.collector.ack(tup)


class Late(Numbers):
    """Begins after 3 s."""

    def open(self) -> None:
        self.due = self.context.clock.now() + 3


def join_by_hand(guarantee: Any, until: float | None = None) -> tuple[Counter[Any], Finished]:
    told, builder = Told(), TopologyBuilder("join")
    builder.set_spout("left", partial(Numbers, 40, pace_secs=0.1))
    builder.set_spout("right", partial(Late, 40, pace_secs=0.1))
    builder.set_bolt("join", Joins).global_grouping("left").global_grouping("right")
    builder.set_bolt("count", told.create).shuffle_grouping("join")
    finished = run_topology(builder.build(), FAST.replace(processing_guarantee=guarantee), until=until)
    return told.counts(), finished


@pytest.mark.guarantee("EO-3")
def test_a_checkpoint_waits_for_a_join_by_hand_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counts, finished = join_by_hand(None, until=15)
    assert not counts
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.committed == 0
    assert finished.snapshot.checkpoint.waits_for == ("join[3] waits until its inputs of before the barrier are settled",)
    assert "a checkpoint has waited 10 s until the bolt acks or fails <Tuple (0,) from left[1]" in caplog.text
    assert "processing_guarantee='at_least_once'" in caplog.text


@pytest.mark.guarantee("EO-3")
def test_with_at_least_once_no_checkpoint_waits_for_a_join_by_hand() -> None:
    counts, finished = join_by_hand("at_least_once")
    assert counts == once(40)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.committed > 3


@pytest.mark.guarantee("EO-3")
def test_no_checkpoint_passes_an_input_that_a_fault_has_lost() -> None:
    """Committed before the lost row times out, the row would be gone."""
    config = FAST.replace(state_checkpoint_interval_ms=100, message_timeout_secs=5)
    assert counted(partial(Numbers, 100, pace_secs=0.01), config=config, faults=[DropTuple("numbers", "count", number=30)]) == once(100)
