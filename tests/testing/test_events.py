"""`Events` plays rows and watermarks step by step, in plain topologies, in flows, and through rollbacks."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest

from engine import Bolt, Config, Run, StatefulBasicBolt, Topology, TopologyBuilder, Tuple, UsageError, spout
from engine.errors import ComponentError, TopologyError
from engine.event_time import END_OF_TIME, NO_WATERMARK, EventTime
from engine.streams import Flow, Late, Windowed, json_of, minutes, seconds, tumbling
from engine.testing import Capture, Events, KillTask, replaced, run_topology

SECS, NOON = EventTime("at", unit="s"), datetime(2026, 1, 1, 12, tzinfo=UTC)


class Show(Bolt):
    """Writes what it gets, in order: rows as their numbers, watermarks as `W` and seconds."""

    def __init__(self, shown: list[Any], fails: dict[int, int] | None = None) -> None:
        self.shown, self.fails = shown, {} if fails is None else fails

    def execute(self, tup: Tuple) -> None:
        at = tup["at"]
        if self.fails.get(at, 0):
            self.fails[at] -= 1
            self.shown.append(f"fails {at}")
            self.collector.fail(tup)
            return
        self.shown.append(at)
        self.collector.ack(tup)

    def pass_watermark(self, watermark: int) -> Iterator[None]:
        self.shown.append("end" if watermark == END_OF_TIME else f"W{watermark / 1e6:g}")
        return iter(())


def shown_by(events: Events, event_time: EventTime = SECS, *, tasks: int = 1, **options: Any) -> list[Any]:
    shown: list[Any] = []
    fails = options.pop("fails", None)
    builder = TopologyBuilder("events")
    builder.set_spout("events", events, tasks, event_time=event_time)
    builder.set_bolt("show", lambda: Show(shown, fails)).shuffle_grouping("events")
    assert run_topology(builder.build(), **options).state == "complete"
    return shown


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_and_watermarks_arrive_in_the_order_of_the_steps(tasks: int) -> None:
    events = Events("at")
    for at in (10, 11, 12):
        events.feed((at,))
    events.watermark(20, unit="s")
    for at in (5, 25):
        events.feed((at,))
    events.watermark(30, unit="s")
    events.feed((29,))
    events.close()
    shown = shown_by(events, tasks=tasks)
    if tasks > 1:
        shown[:3], shown[4:6] = sorted(shown[:3]), sorted(shown[4:6])
    assert shown == [10, 11, 12, "W20", 5, 25, "W30", 29, "end"]
    assert sorted(map(str, events.acked)) == list("123456")


@pytest.mark.guarantee("ET-1")
def test_without_a_watermark_it_follows_from_the_times() -> None:
    events = Events("at")
    events.feed((100,))
    events.advance(1)
    events.feed((95,))
    events.advance(1)
    events.close()
    shown = shown_by(events, EventTime("at", unit="s", max_out_of_order=seconds(10)))
    assert shown == [100, "W90", 95, "end"]


@pytest.mark.guarantee("ET-1")
def test_a_watermark_waits_for_rows_that_fail() -> None:
    events = Events("at", max_retries=2)
    events.feed((10,))
    events.watermark(20, unit="s")
    events.feed((15,))
    events.close()
    assert shown_by(events, fails={10: 2}) == ["fails 10", "fails 10", 10, "W20", 15, "end"]
    assert [message_id for message_id, _ in events.failed] == [1, 1]


@pytest.mark.guarantee("ET-1")
def test_a_row_that_does_not_come_again_holds_no_watermark() -> None:
    events = Events("at")
    events.feed((10,))
    events.watermark(20, unit="s")
    events.close()
    began: list[float] = []

    async def script(run: Run) -> None:
        await events.played()
        began.append(run.snapshot().uptime_secs)

    assert shown_by(events, fails={10: 1}, during=script) == ["fails 10", "W20", "end"]
    assert began[0] < 1


@pytest.mark.guarantee("ET-1")
def test_a_test_sees_that_an_open_row_holds_the_watermark() -> None:
    events, sink = Events("at"), Capture(settles=False)
    events.feed((10,))
    events.watermark(20, unit="s", wait=False)
    events.feed((15,))
    builder = TopologyBuilder("events")
    builder.set_spout("events", events, event_time=SECS)
    builder.set_bolt("sink", sink).shuffle_grouping("events")

    async def script(run: Run) -> None:
        await events.played()
        await sink.arrived(2)
        await asyncio.sleep(5)
        assert events.sent is None
        assert events.open == [1, 2]
        sink.settle_next()
        await asyncio.sleep(1)
        assert events.sent == datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC)
        sink.settle_next()
        events.close()

    assert run_topology(builder.build(), during=script).state == "complete"


@pytest.mark.guarantee("ET-3")
def test_an_idle_source_holds_nobody_until_its_next_row() -> None:
    quiet, busy = Events("at"), Events("at")
    shown: list[Any] = []
    quiet.feed((1,))
    quiet.watermark(1, unit="s")
    quiet.advance(10.5)
    quiet.idle()
    quiet.advance(20)
    quiet.feed((50,))
    quiet.advance(20)
    quiet.close()
    for at in range(40):
        busy.advance(1)
        busy.feed((at,))
        busy.watermark(at, unit="s")
    busy.close()
    builder = TopologyBuilder("events")
    builder.set_spout("quiet", quiet, event_time=SECS)
    builder.set_spout("busy", busy, event_time=SECS)
    builder.set_bolt("show", lambda: Show(shown)).shuffle_grouping("quiet").shuffle_grouping("busy")
    assert run_topology(builder.build()).state == "complete"
    watermarks = [int(each[1:]) for each in shown if str(each).startswith("W")]
    assert watermarks == [0, 1, *range(9, 30)], "held from 1 on, until the source is idle, and again from its next row on"


@pytest.mark.guarantee("ET-1")
def test_time_passes_between_steps_exactly() -> None:
    events, sink = Events("at"), Capture()
    for at in (1, 2, 3):
        events.feed((at,))
        events.advance(0.75)
    events.close()
    builder = TopologyBuilder("events")
    builder.set_spout("events", events)
    builder.set_bolt("sink", sink).shuffle_grouping("events")
    run_topology(builder.build())
    arrived = [arrival.secs - sink.arrivals[0].secs for arrival in sink.arrivals]
    assert arrived == pytest.approx([0, 0.75, 1.5], abs=0.01)


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("retries", [0, 3])
def test_a_new_instance_goes_on_with_the_steps(retries: int) -> None:
    events = Events("at", max_retries=retries)
    for at in range(10):
        events.feed((at,))
        events.watermark(at, unit="s")
        events.advance(1)
    events.close()
    shown = shown_by(events, faults=[KillTask("events", at_secs=3.5), KillTask("show", at_secs=6.5)])
    rows = [each for each in shown if isinstance(each, int)]
    watermarks = list(dict.fromkeys(each for each in shown if str(each).startswith("W")))
    assert rows == list(range(10))
    assert watermarks == [f"W{at}" for at in range(10)]
    assert shown[-1] == "end"


class Click(NamedTuple):
    page: str
    at: datetime


@dataclass
class Visit:
    page: str
    at: datetime


class Hit(TypedDict):
    page: str
    at: datetime


@pytest.mark.parametrize("row", [Click("home", NOON), Visit("home", NOON), Hit(page="home", at=NOON)])
def test_rows_have_any_type_of_rows(row: Any) -> None:
    events, sink = Events(Hit if isinstance(row, dict) else type(row), time="at"), Capture()
    events.feed(row)
    events.feed(row, at=NOON + minutes(1))
    events.close()
    builder = TopologyBuilder("events")
    builder.set_spout("events", events)
    builder.set_bolt("sink", sink).shuffle_grouping("events")
    run_topology(builder.build())
    assert sink.values == [("home", NOON), ("home", NOON + minutes(1))]


def test_values_that_are_no_rows_have_one_field() -> None:
    events = Events(str)
    assert events.output_fields["default"].names == ("value",)
    assert events.feed("home") == 1


def of_no_source() -> Any:
    raise AssertionError("the test replaces it")


def flow_of_windows(config: Config | None = None) -> tuple[Flow, list[Windowed[str, int]], list[Late[Click]]]:
    @spout("key", "value")
    def records() -> Iterator[tuple[bytes, bytes]]:
        yield of_no_source()

    results: list[Windowed[str, int]] = []
    late: list[Late[Click]] = []
    flow = Flow("clicks", config)
    clicks = flow.stream("clicks", records, Click, value=json_of(Click)).event_time("at", max_out_of_order=seconds(10))
    counts = clicks.key_by(lambda click: click.page).window(tumbling(minutes(1))).count(name="per-minute")
    counts.sink("results", results.append)
    counts.late.sink("late", late.append)
    return flow, results, late


@pytest.mark.guarantee("ET-1")
def test_a_source_of_a_flow_is_replaced_and_rows_get_their_times() -> None:
    flow, results, late = flow_of_windows()
    events = Events(Click, time="at")
    events.feed(Click("home", NOON))
    events.feed(Click("home", NOON + seconds(59)))
    events.watermark(NOON + minutes(1))
    events.feed(Click("home", NOON), at=NOON + seconds(30))
    events.feed(Click("home", NOON + seconds(61)))
    events.close()
    assert run_topology(replaced(flow.topology(), "clicks", events)).state == "complete"
    assert [(each.start, each.value) for each in results] == [(NOON, 2), (NOON + minutes(1), 1)]
    assert [each.row for each in late] == [Click("home", NOON + seconds(30))]


@pytest.mark.guarantee("ET-1")
def test_values_of_a_flow_are_decoded_as_those_of_the_source() -> None:
    flow, results, late = flow_of_windows()
    events = Events("value")
    events.feed((b'{"page": "home", "at": "2026-01-01T12:00:00Z"}',))
    events.watermark(NOON + minutes(1))
    events.close()
    assert run_topology(replaced(flow.topology(), "clicks", events)).state == "complete"
    assert [(each.key, each.start, each.value) for each in results] == [("home", NOON, 1)]
    assert late == []


class Sums:
    """Makes bolts with a state: for each row the watermark that the task had when it came."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.calls: list[int] = []

    def __call__(self) -> StatefulBasicBolt:
        sums = self

        class Sum(StatefulBasicBolt):
            watermark = NO_WATERMARK

            def pass_watermark(self, watermark: int) -> Iterator[None]:
                self.watermark = watermark
                return iter(())

            def execute(self, tup: Tuple) -> None:
                sums.calls.append(tup["at"])
                assert self.state.get(tup["at"]) is None, "each row counts once"
                self.state.put(tup["at"], self.watermark)

            def cleanup(self) -> None:
                if hasattr(self, "state"):
                    sums.of.update(self.state.items())

        return Sum()


def exact(events: Events, sums: Sums, tasks: int = 1) -> Topology:
    builder = TopologyBuilder("exact")
    builder.set_spout("events", events, tasks, event_time=SECS)
    builder.set_bolt("sum", sums, 2).fields_grouping("events", "at")
    return builder.build()


def minutes_of_rows(events: Events, first: int, count: int) -> dict[int, int]:
    """Feed rows, of which every other one is late, and return the watermarks that they must meet."""
    met: dict[int, int] = {}
    for number in range(first, first + count):
        events.watermark(number * 10, unit="s")
        for at in (number * 10 + 7, number * 10 - 5):
            events.feed((at,))
            met[at] = number * 10_000_000
        events.advance(0.5)
    return met


@pytest.mark.guarantee("EO-1", "ET-4")
@pytest.mark.parametrize("tasks", [1, 2])
def test_a_rollback_repeats_rows_and_watermarks(tasks: int) -> None:
    events, sums = Events("at"), Sums()
    met = minutes_of_rows(events, 1, 40)
    events.close()
    faults = [KillTask("sum", at_secs=4.3), KillTask("events", at_secs=9.7), KillTask("sum", task_index=1, at_secs=15.2)]
    finished = run_topology(exact(events, sums, tasks), Config(state_checkpoint_interval_ms=2000), faults=faults)
    assert finished.state == "complete"
    assert len(finished.strikes) == 3
    assert len(sums.calls) > len(met), "rows were repeated"
    assert sums.of == met


@pytest.mark.guarantee("EO-1", "ET-4")
def test_a_later_run_goes_on_with_the_steps(tmp_path: Path) -> None:
    events, sums = Events("at"), Sums()
    config = Config(state_provider=f"sqlite:///{tmp_path}/s.db", state_checkpoint_interval_ms=1000)
    met = minutes_of_rows(events, 1, 10)

    async def stop(run: Run) -> None:
        await events.played()
        await run.stop()

    run_topology(exact(events, sums), config, during=stop)
    met |= minutes_of_rows(events, 11, 5)
    events.close()
    run_topology(exact(events, sums), config)
    assert sums.of == met

    another = Events("at")
    another.feed((1,))
    another.advance(1)
    another.watermark(1000, unit="s")
    another.feed((999,))
    another.close()
    run_topology(exact(another, sums), config)
    assert sums.of == {**met, 1: 150_000_000, 999: 1_000_000_000}, "other events begin with their first step, and with the stored watermark"


def test_wrong_uses_are_refused() -> None:
    events = Events("page", "at")
    events.watermark(20, unit="s")
    with pytest.raises(UsageError, match="is before the one given last"):
        events.watermark(19, unit="s")
    with pytest.raises(UsageError, match="does not know the field for the time"):
        events.feed(("home", 1), at=2)
    with pytest.raises(UsageError, match="has 1 values, and the rows have 2: page, at"):
        events.feed(("home",))
    with pytest.raises(UsageError, match="is no tuple with the values page, at"):
        events.feed("home")
    with pytest.raises(UsageError, match="at least 0, not -1"):
        events.advance(-1)
    with pytest.raises(UsageError, match="no field 'att'"):
        Events("page", "at", time="att")
    with pytest.raises(UsageError, match="is no Click: it has no field 'page'"):
        Events(Click).feed(NOON)
    events.close()
    for step in (events.idle, lambda: events.advance(1), lambda: events.feed(("home", 1)), lambda: events.watermark(20, unit="s")):
        with pytest.raises(UsageError, match="closed"):
            step()


def test_a_watermark_of_a_source_without_times_ends_the_run() -> None:
    events = Events("at")
    events.watermark(20, unit="s")
    builder = TopologyBuilder("events")
    builder.set_spout("events", events)
    builder.set_bolt("sink", Capture()).shuffle_grouping("events")
    with pytest.raises(ComponentError, match="rows have no event time"):
        run_topology(builder.build())


def test_a_replaced_source_needs_the_field_of_the_times() -> None:
    builder = TopologyBuilder("events")
    builder.set_spout("source", Events("at", event_time=SECS))
    builder.set_bolt("sink", Capture()).shuffle_grouping("source")
    with pytest.raises(TopologyError, match="spout 'source': stream 'default' has no field 'at' with the event time"):
        replaced(builder.build(), "source", Events("page"))
