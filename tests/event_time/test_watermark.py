"""What the watermark of a task is (ET-1, ET-3)."""

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.errors import EventTimeError, UsageError, WrongTimeUnit
from engine.event_time import END_OF_TIME, NO_WATERMARK, EventTime, Mark, PartitionView, SourceClock, TaskWatermark
from engine.event_time.instants import datetime_of

WALL_US = 1_700_000_000_000_000


@pytest.mark.guarantee("ET-1")
def test_the_watermark_of_a_task_is_that_of_its_slowest_source() -> None:
    task = TaskWatermark([1, 2])
    assert task.note(1, Mark(30, True)) is None
    assert task.note(2, Mark(20, True)) == Mark(20, True)
    assert task.note(2, Mark(40, True)) == Mark(30, True)
    assert task.holders() == [1]


@pytest.mark.guarantee("ET-1")
def test_a_watermark_never_falls() -> None:
    task = TaskWatermark([1, 2])
    task.note(1, Mark(30, False))
    task.note(2, Mark(50, True))
    assert task.mark.watermark == 50
    assert task.note(1, Mark(40, True)) is None
    assert task.mark == Mark(50, True)


@pytest.mark.guarantee("ET-3")
def test_when_all_sources_are_idle_the_last_of_them_counts() -> None:
    task = TaskWatermark([1, 2])
    task.note(1, Mark(30, False))
    task.note(2, Mark(20, False))
    assert task.mark == Mark(30, False)


@pytest.mark.guarantee("ET-3")
def test_a_source_at_its_end_closes_nothing_while_another_one_is_idle() -> None:
    task = TaskWatermark([1, 2])
    task.note(1, Mark(END_OF_TIME, True))
    task.note(2, Mark(20, False))
    assert task.mark == Mark(20, False)
    assert task.note(2, Mark(END_OF_TIME, True)) == Mark(END_OF_TIME, True, before_end=20)


@pytest.mark.guarantee("ET-3")
def test_when_all_others_are_idle_a_source_at_its_end_counts_with_its_watermark_of_before() -> None:
    task = TaskWatermark([1, 2])
    task.note(1, Mark(END_OF_TIME, True, before_end=50))
    assert task.mark == Mark(NO_WATERMARK, True), "the other one is not idle"
    assert task.note(2, Mark(20, False)) == Mark(50, False)
    assert task.note(2, Mark(30, True)) == Mark(50, True)
    assert task.note(2, Mark(60, False)) == Mark(60, False)
    assert task.note(2, Mark(END_OF_TIME, True, before_end=70)) == Mark(END_OF_TIME, True, before_end=70)
    assert task.note(1, Mark(END_OF_TIME, True, before_end=50)) is None
    task.go_back()
    assert task.mark == Mark(NO_WATERMARK, True)
    assert task.note(2, Mark(20, False)) is None
    assert task.note(1, Mark(40, False)) == Mark(40, False), "the end is forgotten"


@pytest.mark.guarantee("ET-3")
def test_the_end_of_a_task_tells_the_greatest_watermark_of_before() -> None:
    task = TaskWatermark([1, 2])
    task.note(1, Mark(END_OF_TIME, True, before_end=50))
    assert task.note(2, Mark(END_OF_TIME, True, before_end=20)) == Mark(END_OF_TIME, True, before_end=50)


BEHIND_ONE = {1: frozenset([7]), 2: frozenset([7])}
"""Two tasks behind the same source."""


@pytest.mark.guarantee("ET-1", "ET-5")
def test_a_task_that_has_not_heard_that_its_source_goes_on_is_waited_for() -> None:
    task = TaskWatermark([1, 2], BEHIND_ONE)
    task.note(1, Mark(20, False))
    task.note(2, Mark(20, False))
    task.note(1, Mark(50, True))
    assert task.mark == Mark(20, True)
    assert task.note(2, Mark(50, True)) == Mark(50, True)


@pytest.mark.guarantee("ET-1", "ET-5")
def test_an_idle_source_that_follows_the_clock_moves_a_task_when_all_between_have_heard_of_it() -> None:
    task = TaskWatermark([1, 2], BEHIND_ONE)
    task.note(1, Mark(20, False))
    task.note(2, Mark(20, False))
    assert task.note(1, Mark(90, False)) is None
    assert task.note(2, Mark(90, False)) == Mark(90, False)


@pytest.mark.guarantee("ET-1", "ET-5")
def test_the_end_of_a_source_counts_when_all_behind_it_have_heard_of_it() -> None:
    task = TaskWatermark([1, 2, 3], BEHIND_ONE)
    task.note(2, Mark(20, False))
    task.note(3, Mark(90, True))
    task.note(1, Mark(END_OF_TIME, True))
    assert task.mark == Mark(20, True)
    assert task.note(2, Mark(END_OF_TIME, True)) == Mark(90, True)


@pytest.mark.guarantee("ET-3")
def test_a_task_that_is_idle_because_of_another_source_is_not_waited_for() -> None:
    task = TaskWatermark([1, 2], {1: frozenset([7]), 2: frozenset([7, 8])})
    task.note(1, Mark(20, False))
    task.note(2, Mark(60, True))
    assert task.mark == Mark(60, True)  # 8 goes on
    task = TaskWatermark([1, 2], {1: frozenset([7]), 2: frozenset([7, 8])})
    task.note(1, Mark(60, True))
    task.note(2, Mark(20, False))
    assert task.mark == Mark(20, True)  # 7 goes on, which the other one will hear


class Source:
    """A `SourceClock` with partitions that a test changes."""

    def __init__(self, **settings: Any) -> None:
        self.clock = SourceClock(EventTime("at", **settings))
        self.views: dict[Hashable, PartitionView] = {}
        self.now = 0.0
        self.open: dict[int, float] = {}
        """Emit times of the open trees."""

    def row(self, time: int, partition: Hashable = None, *, caught_up: bool | None = None) -> None:
        """Emit a row."""
        view = self.views.get(partition, PartitionView(NO_WATERMARK, 0, caught_up))
        self.views[partition] = PartitionView(max(time, view.greatest), view.rows + 1, caught_up)

    def look(self, secs: float = 0.0) -> Mark | None:
        """Look at the watermark after some seconds."""
        self.now += secs
        self.clock.record(self.now, WALL_US, self.views)
        return self.clock.take_due(self.now, min(self.open.values(), default=None), self.open.__contains__)


@pytest.mark.guarantee("ET-1")
def test_a_source_stays_behind_the_greatest_time_of_its_slowest_partition() -> None:
    source = Source(max_out_of_order=timedelta(microseconds=5))
    source.row(100, "a")
    source.row(60, "b")
    assert source.look() == Mark(55, True)


@pytest.mark.guarantee("ET-1")
def test_a_watermark_leaves_when_the_rows_before_it_are_settled() -> None:
    source = Source()
    source.row(100)
    source.open[1] = source.now
    assert source.look(1.0) is None
    source.now += 0.5
    source.row(200)
    source.open[2] = source.now
    assert source.look(1.0) is None
    del source.open[1]
    assert source.look(1.0) == Mark(100, True)
    del source.open[2]
    assert source.look(1.0) == Mark(200, True)


@pytest.mark.guarantee("ET-1")
def test_without_waiting_for_acks_a_watermark_leaves_at_once() -> None:
    source = Source(wait_for_acks=False)
    source.row(100)
    source.open[1] = source.now
    assert source.look(1.0) == Mark(100, True)


@pytest.mark.guarantee("ET-1")
def test_a_failed_row_holds_the_watermark_until_it_has_succeeded() -> None:
    source = Source(hold_secs=60)
    source.row(100)
    source.clock.note_failed("row", source.now, source.now)
    assert source.look(1.0) is None
    source.clock.held["row"].root = 7
    source.open[7] = source.now
    assert source.look(1.0) is None
    del source.open[7]
    assert source.look(1.0) == Mark(100, True)
    assert source.clock.passed_held == 0


@pytest.mark.guarantee("ET-1")
def test_a_failed_row_that_does_not_come_back_is_passed_after_hold_secs() -> None:
    source = Source(hold_secs=60)
    source.row(100)
    source.clock.note_failed("row", source.now, source.now)
    assert source.look(59.0) is None
    assert source.look(1.0) == Mark(100, True)
    assert source.clock.passed_held == 1


@pytest.mark.guarantee("ET-1")
def test_a_row_that_is_given_up_holds_nothing() -> None:
    source = Source()
    source.row(100)
    source.clock.note_failed("row", source.now, source.now)
    source.clock.forget_failed(["row"])
    assert source.look(1.0) == Mark(100, True)


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize("caught_up", [True, None])
def test_a_partition_that_is_read_to_its_end_or_cannot_know_becomes_idle(caught_up: bool | None) -> None:
    source = Source(idle_secs=10)
    source.row(100, "a", caught_up=False)
    source.row(60, "b", caught_up=caught_up)
    assert source.look() == Mark(60, True)
    assert source.look(9.0) is None
    assert source.look(1.0) == Mark(100, True)
    source.row(70, "b", caught_up=caught_up)
    assert source.look(1.0) is None, "it never falls"


@pytest.mark.guarantee("ET-3")
def test_a_partition_that_lags_is_not_idle_however_long_it_is_silent() -> None:
    source = Source(idle_secs=10)
    source.row(100, "a", caught_up=False)
    source.row(60, "b", caught_up=False)
    assert source.look() == Mark(60, True)
    assert source.look(10_000.0) is None


@pytest.mark.guarantee("ET-3")
def test_a_partition_without_a_row_holds_the_watermark_until_it_is_idle() -> None:
    source = Source(idle_secs=10)
    source.row(100, "a", caught_up=False)
    source.views["b"] = PartitionView(NO_WATERMARK, 0, True)
    assert source.look() is None
    assert source.look(10.0) == Mark(100, True)


@pytest.mark.guarantee("ET-3")
def test_a_source_without_partitions_is_idle_and_one_that_follows_the_clock_goes_on() -> None:
    assert Source().look() == Mark(NO_WATERMARK, False)
    source = Source(close_when_idle=True, max_out_of_order=timedelta(seconds=1))
    assert source.look() == Mark(WALL_US - 1_000_000, False)


@pytest.mark.guarantee("ET-3")
def test_the_end_is_the_last_watermark_unless_the_source_is_polled_again() -> None:
    source = Source()
    source.row(100)
    source.open[1] = source.now
    source.clock.record_end(1.0)
    source.clock.forget_end()
    source.clock.record_end(2.0)
    assert source.clock.take_due(3.0, 0.0, source.open.__contains__) is None
    assert source.clock.take_due(3.0, None, source.open.__contains__) == Mark(END_OF_TIME, True)
    assert source.clock.has_ended


@pytest.mark.guarantee("ET-3")
@pytest.mark.parametrize(("known", "before_end"), [(None, 95), (60, 60)])
def test_the_end_tells_the_watermark_that_the_source_would_have_if_it_were_idle(known: int | None, before_end: int) -> None:
    source = Source(max_out_of_order=timedelta(microseconds=5))
    source.row(100, "a")
    source.row(50, "b")
    source.clock.record(0.0, WALL_US, source.views, known)
    source.clock.record_end(0.0, 100)
    assert source.clock.has_end
    assert source.clock.take_due(0.0, None, source.open.__contains__) == Mark(END_OF_TIME, True, before_end)
    assert source.clock.before_end == (known or 45), "a later run begins with what has been sent"
    assert source.clock.go_back(END_OF_TIME) == Mark(END_OF_TIME, True, before_end), "an instance that dies behind its end"
    assert source.clock.go_back(40) == Mark(40, True)


@pytest.mark.guarantee("ET-4")
def test_a_rollback_takes_the_watermark_back() -> None:
    source = Source()
    source.row(100)
    assert source.look() == Mark(100, True)
    assert source.clock.go_back(40) == Mark(40, True)
    assert source.look() == Mark(100, True)


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize(
    ("value", "unit", "micros"),
    [
        (1_700_000_000_000, None, WALL_US),
        (1_700_000_000.0, None, WALL_US),
        (1_700_000_000, "s", WALL_US),
        (WALL_US, "us", WALL_US),
        (WALL_US * 1000 + 999, "ns", WALL_US),
        (datetime_of(WALL_US), None, WALL_US),
        (datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1), None, -1),
    ],
)
def test_times_become_microseconds(value: Any, unit: Any, micros: int) -> None:
    assert EventTime("at", unit=unit).micros(value) == micros


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("value", [None, True, "2024-01-01", float("nan"), datetime(2024, 1, 1), 2**80])
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(EventTimeError):
        EventTime("at").micros(value)


@pytest.mark.guarantee("ET-1")
def test_a_first_time_with_another_unit_is_refused_with_the_name_of_the_setting() -> None:
    settings = EventTime("at")
    settings.check_first(1_700_000_000_000, WALL_US, WALL_US)
    with pytest.raises(WrongTimeUnit, match="1970-01-20") as refused:
        settings.check_first(1_700_000_000, WALL_US // 1000, WALL_US)
    assert "unit" in str(refused.value.hint)
    EventTime("at", unit="ms").check_first(1_700_000_000, WALL_US // 1000, WALL_US)
    with pytest.raises(WrongTimeUnit, match="behind the year 9999 with unit='s'"):
        EventTime("at", unit="s").check_first(1_700_000_000_000, WALL_US * 1000, WALL_US)


@pytest.mark.parametrize(
    "settings", [{"max_out_of_order": 5}, {"max_out_of_order": timedelta(-1)}, {"idle_secs": -1}, {"unit": "m"}, {"hold_secs": "long"}]
)
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(settings))):
        EventTime("at", **settings)


@pytest.mark.parametrize("name", ["max_out_of_order", "max_ahead"])
def test_durations_that_are_too_long_for_a_time_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=999999999 days.* is too long") as refused:
        EventTime("at", **{name: timedelta.max})
    assert "73,000 years" in str(refused.value.hint)
    EventTime("at", **{name: timedelta(days=365 * 73_000)})
