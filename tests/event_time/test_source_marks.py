"""Watermarks of sources: at their end, in later runs, and of sources that know them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import Config, Run, Spout, SpoutExhausted, StatefulBasicBolt, TopologyBuilder, Tuple
from engine.event_time import END_OF_TIME, EventTime
from engine.testing import Events, run_topology

SECS = EventTime("at", unit="s")


class Watermarks:
    """Makes bolts with a state that write the watermarks, in seconds, and the rows."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self) -> StatefulBasicBolt:
        seen = self.seen

        class Note(StatefulBasicBolt):
            def pass_watermark(self, watermark: int) -> Iterator[None]:
                seen.append("end" if watermark == END_OF_TIME else f"W{watermark // 1_000_000}")
                return iter(())

            def execute(self, tup: Tuple) -> None:
                seen.append(tup["at"])

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

    async def open(self) -> None:
        await asyncio.sleep(1)
        self.mine = ["only"]
        self.rows = [10, 20]

    def partitions(self) -> list[str]:
        return self.mine

    def partition_of(self, message_id: Any) -> str:
        return "only"

    def next_tuple(self) -> None:
        if not self.rows:
            raise SpoutExhausted
        self.collector.emit((self.rows.pop(0),), message_id=1)


@pytest.mark.guarantee("ET-3")
def test_a_source_is_asked_for_its_partitions_only_when_it_is_open() -> None:
    noted = Watermarks()
    builder = TopologyBuilder("late")
    builder.set_spout("opens", OpensLate)
    builder.set_bolt("note", noted).shuffle_grouping("opens")
    failed: list[Any] = []

    async def watch(run: Run) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: failed.append(problem))

    assert run_topology(builder.build(), during=watch).state == "complete"
    assert failed == []
    assert noted.seen == [10, 20, "end"]


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
    assert [str(each.error) for each in finished.errors] == ["not now"]
