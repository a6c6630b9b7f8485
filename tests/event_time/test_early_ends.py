"""A source that does not read on, because its run drains or its generator is broken, is not at its end (ET-3, ET-4)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine import BurstSpout, Config, Run, Spout, SpoutExhausted, TopologyBuilder, Tuple, spout
from engine.errors import ComponentError
from engine.event_time import END_OF_TIME, EventTime
from engine.streams import Flow, seconds, tumbling
from engine.testing import run_topology
from tests.event_time.paced_rows import DAY, Check

ROWS = [("ada", DAY + 1000 * number) for number in range(10)]
"""They belong to one window."""


class Reading(NamedTuple):
    key: str
    at: int


def begins_with(rows: int, then: Exception | None = None) -> Callable[[], Any]:
    """Return a source that yields a list, and the others 3 s later, or raises then."""

    @spout(*Reading._fields, repeatable=True, burst=True)
    async def source() -> AsyncIterator[list[Any]]:
        yield ROWS[:rows]
        await asyncio.sleep(3)
        if then is not None:
            raise then
        yield ROWS[rows:]

    return source


@spout(*Reading._fields, repeatable=True)
def all_rows() -> Iterator[Any]:
    yield from ROWS


class Counts:
    """A flow that counts the rows in a window, with a state."""

    def __init__(self, folder: Path) -> None:
        self.config = Config(state_provider=f"sqlite:///{folder}/s.db", state_checkpoint_interval_ms=100)

    def run(self, source: Any, during: Any = None) -> list[Any]:
        """Run it, and return its results and its late rows."""
        flow, seen = Flow("counts"), list[Any]()
        readings = flow.stream("rows", source, Reading, max_spout_pending=1).event_time("at").key_by("key")
        counts = readings.window(tumbling(seconds(100))).count(name="counts")
        counts.sink("seen", lambda count: seen.append(count.value))
        counts.late.sink("late", lambda late: seen.append(late.row))
        try:
            run_topology(flow.topology(), self.config, during=during)
        except ComponentError as error:
            seen.append(type(error.__cause__))
        return seen


@pytest.mark.guarantee("ET-3", "ET-4", "WI-1")
@pytest.mark.parametrize("drained_after", [0.0005, 1.0])
def test_a_drain_within_and_between_two_lists_closes_no_window(tmp_path: Path, drained_after: float) -> None:
    async def drain(run: Run) -> None:
        await asyncio.sleep(drained_after)
        await run.drain()

    counts = Counts(tmp_path)
    assert counts.run(begins_with(5), drain) == []
    assert counts.run(all_rows) == [10]


@pytest.mark.guarantee("ET-3", "ET-4", "WI-1")
def test_a_generator_that_raises_closes_no_window(tmp_path: Path) -> None:
    counts = Counts(tmp_path)
    assert counts.run(begins_with(5, then=ConnectionError("lost"))) == [ConnectionError]
    assert counts.run(all_rows) == [10]


class EndsItsIterator(Spout):
    """Lets a StopIteration out, so that it cannot go on."""

    output_fields = "at"

    def open(self) -> None:
        self.rows = iter([DAY, DAY + 1000])

    def next_tuple(self) -> None:
        self.collector.emit((next(self.rows),), message_id=1)


@spout("at", max_retries=5)
def raises_with_open_rows() -> Iterator[tuple[int]]:
    yield from ((at,) for _, at in ROWS)
    raise ConnectionError("lost")


class FailsOnce(Check):
    """Fails each row once, after a while."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(0.3)
        if tup["at"] in self.late:
            self.collector.ack(tup)
        else:
            self.late.append(tup["at"])
            self.collector.fail(tup)


def watermarks_of(source: Callable[[], Any], bolt: Callable[..., Any] = Check, during: Any = None) -> list[int]:
    """Run a source, and return the watermarks of the bolt behind it."""
    watermarks: list[int] = []
    builder = TopologyBuilder("early")
    builder.set_spout("rows", source, event_time=EventTime("at"))
    builder.set_bolt("check", lambda: bolt(watermarks, [])).shuffle_grouping("rows")
    try:
        run_topology(builder.build(), during=during)
    except ComponentError:
        watermarks.append(-1)
    return watermarks


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize("source", [EndsItsIterator, raises_with_open_rows])
@pytest.mark.parametrize("bolt", [Check, FailsOnce])
def test_a_source_that_is_broken_sends_no_end_also_when_its_rows_fail(source: Any, bolt: Any) -> None:
    watermarks = watermarks_of(source, bolt)
    assert watermarks.pop() == -1, "the run has failed"
    assert END_OF_TIME not in watermarks


class Waits(BurstSpout):
    """Its poll takes 2 s, and finds no more rows then."""

    output_fields = "at"

    async def next_tuples(self, limit: int) -> None:  # type: ignore[override]
        await asyncio.sleep(2)
        raise SpoutExhausted


@pytest.mark.guarantee("ET-3")
def test_a_poll_that_ends_during_a_drain_tells_no_end() -> None:
    async def drain(run: Run) -> None:
        await asyncio.sleep(1)
        await run.drain()

    assert END_OF_TIME not in watermarks_of(Waits, during=drain)
    assert watermarks_of(Waits) == [END_OF_TIME]


class Slow(Check):
    """Takes 2 s for a row."""

    async def execute(self, tup: Tuple) -> None:  # type: ignore[override]
        await asyncio.sleep(2)
        self.collector.ack(tup)


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize("drained_after", [1.0, 3.0])
def test_a_source_whose_rows_are_not_settled_when_the_drain_begins_leaves_its_end_to_a_later_run(drained_after: float) -> None:
    @spout("at")
    def one_row() -> Iterator[tuple[int]]:
        yield (DAY,)

    @spout("at")
    async def silent() -> AsyncIterator[tuple[int]]:
        await asyncio.sleep(100)
        yield (DAY,)

    async def drain(run: Run) -> None:
        await asyncio.sleep(drained_after)
        await run.drain()

    watermarks: list[int] = []
    builder = TopologyBuilder("early")
    builder.set_spout("rows", one_row, event_time=EventTime("at"))
    builder.set_spout("silent", silent)
    builder.set_bolt("slow", lambda: Slow(watermarks, [])).shuffle_grouping("rows")
    builder.set_bolt("other", lambda: Slow([], [])).shuffle_grouping("silent")
    assert run_topology(builder.build(), during=drain).state == "drained"
    assert (END_OF_TIME in watermarks) == (drained_after > 2)
