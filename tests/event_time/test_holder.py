"""Who holds a watermark: each reason, as the snapshot, the metrics, the views and the log say it (ET-6)."""

import asyncio
import json
from collections.abc import Callable, Collection, Hashable
from datetime import timedelta
from typing import Any

import pytest

from engine import BasicBolt, Bolt, Config, Run, Spout, TopologyBuilder, Tuple
from engine.event_time import END_OF_TIME, EventTime, Mark
from engine.event_time.holder import Holders, TaskView
from engine.runtime.event_time_entry import ComponentEventTime, EventTimeEntry
from engine.runtime.snapshot_json import snapshot_from_dict
from engine.testing import run_topology

DAY = 1_577_836_800_000
"""Begin of the virtual time in milliseconds."""
NO_WAIT = EventTime("at", wait_for_acks=False)


class Rows(Spout):
    """A row for each second, of the partitions that a test names: (partition, rows, caught up)."""

    output_fields = ("at", "partition")

    def __init__(self, settings: EventTime, parts: dict[Hashable, tuple[int, bool | None]] | None = None) -> None:
        self.event_time, self.parts = settings, {"p": (1000, False)} if parts is None else parts
        self.sent = dict.fromkeys(self.parts, 0)
        self.due = 0.0

    def partitions(self) -> Collection[Hashable]:
        return list(self.parts)

    def partition_of(self, message_id: Any) -> Hashable:
        return str(message_id[1])

    def caught_up(self, partition: Hashable = None) -> bool | None:
        return self.parts[partition][1]

    def fail(self, message_id: Any) -> None:
        """Keep the row, and never send it again."""

    def next_tuple(self) -> None:
        now = self.context.clock.now()
        if now < self.due:
            return
        self.due = now + 1.0
        for partition, (most, _) in self.parts.items():
            if self.sent[partition] < most:
                self.sent[partition] += 1
                at = DAY + self.sent[partition] * 1000
                self.collector.emit((at, partition), message_id=(at, partition))


class Takes(Bolt):
    """Acks its inputs, except the third one."""

    output_fields = "at"
    verdict = "keep"

    def prepare(self) -> None:
        self.taken = 0
        self.kept: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.taken += 1
        self.collector.emit((tup["at"],), tup)
        if self.taken != 3:
            self.collector.ack(tup)
        elif self.verdict == "keep":
            self.kept.append(tup)
        else:
            self.collector.fail(tup)


class Fails(Takes):
    verdict = "fail"


class Passes(BasicBolt):
    output_fields = "at"

    def execute(self, tup: Tuple) -> tuple[int]:
        return (tup["at"],)


class Sleeps(BasicBolt):
    """Never returns from its third input."""

    output_fields = "at"

    def prepare(self) -> None:
        self.taken = 0

    async def execute(self, tup: Tuple) -> tuple[int]:
        self.taken += 1
        await asyncio.sleep(0 if self.taken < 3 else 10_000)
        return (tup["at"],)


def shown(rows: Callable[[], Rows], middle: Any = Passes, secs: float = 30.0) -> tuple[dict[str, ComponentEventTime], Any]:
    """Return the watermarks of `rows`, `middle` and `last` after some seconds, and the snapshot."""
    builder = TopologyBuilder("held")
    builder.set_spout("rows", rows)
    builder.set_bolt("middle", middle).shuffle_grouping("rows")
    builder.set_bolt("last", Passes).shuffle_grouping("middle")
    snapshots: list[Any] = []

    async def look(run: Run) -> None:
        await asyncio.sleep(secs)
        snapshots.append(run.snapshot())
        await run.stop()

    run_topology(builder.build(), Config(enable_message_timeouts=False), during=look)
    return {each.component_id: each for each in snapshots[0].entry(EventTimeEntry).value}, snapshots[0]


@pytest.mark.guarantee("ET-6")
def test_a_row_that_is_not_acked_is_named_with_the_task_that_has_it() -> None:
    found, snapshot = shown(lambda: Rows(EventTime("at")), Takes)
    last = found["last"]
    assert last.watermark is not None
    assert last.watermark <= (DAY + 3000) * 1000
    assert last.holder is not None
    assert last.holder.startswith("rows[1]: a row of 2")
    assert "is not acked; the oldest input that is not settled is at middle[2]" in last.holder
    assert last.stands
    assert last.stood_secs > 20
    assert last.lag_secs is not None
    line = snapshot.entry(EventTimeEntry).text()
    assert line.startswith("event time ")
    assert "stands for 2" in line
    assert "rows[1]: a row of" in line


@pytest.mark.guarantee("ET-6")
def test_a_failed_row_is_named_with_the_time_that_is_left() -> None:
    found, _ = shown(lambda: Rows(EventTime("at", hold_secs=60)), Fails)
    last = found["last"]
    assert last.holder is not None
    assert f"row ({DAY + 3000}, 'p') has failed, and waits to be sent again (W passes it in 3" in last.holder
    assert found["rows"].held_rows == 1


@pytest.mark.guarantee("ET-6")
@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"p": (1000, False), "q": (5, False)}, "partition 'q' has come to 00:00:05, while others have come to 00:00:"),
        ({"p": (1000, False), "q": (0, False)}, "partition 'q' has had no row, while others have come to"),
        ({"p": (1000, False), "q": (0, True)}, "partition 'q' has had no row"),
        ({"p": (5, True)}, "idle, because it is read to its end"),
        ({"p": (5, None)}, "idle, because it has had no row for a while"),
        ({}, "no partition is assigned to it"),
        ({next(iter(Spout.UNKNOWN_PARTITIONS)): (0, False), "p": (1000, False)}, "its partitions are not known yet"),
    ],
)
def test_a_partition_is_named_with_its_greatest_time(parts: dict[Hashable, tuple[int, bool | None]], says: str) -> None:
    known = any(end is True for _, end in parts.values())
    found, _ = shown(lambda: Rows(EventTime("at", idle_secs=100 if known and len(parts) == 2 else 10), parts))
    holder = found["last"].holder
    assert holder is not None
    assert holder.startswith(f"rows[1]: {says}"), holder
    if "not known" in says:
        assert found["last"].watermark is None
    elif len(parts) == 2:
        assert ("and is idle in 7" in holder) == known
        assert ("is not read to its end" in holder) != known
    else:
        assert found["last"].is_idle
        assert not found["last"].stands


@pytest.mark.guarantee("ET-6")
@pytest.mark.parametrize("middle", [Takes, Sleeps])
def test_a_bolt_with_an_unsettled_input_in_front_of_the_mark_is_named(middle: type[Bolt]) -> None:
    found, _ = shown(lambda: Rows(NO_WAIT), middle)
    last, rows = found["last"], found["rows"]
    assert last.holder is not None
    assert last.holder.startswith("middle[2]: it has not settled an input that it took 2")
    assert rows.watermark is not None
    assert last.watermark is not None
    assert rows.watermark > last.watermark
    assert not rows.stands, "the source itself goes on"


@pytest.mark.guarantee("ET-6")
def test_a_bolt_whose_inputs_are_held_by_a_recovery_is_named() -> None:
    views = {
        1: TaskView("rows[1]", Mark(9, True), "a row is not acked"),
        2: TaskView("count[2]", Mark(5, True), "a checkpoint or a recovery holds its inputs", {1: Mark(5, True)}),
        3: TaskView("last[3]", Mark(5, True), "its mailbox", {2: Mark(5, True)}),
        4: TaskView("ended[4]", Mark(END_OF_TIME, True), "nothing", {2: Mark(END_OF_TIME, True)}),
    }
    holders = Holders(views.__getitem__)
    assert holders.holder(3) == "count[2]: a checkpoint or a recovery holds its inputs"
    assert holders.holder(1) == "rows[1]: a row is not acked"
    assert holders.holder(4) is None


@pytest.mark.guarantee("ET-6")
def test_a_standing_watermark_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    shown(lambda: Rows(EventTime("at")), Takes, secs=200.0)
    told = [record.getMessage() for record in caplog.records if "the watermark of" in record.getMessage()]
    assert len(told) == 3
    assert "(and those of 2 more components) stands at 00:00:0" in told[0]
    assert "although rows come. Who holds it: rows[1]: a row of 6" in told[0]
    caplog.clear()
    shown(lambda: Rows(EventTime("at", max_out_of_order=timedelta(seconds=5))), Passes, secs=200.0)
    assert "the watermark of" not in caplog.text


@pytest.mark.guarantee("ET-6")
def test_the_watermarks_are_in_the_metrics_and_the_json() -> None:
    _, snapshot = shown(lambda: Rows(EventTime("at")), Passes)
    entry = snapshot.entry(EventTimeEntry)
    families = {family.name: family for family in entry.families("held")}
    names = ("lag_seconds", "stood_seconds", "idle", "held_rows", "timestamp_seconds", "open_windows")
    assert set(families) == {f"stormcell_watermark_{name}" for name in names}
    stamps = {sample.labels["component"]: sample.value for sample in families["stormcell_watermark_timestamp_seconds"].samples}
    assert set(stamps) == {"rows", "middle", "last"}
    assert all(value >= DAY / 1000 for value in stamps.values())
    again = snapshot_from_dict(json.loads(json.dumps(snapshot.to_dict())), (EventTimeEntry,)).entry(EventTimeEntry)
    assert [each.component_id for each in again.value] == ["rows", "middle", "last"]
    assert again.text() == entry.text()


def test_a_run_without_event_time_has_no_entry() -> None:
    builder = TopologyBuilder("plain")
    builder.set_spout("rows", Plain)
    builder.set_bolt("last", Passes).shuffle_grouping("rows")

    async def look(run: Run) -> None:
        assert "event_time" not in run.snapshot().to_dict()
        await run.stop()

    run_topology(builder.build(), during=look)


class Plain(Spout):
    output_fields = "at"

    def next_tuple(self) -> None:
        self.collector.emit((1,))
