"""What windows keep over runs: with another parallelism, of rows that no state could give back, and of another stage (WI-1, WI-4, TF-4)."""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine import Config, Run, UsageError
from engine.errors import ComponentError
from engine.streams import Aggregate, Flow, Revised, Windowed, merge, minutes, seconds, session, sliding, tumbling
from engine.testing import Feeder, run_topology

BEGIN = datetime(2026, 3, 28, 12, tzinfo=UTC)


class Visit(NamedTuple):
    user: str
    ms: int
    at: datetime


class Other(NamedTuple):
    user: str
    at: datetime


class Longest(Aggregate[Visit, int, int]):
    def initial(self) -> int:
        return 0

    def add(self, acc: int, row: Visit) -> int:
        return max(acc, row.ms)

    def merge(self, a: int, b: int) -> int:
        return max(a, b)

    def result(self, acc: int) -> int:
        if acc > 100:
            raise ValueError("too long")
        return acc


class Shortest(Longest):
    def add(self, acc: int, row: Visit) -> int:
        return min(acc, row.ms)


def played(folder: Path, build: Any, *visits: tuple[Any, ...], name: str = "stored", stops: bool = False) -> list[Any]:
    """Run a flow on the state of a folder. build: returns the stage of a stream of visits. stops: the windows stay open."""
    flow, seen = Flow(name, Config(state_provider=f"sqlite:///{folder}/state.db")), list[Any]()
    feeder = Feeder("user", "ms", "at")
    feeder.feed_all([(user, ms, BEGIN + timedelta(seconds=secs)) for user, ms, secs in visits])
    if not stops:
        feeder.close()
    stage = build(flow.stream("visits", feeder, Visit).event_time("at", max_out_of_order=seconds(10)))
    stage.sink("seen", seen.append)
    run_topology(flow.topology(), during=stop if stops else None)
    return seen


async def stop(run: Run) -> None:
    await asyncio.sleep(5)
    await run.stop()


def hourly(parallelism: int) -> Any:
    def build(timed: Any) -> Any:
        windows = timed.key_by("user").window(tumbling(minutes(1)), allowed_lateness=minutes(60))
        return windows.count(name="counts", parallelism=parallelism)

    return build


@pytest.mark.guarantee("WI-1", "WI-4", "ET-4")
def test_a_window_is_closed_once_whatever_the_parallelism_of_later_runs(tmp_path: Path) -> None:
    first = played(tmp_path, hourly(2), ("ada", 1, 0), ("ada", 1, 1))
    assert [(each.value.value, each.kind, each.revision) for each in first] == [(2, "final", 0)]
    assert played(tmp_path, hourly(1)) == []
    late = played(tmp_path, hourly(3), ("ada", 1, 2), ("bob", 1, 3))
    assert sorted((each.value.key, each.value.value, each.kind, each.revision) for each in late) == [
        ("ada", 3, "late", 1),
        ("bob", 1, "late", 0),
    ]
    assert played(tmp_path, hourly(1)) == []


@pytest.mark.guarantee("WI-4")
@pytest.mark.parametrize("settings", [{"allowed_lateness": timedelta(0)}, {"allowed_lateness": minutes(1), "early": True}, {"early": True}])
def test_windows_with_settings_of_updates_give_revisions(tmp_path: Path, settings: dict[str, Any]) -> None:
    def build(timed: Any) -> Any:
        return timed.key_by("user").window(tumbling(minutes(1)), **settings).count(name="counts")

    seen = played(tmp_path, build, ("ada", 1, 0))
    assert {type(each) for each in seen} == {Revised}
    assert [each.value.value for each in seen if each.kind == "final"] == [1]
    finals = played(tmp_path, lambda timed: build(timed).finals(), ("ada", 1, 0), name="finals")
    assert [type(each) for each in finals] == [Windowed]


@pytest.mark.guarantee("TF-4")
@pytest.mark.parametrize("method", ["collect", "max_by", "reduce"])
@pytest.mark.parametrize("has_windows", [True, False])
def test_a_row_that_the_state_could_not_give_back_fails_alone(tmp_path: Path, method: str, has_windows: bool) -> None:
    failed = list[Any]()

    def build(timed: Any) -> Any:
        keyed = timed.key_by("user")
        arguments: list[Any] = {"collect": [], "max_by": [lambda row: row.at], "reduce": [lambda first, second: second]}[method]
        stage = getattr(keyed.window(tumbling(minutes(1))) if has_windows else keyed, method)(*arguments, name="kept", on_error="divert")
        stage.failed.sink("failed", failed.append)
        return stage

    for number in range(2):
        seen = played(tmp_path, build, ("ada", 1, 120 * number), ("ada", None, 120 * number + 1), ("ada", 3, 120 * number + 2))
        assert seen
    assert [each.row.ms for each in failed] == [None, None]
    assert "stage 'kept' cannot keep the row Visit(user='ada', ms=None" in failed[0].error
    assert "field 'ms' is None (NoneType), which is no int" in failed[0].error


@pytest.mark.guarantee("WI-1")
@pytest.mark.parametrize("windows", [tumbling(minutes(1)), sliding(minutes(1), every=seconds(20)), session(gap=minutes(1))])
@pytest.mark.parametrize("settings", [{}, {"early": True}, {"allowed_lateness": minutes(1)}])
def test_a_key_comes_back_in_its_type_after_a_restart(tmp_path: Path, windows: Any, settings: dict[str, Any]) -> None:
    berlin = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    keys = (True, 2.0, Decimal("1.50"), berlin, ("a", 3.0), "text", 7)

    def build(timed: Any) -> Any:
        return timed.key_by(lambda row: keys[row.ms]).window(windows, **settings).count(name="counts")

    visits = [("ada", number, number) for number in range(len(keys))]
    played(tmp_path, build, *visits, stops=True)
    seen = [each.value if settings else each for each in played(tmp_path, build, *visits[:1])]
    assert {repr(each.key) for each in seen} == set(map(repr, keys))


class Loose(NamedTuple):
    user: str
    number: int
    tags: Sequence[str]
    kinds: AbstractSet[str]
    at: datetime


def loose(row: Visit) -> Loose:
    return Loose(row.user, bool(row.ms), ("a", "b"), {"c"}, row.at)


def test_values_of_wide_types_come_back_as_what_they_are(tmp_path: Path) -> None:
    def build(timed: Any) -> Any:
        return timed.map(loose).key_by("user").window(tumbling(minutes(1))).collect(name="all")

    [result] = played(tmp_path, build, ("ada", 1, 0), ("ada", 0, 1))
    assert [repr(row[:4]) for row in result.value] == ["('ada', True, ('a', 'b'), {'c'})", "('ada', False, ('a', 'b'), {'c'})"]


def test_merged_rows_of_two_types_come_back_as_what_they_are(tmp_path: Path) -> None:
    def build(timed: Any) -> Any:
        others = timed.map(lambda row: Other(row.user, row.at), name="others")
        typed: Any = others.map(as_other, name="typed")
        return merge(timed, typed).key_by(lambda row: row.user).window(tumbling(minutes(1))).collect(name="all")

    [result] = played(tmp_path, build, ("ada", 1, 0))
    assert sorted(type(each).__name__ for each in result.value) == ["Other", "Visit"]


def as_other(row: Any) -> Other:
    return Other(row.user, row.at)


@pytest.mark.guarantee("WI-1")
def test_a_result_that_raises_ends_the_run_and_stays(tmp_path: Path) -> None:
    def build(timed: Any) -> Any:
        return timed.key_by("user").window(tumbling(minutes(1))).aggregate(Longest(), name="longest")

    with pytest.raises(ComponentError, match=r"the result of 'ada' from 2026-03-28T12:00:00.* ValueError: too long") as ended:
        played(tmp_path, build, ("ada", 101, 0), ("bob", 7, 0))
    assert "The window is still in the state" in str(ended.value)


@pytest.mark.guarantee("WI-1", "TF-4")
@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda keyed: keyed.window(tumbling(minutes(1))).aggregate(Shortest(), name="stage"), r"aggregate\(Shortest\) of"),
        (lambda keyed: keyed.count(name="stage"), r"has stored windows, and is count\(\) now"),
    ],
)
def test_another_aggregate_does_not_go_on_with_the_windows(tmp_path: Path, build: Any, text: str) -> None:
    def before(timed: Any) -> Any:
        return timed.key_by("user").window(tumbling(minutes(1))).aggregate(Longest(), name="stage")

    played(tmp_path, before, ("ada", 1, 0), stops=True)
    with pytest.raises(ComponentError, match=text):
        played(tmp_path, lambda timed: build(timed.key_by("user")), ("ada", 1, 0))


@pytest.mark.guarantee("TF-4")
def test_windows_do_not_go_on_with_running_results(tmp_path: Path) -> None:
    played(tmp_path, lambda timed: timed.key_by("user").count(name="stage"), ("ada", 1, 0))
    with pytest.raises(ComponentError, match="stage 'stage' has stored running results, and is count"):
        played(tmp_path, lambda timed: timed.key_by("user").window(tumbling(minutes(1))).count(name="stage"), ("ada", 1, 0))


class Unfinished(Aggregate[Visit, int, int]):
    def initial(self) -> int:
        return 0


def test_mistakes_are_refused_where_they_are_made(tmp_path: Path) -> None:
    flow = Flow("mistakes")
    timed = flow.stream("visits", Feeder("user", "ms", "at"), Visit).event_time("at")
    windows = timed.key_by("user").window(tumbling(minutes(1)))
    with pytest.raises(UsageError, match=r"the aggregate Unfinished has no add\(\)"):
        windows.aggregate(Unfinished(), name="unfinished")
    with pytest.raises(UsageError, match=r"top\(\) compares the values of results, and max_by\(\) gives rows"):
        windows.max_by(lambda row: row.ms, name="best").top(3, name="top")
    with pytest.raises(UsageError, match=r"top\(\) gets results, which cannot be diverted"):
        windows.count(name="counts").top(3, name="top", on_error="divert")
    with pytest.raises(UsageError, match=r"merge\(\) takes streams, not 5"):
        merge(timed, 5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="early='yes' is not a bool"):
        timed.key_by("user").window(tumbling(minutes(1)), early="yes")  # type: ignore[call-overload]
