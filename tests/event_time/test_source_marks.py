"""Watermarks of sources: at their end, in later runs, and of sources that know them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.event_time import END_OF_TIME, NO_WATERMARK, EventTime
from engine.testing import Events, KillTask, run_topology

SECS = EventTime("at", unit="s")


class Watermarks:
    """Makes bolts with a state that write the watermarks, in seconds, and the rows."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self) -> StatefulBasicBolt:
        seen = self.seen

        class Note(StatefulBasicBolt):
            watermark = NO_WATERMARK

            def pass_watermark(self, watermark: int) -> Iterator[None]:
                self.watermark = watermark
                seen.append("end" if watermark == END_OF_TIME else f"W{watermark // 1_000_000}")
                return iter(())

            def execute(self, tup: Tuple) -> None:
                at = tup["at"]
                seen.append(f"late {at}" if at * 1_000_000 < self.watermark else at)

        return Note()


def run_events(events: Events, config: Config) -> list[Any]:
    noted = Watermarks()
    builder = TopologyBuilder("events")
    builder.set_spout("events", events, event_time=SECS)
    builder.set_bolt("note", noted).shuffle_grouping("events")
    assert run_topology(builder.build(), config).state == "complete"
    return noted.seen


@pytest.mark.guarantee("ET-4")
def test_a_source_that_was_at_its_end_begins_a_later_run_with_its_last_watermark(tmp_path: Path) -> None:
    events, config = Events("at"), Config(state_provider=f"sqlite:///{tmp_path}/s.db")
    events.feed((10,))
    events.watermark(20, unit="s")
    events.close()
    assert run_events(events, config) == [10, "W20", "end"]

    more = Events("at")
    more.advance(1)
    more.feed((30,))
    more.watermark(40, unit="s")
    more.close()
    assert run_events(more, config) == ["W20", 30, "W40", "end"]


class Knows(Spout):
    """Knows its watermark, which is far behind the times of its rows."""

    output_fields = "at"
    event_time = SECS

    def open(self) -> None:
        self.next = 0

    def watermark(self) -> int | None:
        return None if self.next == 0 else self.next // 10 * 1_000_000

    def next_tuple(self) -> None:
        if self.next == 100:
            raise SpoutExhausted
        if self.context.clock.now() >= self.next * 0.05:
            self.collector.emit((self.next + 1000,), message_id=self.next)
            self.next += 1


@pytest.mark.guarantee("ET-1")
def test_a_source_that_knows_its_watermark_says_it() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("known")
    builder.set_spout("knows", Knows)
    builder.set_bolt("note", noted).shuffle_grouping("knows")
    assert run_topology(builder.build()).state == "complete"
    watermarks = [each for each in noted.seen if isinstance(each, str)]
    assert watermarks == [*(f"W{number}" for number in range(10)), "end"]


class OpensLate(Spout):
    """Knows its partitions only when it is open."""

    output_fields = "at"
    event_time = SECS
    next = 0
    due = 0.0

    async def open(self) -> None:
        await asyncio.sleep(1)
        self.mine = ["only"]

    def partitions(self) -> list[str]:
        return self.mine

    def partition_of(self, message_id: Any) -> str:
        return "only"

    def next_tuple(self) -> None:
        if self.next == 30:
            raise SpoutExhausted
        if self.context.clock.now() >= self.due:
            self.next += 10
            self.due = self.context.clock.now() + 1
            self.collector.emit((self.next,), message_id=self.next)


@pytest.mark.guarantee("ET-3")
def test_a_source_is_asked_for_its_partitions_only_when_it_is_open() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("late")
    builder.set_spout("opens", OpensLate)
    builder.set_bolt("note", noted).shuffle_grouping("opens")
    finished = run_topology(builder.build())
    assert finished.state == "complete"
    assert finished.errors == ()
    assert noted.seen == [10, "W10", 20, "W20", 30, "end"]


class AsksBadly(Knows):
    """Raises once when it is asked for its watermark."""

    asked = 0

    def watermark(self) -> int | None:
        self.asked += 1
        if self.asked == 3:
            raise ValueError("not now")
        return super().watermark()


@pytest.mark.guarantee("ET-1")
def test_a_source_that_raises_when_it_is_asked_is_reported_and_asked_again() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("known")
    builder.set_spout("knows", AsksBadly)
    builder.set_bolt("note", noted).shuffle_grouping("knows")
    finished = run_topology(builder.build())
    assert finished.state == "complete"
    assert "W9" in noted.seen
    assert [(each.component_id, each.text) for each in finished.errors] == [("knows", "ValueError: not now")]


class SeeksLong(Spout):
    """Keeps its instance in a rollback, and takes long to go back."""

    output_fields = "at"
    event_time = SECS
    survives_rollback = True

    async def seek(self, position: int | None) -> None:
        await asyncio.sleep(1)
        self.next = position or 0

    def position(self) -> int:
        return self.next

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.1)
        if self.next == 100:
            raise SpoutExhausted
        self.collector.emit((self.next,))
        self.next += 1


@pytest.mark.guarantee("ET-4")
def test_no_watermark_of_before_a_rollback_leaves_while_a_source_seeks() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("seeks")
    builder.set_spout("rows", SeeksLong)
    builder.set_bolt("note", noted).shuffle_grouping("rows")
    faults = [KillTask("note", at_secs=5.55)]
    finished = run_topology(builder.build(), Config(state_checkpoint_interval_ms=3000), faults=faults)
    assert finished.state == "complete"
    rows = [each for each in noted.seen if isinstance(each, int)]
    assert [each for each in noted.seen if str(each).startswith("late")] == []
    assert sorted(set(rows)) == list(range(100))
    assert len(rows) > 100, "rows are repeated"


class LearnsLate(OpensLate):
    """Does not know its partitions for a while, and has nothing to read then."""

    async def open(self) -> None:
        self.mine = self.UNKNOWN_PARTITIONS  # type: ignore[assignment]

    def caught_up(self, partition: Any = None) -> bool:
        return True

    def next_tuple(self) -> None:
        if self.context.clock.now() > 20:
            self.mine = ["only"]
            super().next_tuple()


@pytest.mark.guarantee("ET-3")
def test_partitions_that_are_not_known_are_never_caught_up() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("late")
    other = Events("at", event_time=SECS)
    other.watermark(100, unit="s")
    other.advance(30)
    other.close()
    builder.set_spout("learns", LearnsLate)
    builder.set_spout("other", other)
    builder.set_bolt("note", noted).shuffle_grouping("learns").shuffle_grouping("other")
    assert run_topology(builder.build()).state == "complete"
    assert noted.seen == [10, "W10", 20, "W20", 30, "W100", "end"]


class Some(Spout):
    """Emits its rows at once, and ends then or stays open without more of them."""

    output_fields = "at"
    event_time = EventTime("at", unit="s", idle_secs=10)

    def __init__(self, *rows: int, ends: bool) -> None:
        self.rows, self.ends = list(rows), ends

    def next_tuple(self) -> None:
        if self.rows:
            self.collector.emit((self.rows.pop(0),), message_id=1)
        elif self.ends:
            raise SpoutExhausted


class Passes(BasicBolt):
    output_fields = "at"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["at"],)


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize("behind", [[], ["one"], ["one", "one"], ["silent", "one"]])
def test_a_silent_source_holds_nothing_of_a_source_that_has_ended(behind: list[str]) -> None:
    """behind: for each of some bolts in between, what it reads."""
    noted = Watermarks()
    builder = TopologyBuilder("silent")
    builder.set_spout("one", lambda: Some(10, 40, ends=True))
    builder.set_spout("silent", lambda: Some(ends=False))
    note = builder.set_bolt("note", noted)
    for number, source in enumerate(behind):
        builder.set_bolt(f"passes{number}", Passes, 2).shuffle_grouping(source)
        note.shuffle_grouping(f"passes{number}")
    for source in {"one", "silent"} - set(behind):
        note.shuffle_grouping(source)
    assert run_topology(builder.build(), until=9.0).state == "stopped"
    assert [each for each in noted.seen if isinstance(each, str)] == []
    assert run_topology(builder.build(), until=30.0).state == "stopped"
    assert [each for each in noted.seen if isinstance(each, str)] == ["W40"]
