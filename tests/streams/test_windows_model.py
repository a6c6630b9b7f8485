"""Windows against the plain model: any order, any split, rollbacks and restarts at any point, also within a close."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.streams.aggregates import Collect, Count, Sum
from engine.streams.rows import Revised
from engine.streams.times import FIRST, INFINITY, to_micros
from engine.streams.windows import (
    Calendar,
    Session,
    Sliding,
    Updates,
    Windowed,
    calendar,
    open_keeper,
    session,
    sliding,
    tumbling,
)
from tests.model.window_model import SessionModel, WindowModel, window_of_calendar, windows_of_time
from tests.streams.memory_state import MemoryState, StoredState

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC")
HOUR = 3_600_000_000
# Changes of the clock in these zones, and the day that Apia skipped.
CHANGES = (1_679_792_400_000_000, 1_698_541_200_000_000, 1_678_604_400_000_000, 1_696_087_800_000_000, 1_325_239_200_000_000)
micros = timedelta(microseconds=1)


@st.composite
def specs(draw: st.DrawFn, allowed: int = 0, early: bool = False) -> tuple[Any, Any, st.SearchStrategy[int]]:
    """Return a kind of windows, its model and times for it."""
    base = draw(st.sampled_from([0, -(10**15) - 7, 2**61, -(2**61)]))
    near = st.integers(base - 40, base + 40)
    kind = draw(st.sampled_from(["tumbling", "sliding", "session", "session", "calendar"]))
    if kind == "session":
        gap = draw(st.integers(1, 20))
        return session(gap=gap * micros), SessionModel(gap, allowed, early=early), near
    if kind == "calendar":
        unit, tz, at = draw(st.sampled_from(["day", "day", "week", "month"])), draw(st.sampled_from(ZONES)), draw(st.sampled_from(CHANGES))
        times = st.integers(-75, 75).map(lambda hours: at + hours * HOUR) | st.integers(at - 3 * HOUR, at + 3 * HOUR)
        return calendar(unit, tz=tz), WindowModel(lambda time: window_of_calendar(unit, tz, time), allowed * HOUR, early=early), times
    size = draw(st.integers(1, 24))
    every = size if kind == "tumbling" else draw(st.integers(1, size))
    offset = draw(st.integers(-30, 30))
    made = sliding(size * micros, every=every * micros, offset=offset * micros)
    if kind == "tumbling":
        made = tumbling(size * micros, offset * micros)
    return made, WindowModel(lambda time: windows_of_time(size, every, offset, time), allowed, early=early), near


AnyState: TypeAlias = MemoryState | StoredState


class Tasks:
    """Tasks of a stage: a keeper each, and the results of all."""

    def __init__(self, spec: Sliding | Calendar | Session, updates: Updates | None, state: type[AnyState], form: type = int) -> None:
        self.state, self.form = state, form
        self.spec, self.results, self.late = spec, [], []
        self.updates = updates
        self.start([self.state()], (FIRST, FIRST))

    def start(self, states: list[AnyState], progress: tuple[int, int]) -> None:
        self.states = states
        self.keepers = [self.keeper(state, progress) for state in states]

    def keeper(self, state: AnyState, progress: tuple[int, int]) -> Any:
        return open_keeper(state, self.spec, Sum(lambda row: row[2]), progress=progress, updates=self.updates)

    def add(self, rows: list[tuple[int, int, int]]) -> None:
        for number, keeper in enumerate(self.keepers):
            mine = [row for row in rows if row[0] % len(self.keepers) == number]
            late = keeper.add_rows([self.form(row[0]) for row in mine], [row[1] for row in mine], mine)
            assert all(late_by == keeper.watermark - mine[index][1] for index, late_by in late)
            self.late += [mine[index] for index, _ in late]

    def rescale(self, parallelism: int) -> None:
        merged: dict[Any, dict[Any, Any]] = {}
        for state in self.states:
            for name, values in state.snapshot().items():
                merged.setdefault(name, {}).update(values)
        whole = self.state(merged)
        states = [self.state(whole.snapshot(lambda key, number=number: key % parallelism == number)) for number in range(parallelism)]
        self.start(states, max(keeper.progress for keeper in self.keepers))

    def roll_back(self, junk: list[tuple[int, int, int]]) -> None:
        """Go on for a while, and return to a snapshot."""
        snapshots, progress = [state.snapshot() for state in self.states], self.keepers[0].progress
        late = list(self.late)
        self.add(junk)
        for keeper in self.keepers:
            list(keeper.close(INFINITY, 2))
        self.late = late
        self.start([self.state(snapshot) for snapshot in snapshots], progress)

    def update(self, size: int, restarts: set[int]) -> None:
        self.run(lambda keeper: keeper.updates(size), size, restarts)

    def close(self, watermark: int, size: int, restarts: set[int]) -> None:
        self.run(lambda keeper: keeper.close(max(watermark, keeper.watermark), size), size, restarts)
        assert all(keeper.closed == keeper.watermark for keeper in self.keepers)

    def run(self, begin: Callable[[Any], Iterator[list[Any]]], size: int, restarts: set[int]) -> None:
        """Give results in slices. A task is killed behind the slices that `restarts` names, and does it all again."""
        for number in range(len(self.keepers)):
            progress, snapshot = self.keepers[number].progress, self.states[number].snapshot()
            slices, seen, last, given = begin(self.keepers[number]), 0, FIRST, list[Any]()
            while part := next(slices, None):
                assert len(part) <= size
                finals = [end for _, _, end, _, _, kind, _ in map(flat, part) if kind == "final"]
                assert isinstance(self.spec, Session) or [last, *finals] == sorted([last, *finals])
                last = finals[-1] if finals else last
                given += [flat(one) if isinstance(one, Revised) else tuple(one) for one in part]
                seen += 1
                if seen in restarts:
                    self.states[number] = self.state({name: dict(values) for name, values in snapshot.items()})
                    self.keepers[number] = self.keeper(self.states[number], progress)
                    slices, last, given = begin(self.keepers[number]), FIRST, []
            self.results += given
            assert {type(one[0]) for one in self.results} <= {self.form}


def flat(one: Any) -> tuple[Any, ...]:
    return (*one.value, *one[1:]) if isinstance(one, Revised) else (*one, 0, "final", ())


@pytest.mark.guarantee("WI-2")
@pytest.mark.guarantee("WI-3")
@pytest.mark.guarantee("WI-6")
@given(st.data())
def test_windows_equal_the_model(data: st.DataObject) -> None:
    drive(data, *data.draw(specs()))


@pytest.mark.guarantee("ET-2")
@pytest.mark.guarantee("WI-3")
@pytest.mark.guarantee("WI-4")
@pytest.mark.guarantee("WI-6")
@given(st.data())
def test_updates_equal_the_model(data: st.DataObject) -> None:
    allowed, early = data.draw(st.sampled_from([(0, True), (1, False), (15, False), (40, True)]))
    drive(data, *data.draw(specs(allowed, early)))


def drive(data: st.DataObject, spec: Any, model: Any, times: st.SearchStrategy[int]) -> None:
    """Do the same with tasks and with the model."""
    revises = bool(model.allowed or model.early)

    def shown(results: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return results as the model gives them. One without updates gives no revisions."""
        return [one[:4] if not revises and one[4:] == (0, "final", ()) else one for one in results]

    updates = Updates(model.allowed, model.early) if revises or data.draw(st.booleans()) else None
    state, form = data.draw(st.sampled_from([MemoryState, StoredState])), data.draw(st.sampled_from([int, float, Decimal]))
    tasks, value = Tasks(spec, updates, state, form), 1
    for _ in range(data.draw(st.integers(1, 12))):
        step = data.draw(st.sampled_from(["rows", "rows", "rows", "mark", "mark", "rescale", "rollback"] + ["update"] * revises))
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
        elif step == "rescale":
            tasks.rescale(data.draw(st.integers(1, 3)))
        else:
            watermark = data.draw(times) if step == "mark" else model.watermark
            model.close(watermark)
            size, restarts = data.draw(st.integers(1, 3)), data.draw(st.sets(st.integers(1, 6)))
            if step == "mark":
                tasks.close(watermark, size, restarts)
            else:
                tasks.update(size, restarts)
        assert Counter(shown(tasks.results)) == Counter(model.results)
        assert Counter(tasks.late) == Counter(model.late)
    model.close(INFINITY)
    tasks.close(INFINITY, 2, set())
    assert Counter(shown(tasks.results)) == Counter(model.results)
    tasks.close(max(keeper.watermark for keeper in tasks.keepers) + model.allowed, 2, set())  # late rows might have come until now
    assert Counter(shown(tasks.results)) == Counter(model.results)
    assert [state.namespaces() for state in tasks.states] == [[] for _ in tasks.states]
    assert all(keeper.open_windows == 0 for keeper in tasks.keepers)


def test_a_burst_in_one_pane_is_one_call_of_the_state() -> None:
    state = MemoryState()
    keeper = open_keeper(state, tumbling(timedelta(minutes=1)), Count())
    assert keeper.add_rows(["a", "b"] * 128, list(range(256)), [None] * 256) == []
    assert state.calls == {"add_many": 1}
    assert list(keeper.close(60_000_000)) == [[("a", 0, 60_000_000, 128), ("b", 0, 60_000_000, 128)]]


def test_a_sliding_window_merges_each_pane_a_few_times_and_not_once_per_window() -> None:
    merges = 0

    class Counted(Count):
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
    keeper = open_keeper(MemoryState(), tumbling(timedelta(seconds=1)), Count())
    list(keeper.close(10_000_000))
    assert keeper.add_rows(["a"] * 999, [10_000_000] * 999, [0] * 999) == []
    assert keeper.add_rows(["a"], [3_000_000], ["old"]) == [(0, 7_000_000)]
    assert (keeper.lateness.rows, keeper.lateness.late, keeper.lateness.bound_that_keeps(0.99)) == (1000, 1, 0)
    assert 7_000_000 < keeper.lateness.bound_that_keeps(1.0) <= 14_000_000


def test_rows_behind_the_watermark_are_counted_also_if_their_window_is_open() -> None:
    keeper = open_keeper(MemoryState(), tumbling(timedelta(seconds=60)), Count())
    list(keeper.close(30_000_000))
    keeper.add_rows(["a"] * 999, [30_000_000] * 999, [0] * 999)
    assert keeper.add_rows(["a", "b"], [40_000_000, 29_000_000], [0, 0]) == []
    assert (keeper.lateness.late, keeper.lateness.behind, keeper.lateness.bound_that_keeps(1.0)) == (0, 1, 0)
    assert keeper.lateness.bound_that_orders(0.99) == 0
    assert 1_000_000 < keeper.lateness.bound_that_orders(1.0) <= 2_000_000


@pytest.mark.guarantee("WI-4")
def test_a_late_row_within_the_allowance_gives_an_update() -> None:
    keeper = open_keeper(MemoryState(), tumbling(10 * micros), Count(), updates=Updates(5))
    keeper.add_rows(["a", "b"], [1, 2], [0, 0])
    assert list(keeper.close(10)) == [[Revised(Windowed("a", 0, 10, 1), 0, "final"), Revised(Windowed("b", 0, 10, 1), 0, "final")]]
    assert keeper.add_rows(["a", "a", "c"], [3, 4, 5], [0, 0, 0]) == []
    assert list(keeper.updates()) == [[Revised(Windowed("a", 0, 10, 3), 1, "late"), Revised(Windowed("c", 0, 10, 1), 0, "late")]]
    assert list(keeper.updates()) == []
    keeper.add_rows(["a"], [6], [0])
    assert list(keeper.close(15)) == [[Revised(Windowed("a", 0, 10, 4), 2, "late")]]
    assert keeper.add_rows(["b", "b"], [11, 9], [0, 0]) == [(1, 6)]


@pytest.mark.guarantee("WI-3")
@pytest.mark.guarantee("WI-4")
def test_an_update_names_the_sessions_that_it_replaces() -> None:
    keeper = open_keeper(MemoryState(), session(gap=10 * micros), Count(), updates=Updates(100, early=True))
    keeper.add_rows(["a", "a", "a"], [0, 15, 27], [0, 0, 0])
    early = [Revised(Windowed("a", start, start + 10, 1), 0, "early") for start in (0, 15, 27)]
    assert list(keeper.updates(2)) == [early[:2], early[2:]]
    assert list(keeper.close(25)) == [[Revised(Windowed("a", start, start + 10, 1), 1, "final") for start in (0, 15)]]
    keeper.add_rows(["a"], [8], [0])
    assert list(keeper.updates()) == [[Revised(Windowed("a", 0, 25, 3), 2, "late", (15,))]]
    keeper.add_rows(["a"], [20], [0])
    assert list(keeper.updates()) == [[Revised(Windowed("a", 0, 37, 5), 3, "early", (27,))]]
    assert list(keeper.close(37)) == [[Revised(Windowed("a", 0, 37, 5), 4, "late")]]  # rows of it are in a final result already


@pytest.mark.guarantee("WI-4")
def test_the_first_result_of_a_session_at_its_end_is_final() -> None:
    keeper = open_keeper(MemoryState(), session(gap=13 * micros), Count(), updates=Updates(1))
    list(keeper.close(46))
    keeper.add_rows(["a"], [33], [0])  # ends at 46, and waits for its update
    keeper.add_rows(["a"], [45], [0])
    assert list(keeper.updates()) == []
    assert list(keeper.close(58)) == [[Revised(Windowed("a", 33, 58, 2), 0, "final")]]


@pytest.mark.guarantee("WI-4")
def test_only_what_may_still_change_is_noted() -> None:
    state = MemoryState()
    keeper = open_keeper(state, sliding(4 * micros, every=2 * micros), Count(), updates=Updates(6))
    keeper.add_rows(range(100), [5] * 100, [0] * 100)
    list(keeper.close(8))
    assert state.namespaces() == [4]  # nothing is noted for keys with nothing but a final result
    keeper.add_rows([7], [4], [0])
    assert sorted(map(str, state.namespaces())) == ["4", "changed 2", "changed 4"]
    assert [len(part) for part in keeper.updates()] == [2]
    assert sorted(map(str, state.namespaces())) == ["4", "given 2", "given 4"]
    list(keeper.close(12))
    assert sorted(map(str, state.namespaces())) == ["4", "given 4"]
    list(keeper.close(14))
    assert state.namespaces() == []


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
    keeper = open_keeper(MemoryState(), months, Count())
    keeper.add_rows(["a", "a"], [-(2**61), 2**61], [0, 0])
    assert [one.value for part in keeper.close(INFINITY) for one in part] == [1, 1]
    assert keeper.progress == (INFINITY, INFINITY)


def test_sessions_are_closed_in_slices_without_a_scan_of_the_open_ones() -> None:
    state = MemoryState()
    keeper = open_keeper(state, session(gap=timedelta(seconds=30)), Count())
    keys = list(range(20_000))
    keeper.add_rows(keys, [key * 1_000_000 for key in keys], keys)
    state.calls.clear()
    closed = [one for part in keeper.close(40_000_000, 5) for one in part]
    assert [one.key for one in closed] == list(range(11))
    assert keeper.open_windows == 20_000 - 11
    assert state.calls["get_many"] <= 24  # one for each bucket that is due


def test_rows_that_an_earlier_version_has_collected_are_taken_up() -> None:
    state = StoredState({0: {"a": ["first"]}})
    keeper = open_keeper(state, tumbling(10 * micros), Collect())
    keeper.add_rows(["a", "a"], [1, 2], ["second", "third"])
    assert list(keeper.close(10)) == [[("a", 0, 10, ["first", "second", "third"])]]
