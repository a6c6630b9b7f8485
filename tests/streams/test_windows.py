"""Event time and windows of a flow (ET-1, ET-2, ET-4, WI-1 to WI-6)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import engine
from engine import Config, FatalError, Run, spout
from engine.dead_letters import letters_in
from engine.errors import ComponentError
from engine.runtime.event_time_entry import EventTimeEntry
from engine.state import provider_of
from engine.state.namespaces import name_of, stored_prefix
from engine.streams import Aggregate, Flow, Stream, Windowed, calendar, minutes, seconds, session, sliding, tumbling
from engine.testing import Feeder, KillTask, run_topology

BEGIN = datetime(2026, 3, 28, 12, tzinfo=UTC)


class Visit(NamedTuple):
    user: str
    page: str
    at: datetime


def at(secs: float) -> datetime:
    return BEGIN + timedelta(seconds=secs)


def visits_of(flow: Flow, *visits: tuple[str, str, float], **settings: Any) -> tuple[Stream[Visit], Feeder]:
    """Return a timed source of visits (user, page, seconds), and its feeder."""
    feeder = Feeder("user", "page", "at", max_retries=3)
    feeder.feed_all([(user, page, at(secs)) for user, page, secs in visits])
    feeder.close()
    return flow.stream("visits", feeder, Visit).event_time("at", **settings), feeder


VISITS = (("ada", "/", 1), ("bob", "/", 2), ("ada", "/help", 61), ("ada", "/", 59), ("bob", "/", 130))


@pytest.mark.guarantee("WI-1", "WI-2")
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("by_name", [True, False])
def test_tumbling_windows_count_the_rows_of_each_key(parallelism: int, by_name: bool) -> None:
    flow, seen = Flow("windows"), list[Windowed[str, int]]()
    visits, _ = visits_of(flow, *VISITS, max_out_of_order=seconds(10))
    keyed = visits.key_by("page") if by_name else visits.key_by(lambda visit: visit.page)
    keyed.window(tumbling(minutes(1))).count(name="counts", parallelism=parallelism).sink("seen", seen.append)
    assert run_topology(flow.topology()).state == "complete"
    assert sorted((each.key, each.start, each.end, each.value) for each in seen) == [
        ("/", at(0), at(60), 3),
        ("/", at(120), at(180), 1),
        ("/help", at(60), at(120), 1),
    ]


@pytest.mark.guarantee("WI-1")
def test_each_aggregate_gives_the_result_of_its_window() -> None:
    class Longest(Aggregate[Visit, str, int]):
        def initial(self) -> str:
            return ""

        def add(self, acc: str, row: Visit) -> str:
            return max(acc, row.page, key=len)

        def merge(self, a: str, b: str) -> str:
            return max(a, b, key=len)

        def result(self, acc: str) -> int:
            return len(acc)

    flow, seen = Flow("aggregates"), dict[str, Any]()
    visits, _ = visits_of(flow, *VISITS, max_out_of_order=seconds(10))
    windows = visits.key_by("user").window(tumbling(minutes(2)))
    stages: dict[str, Stream[Any]] = {
        "sum": windows.sum(lambda visit: len(visit.page), name="sum"),
        "mean": windows.mean(lambda visit: len(visit.page), name="mean"),
        "min": windows.min(lambda visit: len(visit.page), name="min"),
        "max": windows.max(lambda visit: len(visit.page), name="max"),
        "max_by": windows.max_by(lambda visit: len(visit.page), name="max_by"),
        "reduce": windows.reduce(lambda a, b: b if b.at > a.at else a, name="reduce"),
        "collect": windows.collect(name="collect"),
        "own": windows.aggregate(Longest(), name="own"),
    }
    for name, stage in stages.items():
        stage.sink(f"show-{name}", lambda each, name=name: seen.__setitem__((name, each.key, each.start), each.value))  # type: ignore[misc]
    run_topology(flow.topology())
    ada = {name: value for (name, key, start), value in seen.items() if key == "ada" and start == at(0)}
    help_page = Visit("ada", "/help", at(61))
    assert ada == {
        "sum": 7,
        "mean": 7 / 3,
        "min": 1,
        "max": 5,
        "max_by": help_page,
        "reduce": help_page,
        "collect": [Visit("ada", "/", at(1)), help_page, Visit("ada", "/", at(59))],
        "own": 5,
    }


@pytest.mark.guarantee("WI-2")
def test_sliding_windows_and_calendar_days() -> None:
    flow, slides, local_days = Flow("more"), list[Windowed[str, int]](), list[Windowed[str, int]]()
    visits, _ = visits_of(flow, ("ada", "/", 0), ("ada", "/", 45), ("ada", "/", 86_400))
    keyed = visits.key_by("user")
    keyed.window(sliding(minutes(1), every=seconds(30))).count(name="slides").sink("show-slides", slides.append)
    keyed.window(calendar("day", tz="Europe/Berlin")).count(name="days").sink("show-days", local_days.append)
    run_topology(flow.topology())
    assert [(each.start, each.value) for each in slides][:3] == [(at(-30), 1), (at(0), 2), (at(30), 1)]
    assert [each.end - each.start for each in local_days] == [timedelta(hours=24), timedelta(hours=23)], "the clock is changed"


@pytest.mark.guarantee("WI-3")
def test_sessions_end_after_a_gap() -> None:
    flow, seen = Flow("sessions"), list[Windowed[str, int]]()
    visits, _ = visits_of(flow, ("ada", "/", 0), ("ada", "/", 25), ("ada", "/", 14), ("ada", "/", 50), max_out_of_order=seconds(20))
    visits.key_by("user").window(session(gap=seconds(15))).count(name="trips").sink("seen", seen.append)
    run_topology(flow.topology())
    assert [(each.start, each.end, each.value) for each in seen] == [(at(0), at(40), 3), (at(50), at(65), 1)]


@pytest.mark.guarantee("WI-1")
def test_top_gives_the_greatest_results_of_each_window_over_all_keys() -> None:
    visits = [("ada", f"/{page}", float(page * 10 % 7)) for page in range(5) for _ in range(page + 1)] + [("bob", "/9", 60.0)]
    for spec, start in ((tumbling(minutes(1)), at(0)), (sliding(minutes(1), every=seconds(20)), at(0))):
        flow, seen = Flow("top"), list[Any]()
        source, _ = visits_of(flow, *visits, max_out_of_order=seconds(10))
        counts = source.key_by("page").window(spec).count(name="counts", parallelism=3)
        counts.top(2, name="top").sink("seen", seen.append)
        run_topology(flow.topology())
        (first,) = [each for each in seen if each.start == start]
        assert [(each.key, each.value) for each in first.value] == [("/4", 5), ("/3", 4)]
        assert first.key is None
        assert first.end - first.start == minutes(1)


class Paced:
    """A source with a pause behind each row, so that watermarks follow the rows."""

    def __init__(self, visits: list[tuple[str, str, float]]) -> None:
        self.visits = visits

    def create(self) -> Any:
        @spout("user", "page", "at", max_retries=3)
        async def paced() -> AsyncIterator[tuple[str, str, datetime]]:
            for user, page, secs in self.visits:
                yield user, page, at(secs)
                await asyncio.sleep(1.0)

        return paced.create()


@pytest.mark.guarantee("ET-2", "WI-4")
def test_a_late_row_leaves_on_late_and_is_counted_without_a_reader() -> None:
    visits = [("ada", "/", 10.0), ("ada", "/", 70.0), ("ada", "/late", 20.0), ("ada", "/", 75.0), ("ada", "/in-time", 61.0)]
    for has_reader in (True, False):
        flow, seen, late = Flow("late"), list[Any](), list[Any]()
        source = flow.stream("visits", Paced(visits), Visit, parallelism=1).event_time("at")
        counts = source.key_by("user").window(tumbling(minutes(1))).count(name="counts")
        counts.sink("seen", seen.append)
        if has_reader:
            counts.late.sink("late", late.append)
        finished = run_topology(flow.topology())
        assert [(each.start, each.value) for each in seen] == [(at(0), 1), (at(60), 3)], "a row below W counts while its window is open"
        assert [(each.row.page, each.late_by, each.reason) for each in late] == [("/late", seconds(50), "late")] * has_reader
        metrics = finished.snapshot.user_metrics
        assert [each.value for each in metrics if each.name == "late_rows"] == [1]


@pytest.mark.guarantee("TF-4")
@pytest.mark.parametrize("method", ["max_by", "collect", "reduce"])
def test_windows_refuse_rows_that_the_state_could_not_give_back(method: str) -> None:
    flow = Flow("unknown")
    visits, _ = visits_of(flow, *VISITS, max_out_of_order=seconds(100))
    untyped: Any = visits.map(lambda visit: visit, name="untyped").key_by(lambda visit: visit.user).window(tumbling(minutes(1)))
    arguments = {"max_by": [lambda visit: visit.at], "collect": [], "reduce": [lambda first, second: first]}[method]
    getattr(untyped, method)(*arguments, name="kept").sink("seen", lambda row: None)
    with pytest.raises(ComponentError, match="stage 'kept' keeps rows of Visit in its state, but the flow does not know their type"):
        run_topology(flow.topology())


@pytest.mark.guarantee("ET-6")
@pytest.mark.parametrize(("spec", "opened"), [(tumbling(minutes(1)), 2), (session(gap=minutes(1)), 3)])
def test_the_views_show_how_many_windows_are_open_and_how_many_rows_were_late(spec: Any, opened: int) -> None:
    flow, feeder = Flow("shown"), Feeder("user", "page", "at", max_retries=3)
    feeder.feed_all([("ada", "/", at(200)), ("ada", "/", at(290)), ("bob", "/", at(250))])
    visits = flow.stream("visits", feeder, Visit).event_time("at", max_out_of_order=minutes(1))
    visits.key_by("user").window(spec).count(name="counts").sink("seen", lambda row: None)

    async def look(run: Run) -> None:
        await asyncio.sleep(5)
        feeder.feed_all([("cy", "/", at(20))])
        await asyncio.sleep(5)
        entry = run.snapshot().entry(EventTimeEntry)
        [counts] = [each for each in entry.value if each.component_id == "counts"]
        assert (counts.open_windows, counts.late_rows) == (opened, 1)
        assert [(each.open_windows, each.late_rows) for each in entry.value if each.component_id == "visits"] == [(0, 0)]
        assert f" · {opened} windows open · 1 rows late" in entry.text()
        [family] = [each for each in entry.families("shown") if each.name == "stormcell_watermark_open_windows"]
        assert [each.value for each in family.samples] == [opened]
        feeder.close()

    run_topology(flow.topology(), during=look)


@pytest.mark.guarantee("ET-2", "WI-4")
def test_rows_within_the_allowed_lateness_give_updates() -> None:
    visits = [("ada", "/", 10.0), ("ada", "/", 70.0), ("ada", "/", 20.0), ("ada", "/", 90.0), ("ada", "/", 200.0), ("ada", "/late", 30.0)]
    flow, seen, finals, late = Flow("updates"), list[Any](), list[Any](), list[Any]()
    keyed = flow.stream("visits", Paced(visits), Visit).event_time("at").key_by("user")
    counts = keyed.window(tumbling(minutes(1)), allowed_lateness=minutes(1)).count(name="counts")
    counts.sink("seen", lambda row: seen.append((row.value.start, row.value.value, row.revision, row.kind)))
    counts.finals().sink("finals", lambda row: finals.append((row.start, row.value)))
    counts.late.sink("late", lambda each: late.append(each.row.page))
    assert run_topology(flow.topology()).state == "complete"
    assert seen == [
        (at(0), 1, 0, "final"),
        (at(0), 2, 1, "late"),
        (at(60), 2, 0, "final"),
        (at(180), 1, 0, "final"),
    ]
    assert finals == [(at(0), 1), (at(60), 2), (at(180), 1)]
    assert late == ["/late"]


@pytest.mark.guarantee("WI-4")
def test_early_results_come_before_each_checkpoint_and_the_final_one_at_the_end() -> None:
    visits = [("ada", "/", float(secs)) for secs in (1, 2, 3, 70)]
    flow, seen = Flow("early", Config(state_checkpoint_interval_ms=1500)), list[Any]()
    keyed = flow.stream("visits", Paced(visits), Visit).event_time("at").key_by("user")
    counts = keyed.window(tumbling(minutes(1)), early=True).count(name="counts")
    counts.sink("seen", lambda row: seen.append((row.value.start, row.value.value, row.kind)))
    assert run_topology(flow.topology()).state == "complete"
    first = [(value, kind) for start, value, kind in seen if start == at(0)]
    assert first[0][1] == "early"
    assert first[-1] == (3, "final")
    assert [kind for _, kind in first].count("final") == 1


@pytest.mark.guarantee("WI-5")
def test_a_result_that_fails_in_the_sink_comes_again() -> None:
    flow, seen, failures = Flow("flaky", Config(state_checkpoint_interval_ms=200)), list[Any](), [3]

    def flaky(each: Windowed[str, int]) -> None:
        if failures[0]:
            failures[0] -= 1
            raise ValueError("the sink is not ready")
        seen.append((each.key, each.start, each.value))

    visits, _ = visits_of(flow, *VISITS, max_out_of_order=seconds(10))
    visits.key_by("page").window(tumbling(minutes(1))).count(name="counts").sink("flaky", flaky)
    assert run_topology(flow.topology()).state == "complete"
    assert {("/", at(0), 3), ("/", at(120), 1), ("/help", at(60), 1)} == set(seen)


@pytest.mark.guarantee("WI-5")
def test_a_result_that_fails_for_good_becomes_a_dead_letter(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=200, max_retries=2)
    flow, seen = Flow("poison", config), list[Any]()

    def refuses(each: Windowed[str, int]) -> None:
        if each.key == "/help":
            raise ValueError("a result that nobody can take")
        seen.append((each.key, each.start, each.value))

    visits, _ = visits_of(flow, *VISITS, max_out_of_order=seconds(10))
    visits.key_by("page").window(tumbling(minutes(1))).count(name="counts").sink("refuses", refuses)
    assert run_topology(flow.topology()).state == "complete"
    assert {("/", at(0), 3), ("/", at(120), 1)} == set(seen)
    letters = asyncio.run(stored_letters(config))
    assert len(letters) == 1
    assert "/help" in repr(letters[0])


async def stored_letters(config: Config) -> list[Any]:
    provider = provider_of(config.state_provider)
    await provider.open("poison")
    try:
        return list(letters_in(await provider.ledger("$checkpoint").read()).values())
    finally:
        await provider.close()


@pytest.mark.guarantee("WI-1", "ET-4")
@pytest.mark.parametrize("seed", range(6))
def test_windows_are_exact_whatever_dies(seed: int, tmp_path: Path) -> None:
    """The rows come out of order within the bound, and every component dies several times."""
    flow = Flow("exact", Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=50, max_spout_pending=40))
    visits = [(f"u{number % 5}", f"/{number % 3}", float(number - number * 7 % 5)) for number in range(400)]
    source, _ = visits_of(flow, *visits, max_out_of_order=seconds(5))
    totals = dict[tuple[str, datetime], int]()

    async def slowly(visit: Visit) -> Visit:
        await asyncio.sleep(0.002)
        return visit

    counts = source.map_async(slowly, concurrency=4, name="slowly").key_by("page").window(tumbling(seconds(20))).count(
        name="counts", parallelism=2
    )
    late = list[Any]()
    counts.late.sink("late", late.append)
    counts.sink("totals", lambda each: totals.update({(each.key, each.start): each.value}))
    topology = flow.topology()
    victims = sorted(set(topology.components))
    kills = [KillTask(victims[(seed * 3 + number) % len(victims)], at_secs=0.02 + 0.07 * number) for number in range(4)]
    assert run_topology(topology, faults=kills, seed=seed).strikes
    expected = Counter((page, at(secs // 20 * 20)) for _, page, secs in visits)
    assert totals == expected
    assert late == []


@pytest.mark.guarantee("ET-4", "WI-5")
def test_a_later_run_goes_on_with_the_open_windows_and_opens_no_closed_one(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=100)
    visits = [("ada", "/", 10.0), ("ada", "/", 70.0), ("ada", "/", 75.0), ("ada", "/late", 20.0), ("ada", "/", 130.0)]
    seen, late = list[Any](), list[Any]()

    def flow_of(rows: list[tuple[str, str, float]]) -> Flow:
        flow = Flow("again", config)
        counts = flow.stream("visits", Paced(rows), Visit).event_time("at").key_by("user").window(tumbling(minutes(1))).count(name="counts")
        counts.sink("seen", lambda each: seen.append((each.start, each.value)))
        counts.late.sink("late", lambda each: late.append(each.row.page))
        return flow

    async def stop_after_two(run: Run) -> None:
        await asyncio.sleep(1.8)
        await run.drain()

    run_topology(flow_of(visits).topology(), during=stop_after_two)
    assert seen == [(at(0), 1)]
    run_topology(flow_of(visits[2:]).topology())
    assert seen == [(at(0), 1), (at(60), 2), (at(120), 1)]
    assert late == ["/late"], "its window was closed by the first run"


@pytest.mark.guarantee("ET-5", "WI-1")
def test_windows_of_windows_miss_no_result() -> None:
    flow, seen, late = Flow("two-levels"), list[Any](), list[Any]()
    rows = [(f"u{number % 3}", "/", number * 7.0) for number in range(60)]
    source = flow.stream("visits", Paced(rows), Visit).event_time("at")
    first = source.key_by("user").window(tumbling(seconds(20))).count(name="first", parallelism=3)
    numbers = first.map(lambda each: each.value, name="number").key_by(lambda number: "all")
    second = numbers.window(tumbling(seconds(60))).sum(int, name="second")
    second.late.sink("late", late.append)
    second.sink("seen", lambda each: seen.append((each.start, each.value)))
    assert run_topology(flow.topology()).state == "complete"
    assert late == []
    assert Counter(dict(seen)) == Counter(at(secs // 60 * 60) for _, _, secs in rows)


@pytest.mark.guarantee("WI-6")
def test_nothing_of_a_closed_window_stays_in_the_state(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=100)
    flow = Flow("empty", config)
    visits, _ = visits_of(flow, *[(f"u{number}", "/", float(number)) for number in range(500)])
    visits.key_by("user").window(tumbling(seconds(10))).count(name="tumbling").sink("a", lambda each: None)
    visits.key_by("user").window(sliding(seconds(10), every=seconds(2))).count(name="sliding").sink("b", lambda each: None)
    visits.key_by("user").window(session(gap=seconds(3))).count(name="session").sink("c", lambda each: None)
    run_topology(flow.topology())
    for stage in ("tumbling", "sliding", "session"):
        assert asyncio.run(stored_names("empty", stage, config)) <= {"progress"}


async def stored_names(topology: str, component: str, config: Config) -> set[Any]:
    """Return the names of the namespaces that are stored."""
    async with provider_of(config.state_provider).inventory().look(topology) as stored:
        return {name_of(stored_prefix(row.key)) async for rows in stored.rows(component) for row in rows}


@pytest.mark.guarantee("WI-1")
def test_stored_windows_of_another_kind_are_refused_with_both(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=100)

    def flow_of(spec: Any) -> Flow:
        flow = Flow("changed", config)
        visits, _ = visits_of(flow, *VISITS)
        visits.key_by("page").window(spec).count(name="counts").sink("seen", lambda each: None)
        return flow

    run_topology(flow_of(tumbling(minutes(1))).topology())
    with pytest.raises(engine.ComponentError) as refused:
        run_topology(flow_of(tumbling(minutes(2))).topology())
    assert "60000000" in str(refused.value)
    assert "120000000" in str(refused.value)
    assert isinstance(refused.value.__cause__, FatalError)
