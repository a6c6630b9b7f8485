"""What counts as an effect of a row, so that it is not retried alone (EO-6)."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine import Bolt, TopologyBuilder, Tuple
from engine.testing import run_topology
from tests.checkpoint.scenarios.kit import Numbers, once
from tests.checkpoint.test_owed_rows import World, recoveries


class EmitsFirst(Bolt):
    """Emits a row without an anchor, in one of the ways, and then fails the row 5 once."""

    output_fields = "n"
    way: ClassVar[str] = "emit"
    failed: ClassVar[set[int]]

    def execute(self, tup: Tuple) -> None:
        row = (tup["n"],)
        match self.way:
            case "emit":
                self.collector.emit(row)
            case "emit_many":
                self.collector.emit_many([row])
            case "emit_each":
                self.collector.emit_each(row)
            case "no anchors":
                self.collector.emit(row, [])
        if row == (5,) and not self.failed:
            self.failed.add(5)
            raise ValueError("once")
        self.collector.ack(tup)


class Endless(Numbers):
    """Waits for ever behind its last row."""

    def next_tuple(self) -> None:
        if self.next < self.rows:
            super().next_tuple()


class EmitsInBackground(EmitsFirst):
    """The same by work that ends before the call."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await self.context.create_task(asyncio.sleep(0))
        super().execute(tup)


class EmitsAtTick(EmitsFirst):
    """Keeps the values, and emits them at the next tick. Fails a row with the values kept."""

    tick_tuple_freq_secs = 0.25

    def prepare(self) -> None:
        self.kept: list[int] = []

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            self.kept.append(tup["n"])
            if tup["n"] == 5 and not self.failed:
                self.failed.add(5)
                raise ValueError("once")
            self.collector.ack(tup)
            return
        for n in self.kept:
            self.collector.emit((n,), tup)
        self.kept.clear()


@pytest.mark.guarantee("EO-1", "EO-6")
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("way", ["emit", "emit_many", "emit_each", "no anchors"])
def test_an_emit_without_an_anchor_is_an_effect(way: str, processes: bool, tmp_path: Path) -> None:
    if processes and way != "emit":
        pytest.skip("a process sends all of them in one form")
    world = World(tmp_path)
    builder = TopologyBuilder("unanchored")
    builder.set_spout("numbers", partial(Numbers, 20, pace_secs=0.01))
    kind = InProcess if processes else type("Emits", (EmitsFirst,), {"way": way, "failed": set()})
    builder.set_bolt("p", partial(kind, str(tmp_path)) if processes else kind, processes=processes).shuffle_grouping("numbers")
    builder.set_bolt("count", world.told.create).shuffle_grouping("p")
    assert recoveries(run_topology(builder.build(), world.config)) == 1
    assert world.counts == once(20)


class InProcess(Bolt):
    """The same in a child process."""

    output_fields = "n"

    def __init__(self, folder: str) -> None:
        self.mark = Path(folder, "failed")

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup["n"],))
        if tup["n"] == 5 and not self.mark.exists():
            self.mark.touch()
            raise ValueError("once")
        self.collector.ack(tup)


@pytest.mark.guarantee("EO-1", "EO-6")
@pytest.mark.parametrize("kind", [EmitsInBackground, EmitsAtTick])
def test_a_bolt_with_ticks_or_background_work_may_have_an_effect(kind: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    builder = TopologyBuilder("kept")
    builder.set_spout("numbers", partial(Endless, 20, pace_secs=0.01))
    builder.set_bolt("p", type("Emits", (kind,), {"failed": set()})).shuffle_grouping("numbers")
    builder.set_bolt("count", world.told.create).shuffle_grouping("p")
    assert recoveries(run_topology(builder.build(), world.config, until=3)) == 1
    assert world.counts == once(20)


@pytest.mark.guarantee("EO-6")
def test_a_call_whose_emits_are_held_back_has_no_effect_when_it_raises(tmp_path: Path) -> None:
    world = World(tmp_path)
    builder = TopologyBuilder("held")
    builder.set_spout("numbers", partial(Numbers, 20, pace_secs=0.01))
    builder.set_bolt("p", partial(AnchorsAndFails, {5}, world.calls), retries=1).shuffle_grouping("numbers")
    builder.set_bolt("count", world.told.create).shuffle_grouping("p")
    assert recoveries(run_topology(builder.build(), world.config)) == 0
    assert world.calls.count(5) == 3
    assert world.counts == once(20)


class AnchorsAndFails(Bolt):
    """Emits, and then fails the rows of its set twice."""

    output_fields = "n"

    def __init__(self, rows: set[int], calls: list[int]) -> None:
        self.rows, self.calls = rows, calls

    def execute(self, tup: Tuple) -> None:
        self.calls.append(tup["n"])
        self.collector.emit((tup["n"],), tup)
        if tup["n"] in self.rows and self.calls.count(tup["n"]) <= 2:
            raise ValueError("twice")
        self.collector.ack(tup)
