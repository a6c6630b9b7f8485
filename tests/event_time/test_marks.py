"""Watermarks on their way through a topology: behind earlier rows, whatever kind of bolt they pass (ET-1, ET-3)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from engine import BasicBolt, Bolt, BurstBolt, Config, Spout, SpoutExhausted, TopologyBuilder, Tuple, spout
from engine.errors import ComponentError
from engine.event_time import END_OF_TIME, EventTime
from engine.testing import run_topology
from tests.event_time.paced_rows import DAY, MARKS, PACE_SECS, Check, paced, times_of


class Later(BasicBolt):
    """Takes its time, so later rows overtake earlier ones."""

    output_fields = "at"
    concurrency = 8

    async def execute(self, tup: Tuple) -> tuple[int]:
        await asyncio.sleep(0.9 if tup["at"] % 7000 == 0 else 0.01)
        return (tup["at"],)


class InThreads(BasicBolt):
    output_fields = "at"
    threads = 4

    def execute(self, tup: Tuple) -> tuple[int]:
        time.sleep(0.004 if tup["at"] % 3000 == 0 else 0.0)
        return (tup["at"],)


class Retried(BasicBolt):
    output_fields = "at"
    concurrency = 8
    retries = 3

    def prepare(self) -> None:
        self.failed: set[int] = set()

    async def execute(self, tup: Tuple) -> tuple[int]:
        at = tup["at"]
        await asyncio.sleep(0.01)
        if at % 5000 == 0 and at not in self.failed:
            self.failed.add(at)
            raise ValueError("flaky")
        return (at,)


class Keeps(Bolt):
    """Keeps its inputs for a while, and emits for them then."""

    output_fields = "at"

    def prepare(self) -> None:
        self.context.create_task(self.settle())
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup)

    async def settle(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            for tup in self.kept:
                self.collector.emit(tup.values, tup)
                self.collector.ack(tup)
            self.kept.clear()


class Bursts(BurstBolt):
    output_fields = "at"

    def execute_many(self, burst: Any) -> None:
        for tup in burst:
            self.collector.emit(tup.values, tup)


class InProcess(BasicBolt):
    output_fields = "at"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["at"],)


def played(middle: Callable[[], Any], **settings: Any) -> tuple[list[int], list[int]]:
    """Run rows through a bolt, and return the watermarks and the late rows behind it."""
    watermarks: list[int] = []
    late: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", paced, event_time=MARKS)
    builder.set_bolt("middle", middle, **settings).shuffle_grouping("rows")
    builder.set_bolt("check", lambda: Check(watermarks, late)).shuffle_grouping("middle")
    assert run_topology(builder.build(), Config(seed=1)).state == "complete"
    return watermarks, late


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("middle", [Later, InThreads, Retried, Keeps, Bursts])
def test_a_watermark_comes_behind_the_rows_before_it(middle: Callable[[], Any]) -> None:
    watermarks, late = played(middle)
    assert late == []
    assert watermarks == sorted(set(watermarks))
    assert len(watermarks) > 5, "the bolt goes on with later rows while a watermark waits"
    assert watermarks[-1] == END_OF_TIME


@pytest.mark.guarantee("ET-1")
def test_a_watermark_waits_for_the_rows_in_a_process() -> None:
    watermarks, late = played(InProcess, processes=True)
    assert late == []
    assert watermarks[-1] == END_OF_TIME


@pytest.mark.guarantee("ET-1")
def test_a_bolt_with_several_sources_has_the_least_of_their_watermarks() -> None:
    @spout("at")
    async def slow() -> AsyncIterator[tuple[int]]:
        for at in times_of(30):
            await asyncio.sleep(2 * PACE_SECS)
            yield (at,)

    watermarks: list[int] = []
    late: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("fast", paced, event_time=MARKS)
    builder.set_spout("single", slow, event_time=MARKS)
    builder.set_bolt("middle", InProcess, 3).shuffle_grouping("fast").shuffle_grouping("single")
    builder.set_bolt("check", lambda: Check(watermarks, late)).shuffle_grouping("middle")
    assert run_topology(builder.build()).state == "complete"
    assert late == []
    assert len(watermarks) > 5


class Fails(Spout):
    """Emits each row again that fails, after some seconds."""

    output_fields = "at"
    event_time = EventTime("at", hold_secs=60)

    def __init__(self, pause_secs: float) -> None:
        self.pause_secs = pause_secs
        self.rows = times_of(40)
        self.again: list[tuple[float, int]] = []
        self.due = 0.0

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if self.again and self.again[0][0] <= now:
            self.emit(self.again.pop(0)[1])
        elif self.rows:
            if now >= self.due:
                self.due = now + 1.0
                self.emit(self.rows.pop(0))
        elif not self.again:
            raise SpoutExhausted

    def emit(self, at: int) -> None:
        self.collector.emit((at,), message_id=at)

    def fail(self, message_id: Any) -> None:
        self.again.append((self.context.clock.now() + self.pause_secs, message_id))


class FailsOnce(Check):
    """Fails one row once."""

    def execute(self, tup: Tuple) -> None:
        if tup["at"] == DAY + 5000 and not hasattr(self, "failed"):
            self.failed = True
            self.collector.fail(tup)
        else:
            super().execute(tup)


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize(("pause_secs", "late_rows"), [(10.0, []), (70.0, [DAY + 5000])])
def test_a_watermark_waits_for_a_failed_row_at_most_hold_secs(
    pause_secs: float, late_rows: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    watermarks: list[int] = []
    late: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", lambda: Fails(pause_secs))
    builder.set_bolt("check", lambda: FailsOnce(watermarks, late)).shuffle_grouping("rows")
    assert run_topology(builder.build()).state == "complete"
    assert late == late_rows
    assert (DAY + 4000) * 1000 in watermarks
    assert ("hold_secs" in caplog.text) == bool(late_rows)


@pytest.mark.guarantee("ET-1")
def test_a_row_without_a_time_fails_and_the_others_go_on() -> None:
    @spout("at", max_retries=0)
    def rows() -> Iterator[tuple[Any]]:
        yield from ((at,) for at in (DAY, None, DAY + 1000))

    watermarks: list[int] = []
    late: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", rows, event_time=EventTime("at"))
    builder.set_bolt("check", lambda: Check(watermarks, late)).shuffle_grouping("rows")
    run = run_topology(builder.build())
    assert run.state == "complete"
    assert run.snapshot.components["rows"].failed == 1
    assert "None of type NoneType is not a time" in str(run.errors[0])


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("times", [[DAY // 1000], [0, 0, DAY // 1000]])
def test_times_in_seconds_end_the_run_with_the_name_of_the_setting(times: list[int], caplog: pytest.LogCaptureFixture) -> None:
    @spout("at")
    def rows() -> Iterator[tuple[int]]:
        yield from ((at,) for at in times)

    builder = TopologyBuilder("marks")
    builder.set_spout("rows", rows, event_time=EventTime("at"))
    builder.set_bolt("check", lambda: Check([], [])).shuffle_grouping("rows")
    with pytest.raises(ComponentError, match="1970") as ended:
        run_topology(builder.build())
    assert "unit" in str(ended.value.hint)
    assert "Cancelled" not in caplog.text, "one report"


@pytest.mark.guarantee("ET-1")
def test_a_row_far_ahead_does_not_move_the_watermark_with_max_ahead() -> None:
    @spout("at")
    async def rows() -> AsyncIterator[tuple[float]]:
        wall = time.time()
        for at in (wall, wall + 1e6, wall + 1):
            yield (at,)
            await asyncio.sleep(1.0)

    watermarks: list[int] = []
    late: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", rows, event_time=EventTime("at", max_ahead=timedelta(hours=1)))
    builder.set_bolt("check", lambda: Check(watermarks, late)).shuffle_grouping("rows")
    assert run_topology(builder.build()).state == "complete"
    assert all(watermark < (time.time() + 3600) * 1e6 for watermark in watermarks[:-1])
    assert len(watermarks) > 1


@pytest.mark.guarantee("ET-1")
def test_a_bolt_with_an_input_without_times_has_no_watermark() -> None:
    @spout("at")
    def untimed() -> Iterator[tuple[int]]:
        yield (DAY,)

    watermarks: list[int] = []
    builder = TopologyBuilder("marks")
    builder.set_spout("rows", paced, event_time=MARKS)
    builder.set_spout("others", untimed)
    builder.set_bolt("check", lambda: Check(watermarks, [])).shuffle_grouping("rows").shuffle_grouping("others")
    assert run_topology(builder.build()).state == "complete"
    assert watermarks == []


@pytest.mark.guarantee("ET-1")
def test_an_edge_that_closes_a_cycle_carries_no_watermark() -> None:
    watermarks: list[int] = []

    class Around(Check):
        output_fields = "at"

        def execute(self, tup: Tuple) -> None:
            if tup.source_component == "rows":
                self.collector.emit((tup["at"] + 10**9,), tup)
            super().execute(tup)

    builder = TopologyBuilder("marks")
    builder.set_spout("rows", paced, event_time=MARKS, max_spout_pending=100)
    builder.set_bolt("around", lambda: Around(watermarks, [])).shuffle_grouping("rows").shuffle_grouping("around")
    assert run_topology(builder.build()).state == "complete"
    assert watermarks[-1] == END_OF_TIME
