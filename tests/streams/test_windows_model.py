"""Windows against the plain model: any order, any split, rollbacks and restarts at any point, also within a close."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.streams.times import FIRST, INFINITY, to_micros
from engine.streams.windows import Calendar, Session, Sliding, calendar, count, open_keeper, session, sliding, sum_of, tumbling
from tests.model.window_model import SessionModel, WindowModel, window_of_calendar, windows_of_time
from tests.streams.memory_state import MemoryState

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC")
HOUR = 3_600_000_000
# Changes of the clock in these zones, and the day that Apia skipped.
CHANGES = (1_679_792_400_000_000, 1_698_541_200_000_000, 1_678_604_400_000_000, 1_696_087_800_000_000, 1_325_239_200_000_000)
micros = timedelta(microseconds=1)


@st.composite
def specs(draw: st.DrawFn) -> tuple[Any, Any, st.SearchStrategy[int]]:
    """Return a kind of windows, its model and times for it."""
    base = draw(st.sampled_from([0, -(10**15) - 7, 2**61, -(2**61)]))
    near = st.integers(base - 40, base + 40)
    kind = draw(st.sampled_from(["tumbling", "sliding", "session", "calendar"]))
    if kind == "session":
        gap = draw(st.integers(1, 20))
        return session(gap=gap * micros), SessionModel(gap), near
    if kind == "calendar":
        unit, tz, at = draw(st.sampled_from(["day", "day", "week", "month"])), draw(st.sampled_from(ZONES)), draw(st.sampled_from(CHANGES))
        times = st.integers(-75, 75).map(lambda hours: at + hours * HOUR) | st.integers(at - 3 * HOUR, at + 3 * HOUR)
        return calendar(unit, tz=tz), WindowModel(lambda time: window_of_calendar(unit, tz, time)), times
    size = draw(st.integers(1, 24))
    every = size if kind == "tumbling" else draw(st.integers(1, size))
    offset = draw(st.integers(-30, 30))
    made = sliding(size * micros, every=every * micros, offset=offset * micros)
    if kind == "tumbling":
        made = tumbling(size * micros, offset * micros)
    return made, WindowModel(lambda time: windows_of_time(size, every, offset, time)), near


class Tasks:
    """Tasks of a stage: a keeper each, and the results of all."""

    def __init__(self, spec: Sliding | Calendar | Session) -> None:
        self.spec, self.results, self.late = spec, [], []
        self.start([MemoryState()], (FIRST, FIRST))

    def start(self, states: list[MemoryState], progress: tuple[int, int]) -> None:
        self.states = states
        self.keepers = [open_keeper(state, self.spec, sum_of(lambda row: row[2]), progress=progress) for state in states]

    def add(self, rows: list[tuple[int, int, int]]) -> None:
        for number, keeper in enumerate(self.keepers):
            mine = [row for row in rows if row[0] % len(self.keepers) == number]
            late = keeper.add_rows([row[0] for row in mine], [row[1] for row in mine], mine)
            assert all(late_by_us == keeper.watermark - mine[index][1] for index, late_by_us in late)
            self.late += [mine[index] for index, _ in late]

    def rescale(self, parallelism: int) -> None:
        merged: dict[Any, dict[Any, Any]] = {}
        for state in self.states:
            for name, values in state.snapshot().items():
                merged.setdefault(name, {}).update(values)
        whole = MemoryState(merged)
        states = [MemoryState(whole.snapshot(lambda key, number=number: key % parallelism == number)) for number in range(parallelism)]
        self.start(states, max(keeper.progress for keeper in self.keepers))

    def roll_back(self, junk: list[tuple[int, int, int]]) -> None:
        """Go on for a while, and return to a snapshot."""
        snapshots, progress = [state.snapshot() for state in self.states], self.keepers[0].progress
        late = list(self.late)
        self.add(junk)
        for keeper in self.keepers:
            list(keeper.close(INFINITY, 2))
        self.late = late
        self.start([MemoryState(snapshot) for snapshot in snapshots], progress)

    def close(self, watermark: int, size: int, restarts: set[int]) -> None:
        """Close in slices; a task is killed behind the slices that `restarts` names."""
        progresses = []
        for number in range(len(self.keepers)):
            slices, seen, last = self.keepers[number].close(watermark, size), 0, None
            while part := next(slices, None):
                assert len(part) <= size
                ends = [one.end_us for one in part]
                assert isinstance(self.spec, Session) or (ends == sorted(ends) and (last is None or ends[0] >= last))
                last = ends[-1]
                self.results += [(one.key, one.start_us, one.end_us, one.value) for one in part]
                seen += 1
                if seen in restarts:
                    progress, snapshot = self.keepers[number].progress, self.states[number].snapshot()
                    list(slices)  # what is done after the checkpoint is lost
                    self.states[number] = MemoryState(snapshot)
                    self.keepers[number] = open_keeper(self.states[number], self.spec, sum_of(lambda row: row[2]), progress=progress)
                    slices = self.keepers[number].close(self.keepers[number].watermark, size)
            progresses.append(self.keepers[number].progress)
        assert all(done == mark for done, mark in progresses)


@pytest.mark.guarantee("WI-2")
@pytest.mark.guarantee("WI-3")
@pytest.mark.guarantee("WI-6")
@given(st.data())
def test_windows_equal_the_model(data: st.DataObject) -> None:
    spec, model, times = data.draw(specs())
    tasks, value = Tasks(spec), 1
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["rows", "rows", "rows", "mark", "mark", "rescale", "rollback"]))
        if step == "rows" or step == "rollback":
            rows = []
            for key, time in data.draw(st.lists(st.tuples(st.integers(0, 3), times), max_size=8)):
                rows.append((key, time, value))
                value *= 2  # a sum names the rows that it consists of
            if step == "rows":
                model.add(rows)
                cut = data.draw(st.integers(0, len(rows)))
                tasks.add(rows[:cut])
                tasks.add(rows[cut:])
            else:
                tasks.roll_back(rows)
        elif step == "mark":
            watermark = data.draw(times)
            model.close(watermark)
            tasks.close(max(watermark, model.watermark), data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(1, 6))))
        else:
            tasks.rescale(data.draw(st.integers(1, 3)))
        assert Counter(tasks.results) == Counter(model.results)
        assert Counter(tasks.late) == Counter(model.late)
    model.close(INFINITY)
    tasks.close(INFINITY, 2, set())
    assert Counter(tasks.results) == Counter(model.results)
    assert [state.namespaces() for state in tasks.states] == [[] for _ in tasks.states]
    assert all(keeper.open_windows == 0 for keeper in tasks.keepers)


def test_a_burst_in_one_pane_is_one_call_of_the_state() -> None:
    state = MemoryState()
    keeper = open_keeper(state, tumbling(timedelta(minutes=1)), count())
    assert keeper.add_rows(["a", "b"] * 128, list(range(256)), [None] * 256) == []
    assert state.calls == {"add_many": 1}
    assert list(keeper.close(60_000_000)) == [[("a", 0, 60_000_000, 128), ("b", 0, 60_000_000, 128)]]


def test_a_sliding_window_merges_each_pane_a_few_times_and_not_once_per_window() -> None:
    merges = 0

    class Counted(type(count())):  # type: ignore[misc]
        def merge(self, a: int, b: int) -> int:
            nonlocal merges
            merges += 1
            return a + b

    keeper = open_keeper(MemoryState(), sliding(timedelta(seconds=60), every=timedelta(seconds=1)), Counted())
    results = []
    for second in range(600):
        keeper.add_rows(["a", "b"], [second * 1_000_000] * 2, [None] * 2)
        for part in keeper.close(second * 1_000_000):
            results += part
    assert [one.value for one in results[-2:]] == [60, 60]
    assert merges <= 3 * len(results)


def test_the_histogram_of_lateness_counts_late_rows_only() -> None:
    keeper = open_keeper(MemoryState(), tumbling(timedelta(seconds=1)), count())
    list(keeper.close(10_000_000))
    late = keeper.add_rows(["a"] * 999, [10_000_000] * 999, [0] * 999) + keeper.add_rows(["a"], [3_000_000], ["old"])
    assert late == [(0, 7_000_000)]
    assert (keeper.lateness.rows, keeper.lateness.late, keeper.lateness.bound_that_keeps(0.99)) == (1000, 1, 0)
    assert 7_000_000 < keeper.lateness.bound_that_keeps(1.0) <= 14_000_000


@pytest.mark.parametrize(("tz", "at"), [("America/Toronto", datetime(1919, 3, 31, 4, 30)), ("America/Sao_Paulo", datetime(2018, 11, 4, 3))])
def test_a_day_without_a_midnight_begins_when_the_clock_is_put_forward(tz: str, at: datetime) -> None:
    change = to_micros(at.replace(tzinfo=UTC))
    days = calendar("day", tz=tz)
    for time in (change - 30 * HOUR, change - HOUR, change - 1, change, change + 1, change + HOUR, change + 30 * HOUR):
        assert [days.pane_of(time)] == window_of_calendar("day", tz, time)
    assert days.pane_of(change)[0] == change


def test_days_of_23_24_and_25_hours() -> None:
    days = calendar("day", tz="Europe/Berlin")
    noons = (datetime(2023, 3, 26, 12, tzinfo=UTC), datetime(2023, 3, 27, 12, tzinfo=UTC), datetime(2023, 10, 29, 12, tzinfo=UTC))
    assert [(end - start) // HOUR for start, end in (days.pane_of(to_micros(noon)) for noon in noons)] == [23, 24, 25]


def test_times_beyond_the_calendar_have_one_window_on_each_side() -> None:
    months = calendar("month", tz="Pacific/Apia")
    assert months.pane_of(-(2**61)) == months.pane_of(-(2**60)) != months.pane_of(0)
    assert months.pane_of(2**61) == months.pane_of(2**60)
    keeper = open_keeper(MemoryState(), months, count())
    keeper.add_rows(["a", "a"], [-(2**61), 2**61], [0, 0])
    assert [one.value for part in keeper.close(INFINITY) for one in part] == [1, 1]
    assert keeper.progress == (INFINITY, INFINITY)


def test_sessions_are_closed_in_slices_without_a_scan_of_the_open_ones() -> None:
    state = MemoryState()
    keeper = open_keeper(state, session(gap=timedelta(seconds=30)), count())
    keys = list(range(20_000))
    keeper.add_rows(keys, [key * 1_000_000 for key in keys], keys)
    state.calls.clear()
    closed = [one for part in keeper.close(40_000_000, 5) for one in part]
    assert [one.key for one in closed] == list(range(11))
    assert keeper.open_windows == 20_000 - 11
    assert state.calls["get_many"] <= 24  # one for each bucket that is due
