"""Failed inputs that belong to no row of a source, such as results of windows, in all forms of bolts (EO-6, DL-5)."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine import BasicBolt, Bolt, BurstBolt, Spout, SpoutExhausted, TopologyBuilder, Tuple
from engine.checkpoint.feature import CheckpointEntry
from engine.dead_letters import DeadLettersEntry
from engine.testing import Finished, run_topology
from tests.checkpoint.scenarios.kit import FAST, Numbers, Told, once
from tests.checkpoint.scenarios.rowless import Windows

BAD = 1002
WINDOWS = Counter(range(1000, 1004))


class Fails:
    """Tells which inputs fail."""

    output_fields = "n"
    left: ClassVar[list[int]]
    """One entry for each failure that is left."""

    def check(self, number: int) -> None:
        if number == BAD and self.left:
            self.left.pop()
            raise ValueError("bad")


class Basic(Fails, BasicBolt):
    def execute(self, tup: Tuple) -> Any:
        self.check(tup["n"])
        return (tup["n"],)


class Slow(Fails, BasicBolt):
    concurrency = 4

    async def execute(self, tup: Tuple) -> Any:
        await asyncio.sleep(0.01)
        self.check(tup["n"])
        return (tup["n"],)


class InThreads(Basic):
    threads = 2


class FailsItself(Fails, Bolt):
    def execute(self, tup: Tuple) -> None:
        try:
            self.check(tup["n"])
        except ValueError as error:
            self.collector.fail(tup, error)
            return
        self.collector.emit((tup["n"],), anchors=tup)
        self.collector.ack(tup)


class InBursts(Fails, BurstBolt):
    def execute_many(self, burst: Any) -> Any:
        for number in burst["n"]:
            self.check(number)
        for tup in burst:
            self.collector.emit((tup["n"],), anchors=tup)


FORMS = [Basic, Slow, InThreads, FailsItself, InBursts]


def run_windows(form: type[Any], failures: int, *, beside: bool = False, **settings: Any) -> tuple[Counter[Any], Finished]:
    """Run `numbers` > `windows` > `sink` > `count`. beside: a spout whose rows cannot come again feeds `windows` as well."""
    told, builder = Told(), TopologyBuilder("rows")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.1))
    windows = builder.set_bolt("windows", Windows).shuffle_grouping("numbers")
    if beside:
        builder.set_spout("plain", Untracked)
        windows.shuffle_grouping("plain")
    sink = builder.set_bolt("sink", type("Sink", (form,), {"left": [BAD] * failures}))
    sink.shuffle_grouping("windows", "rows").shuffle_grouping("windows", "windows")
    builder.set_bolt("count", told.create).shuffle_grouping("sink")
    finished = run_topology(builder.build(), FAST.replace(**settings), limit_secs=600)
    return told.counts(), finished


@pytest.mark.guarantee("EO-6")
@pytest.mark.parametrize("form", FORMS)
def test_a_result_of_a_window_that_fails_twice_is_processed_once(form: type[Any]) -> None:
    counts, finished = run_windows(form, 2)
    assert counts == once(40) + WINDOWS
    assert finished.snapshot.entry(DeadLettersEntry).value.given_up == 0


@pytest.mark.guarantee("EO-6", "DL-5")
@pytest.mark.parametrize("form", FORMS)
def test_a_result_of_a_window_that_always_fails_is_a_letter_of_its_bolt(form: type[Any], tmp_path: Path) -> None:
    counts, finished = run_windows(form, 1000, state_provider=f"sqlite:///{tmp_path / 's.db'}")
    assert counts == once(40) + WINDOWS - Counter([BAD])
    shown = finished.snapshot.entry(DeadLettersEntry).value
    assert (shown.stored, shown.given_up, shown.last_component_id) == (1, 1, "sink")
    assert finished.snapshot.components["sink"].given_up == 1
    again, _ = run_windows(form, 1000, state_provider=f"sqlite:///{tmp_path / 's.db'}")
    assert again == counts


class Untracked(Spout):
    """Emits the rows 2000 to 2039, which cannot come again."""

    output_fields = "n"
    left = 40

    def next_tuple(self) -> None:
        if not self.left:
            raise SpoutExhausted
        self.left -= 1
        self.collector.emit((2000 + self.left,))


@pytest.mark.guarantee("EO-6")
def test_behind_a_spout_whose_rows_cannot_come_again_no_interval_is_repeated() -> None:
    counts, finished = run_windows(Basic, 1000, beside=True)
    assert counts >= once(40) + Counter(range(2000, 2040)) + Counter([1000, 1001])
    assert BAD not in counts
    checkpoint, letters = finished.snapshot.entry(CheckpointEntry).value, finished.snapshot.entry(DeadLettersEntry).value
    assert checkpoint is not None
    assert (checkpoint.recoveries, letters.given_up) == (0, 0)


class Away(Basic):
    """Fails all windows for the first `secs`."""

    secs: ClassVar[float]

    def check(self, number: int) -> None:
        if self.context.clock.now() < self.secs:
            raise ConnectionError("away")


def run_outage(secs: float) -> tuple[Counter[Any], Finished]:
    """Run `numbers` > `windows` > `sink` > `count`, with a sink that gets windows only, and is away at first."""
    told, builder = Told(), TopologyBuilder("rows")
    builder.set_spout("numbers", partial(Numbers, 40, pace_secs=0.01))
    builder.set_bolt("windows", Windows).shuffle_grouping("numbers")
    builder.set_bolt("sink", type("Sink", (Away,), {"secs": secs, "left": []})).shuffle_grouping("windows", "windows")
    builder.set_bolt("count", told.create).shuffle_grouping("sink")
    finished = run_topology(builder.build(), FAST, limit_secs=100_000)
    return told.counts(), finished


@pytest.mark.guarantee("EO-6")
def test_an_outage_of_the_bolt_gives_no_result_of_a_window_up() -> None:
    counts, finished = run_outage(30.0)
    assert counts == WINDOWS
    assert finished.snapshot.entry(DeadLettersEntry).value.given_up == 0


@pytest.mark.guarantee("EO-6", "DL-5")
def test_a_bolt_that_never_processes_anything_ends_with_letters() -> None:
    counts, finished = run_outage(1e9)
    assert not counts
    assert finished.snapshot.entry(DeadLettersEntry).value.given_up == 4
