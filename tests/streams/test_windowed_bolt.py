"""`WindowedBolt` in topologies that are built by hand (WI-7)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from engine import Config, Fields, Run, TopologyBuilder, bolt
from engine.errors import ComponentError
from engine.event_time import EventTime
from engine.streams import Windowed, WindowedBolt, minutes, seconds, session, sliding, tumbling
from engine.testing import Feeder, KillTask, run_topology

BEGIN = datetime(2026, 3, 28, 12, tzinfo=UTC)
pytestmark = pytest.mark.guarantee("WI-7")
VISITS = [("/", "ada", 1), ("/", "bob", 2), ("/help", "ada", 61), ("/", "ada", 59), ("/", "bob", 130)]


def at(secs: float) -> datetime:
    return BEGIN + timedelta(seconds=secs)


class ByPage(WindowedBolt):
    window = tumbling(minutes(1))
    time_field, key_field = "at", "page"
    output_fields: Any = {"default": Fields("page", "start", "users"), "late": Fields("visit", "late_by_us")}

    def execute_window(self, window: Any) -> None:
        self.collector.emit((window.key, window.start, [user for _, user, _ in window.value]))


class All(ByPage):
    key_field = None


class Sliding(ByPage):
    window = sliding(minutes(2), every=minutes(1))  # type: ignore[assignment]


class Sessions(ByPage):
    window = session(gap=minutes(1))  # type: ignore[assignment]


def played(
    kind: Any, *visits: tuple[str, str, float], config: Config | None = None, stops: bool = False, faults: Any = (), tasks: int = 2
) -> Any:
    """Run a bolt over visits (page, user, seconds), and return what it emitted on both streams."""
    seen: dict[str, list[Any]] = {"default": [], "late": []}
    feeder = Feeder("page", "user", "at", max_retries=9)
    feeder.feed_all([(page, user, at(secs)) for page, user, secs in visits])
    if not stops:
        feeder.close()

    @bolt()
    def note(tup: Any) -> None:
        seen[tup.stream].append(tup.values)

    async def stop(run: Run) -> None:
        await asyncio.sleep(5)
        await run.stop()

    builder = TopologyBuilder("pages")
    builder.set_spout("visits", lambda: feeder, event_time=EventTime("at", max_out_of_order=seconds(10)))
    windows = builder.set_bolt("windows", kind, 1 if kind is All else tasks)
    windows.global_grouping("visits") if kind is All else windows.fields_grouping("visits", "page")
    builder.set_bolt("note", note).global_grouping("windows").global_grouping("windows", "late")
    run_topology(builder.build(), config or Config(), during=stop if stops else None, faults=faults)
    return seen


def test_a_bolt_gets_the_tuples_of_each_window() -> None:
    assert sorted(played(ByPage, *VISITS)["default"]) == [
        ("/", at(0), ["ada", "bob", "ada"]),
        ("/", at(120), ["bob"]),
        ("/help", at(60), ["ada"]),
    ]


def test_without_a_key_a_window_has_all_tuples_of_the_task() -> None:
    assert played(All, *VISITS)["default"] == [
        (None, at(0), ["ada", "bob", "ada"]),
        (None, at(60), ["ada"]),
        (None, at(120), ["bob"]),
    ]


def test_sliding_windows_and_sessions() -> None:
    assert [(page, start, len(users)) for page, start, users in played(Sliding, *VISITS)["default"] if page == "/"] == [
        ("/", at(-60), 3),
        ("/", at(0), 3),
        ("/", at(60), 1),
        ("/", at(120), 1),
    ]
    assert sorted(played(Sessions, *VISITS)["default"]) == [
        ("/", at(1), ["ada", "bob", "ada"]),
        ("/", at(130), ["bob"]),
        ("/help", at(61), ["ada"]),
    ]


@pytest.mark.parametrize("codec", ["msgpack", "pickle"])
@pytest.mark.parametrize("kind", [All, Sliding, Sessions])
def test_a_window_of_many_tuples_has_them_all_in_their_order(tmp_path: Path, kind: Any, codec: Any) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_codec=codec)
    visits = [("/", f"user {number}", 61 + number / 100) for number in range(3000)]
    played(kind, *visits[:1111], config=config, stops=True, tasks=1)
    found = played(kind, *visits[1111:], config=config, tasks=1)["default"]
    assert {tuple(users) for _, _, users in found} == {tuple(user for _, user, _ in visits)}


@pytest.mark.parametrize("tasks", [1, 3])
def test_windows_go_on_in_the_next_run_with_another_parallelism(tmp_path: Path, tasks: int) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    assert played(ByPage, *VISITS[:3], config=config, stops=True)["default"] == []
    found = played(ByPage, *VISITS[3:], config=config, tasks=tasks)["default"]
    assert Counter((page, start, *sorted(users)) for page, start, users in found) == Counter(
        [("/", at(0), "ada", "ada", "bob"), ("/", at(120), "bob"), ("/help", at(60), "ada")]
    )


def test_the_death_of_a_task_loses_and_doubles_nothing(tmp_path: Path) -> None:
    visits = [("/", f"user {number}", number) for number in range(200)]
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db", state_checkpoint_interval_ms=200)
    found = played(ByPage, *visits, config=config, faults=[KillTask("windows", at_secs=0.1), KillTask("windows", at_secs=1.5)])["default"]
    windows = {(page, start): tuple(sorted(users)) for page, start, users in found}
    assert Counter(user for users in windows.values() for user in users) == Counter(user for _, user, _ in visits)


def test_late_tuples_leave_on_the_stream_late() -> None:
    seen: dict[str, list[Any]] = {"default": [], "late": []}
    feeder = Feeder("page", "user", "at", max_retries=9)

    @bolt()
    def note(tup: Any) -> None:
        seen[tup.stream].append(tup.values)

    async def feed(run: Run) -> None:
        feeder.feed_all([(page, user, at(secs)) for page, user, secs in [("/", "ada", 10), ("/", "ada", 200)]])
        await asyncio.sleep(5)
        feeder.feed_all([("/", "bob", at(20))])
        await asyncio.sleep(5)
        feeder.close()

    builder = TopologyBuilder("late")
    builder.set_spout("visits", lambda: feeder, event_time=EventTime("at"))
    builder.set_bolt("windows", ByPage).fields_grouping("visits", "page")
    builder.set_bolt("note", note).global_grouping("windows").global_grouping("windows", "late")
    finished = run_topology(builder.build(), during=feed)
    [(values, late_by_us)] = seen["late"]
    assert tuple(values) == ("/", "bob", at(20))
    assert late_by_us == 180_000_000
    assert [metric.value for metric in finished.snapshot.user_metrics if metric.name == "late_rows"] == [1]


class ByUser(ByPage):
    key_field = "user"


class WithSent(ByPage):
    def execute_window(self, window: Any) -> None:
        self.collector.emit((window.key, window.start, [user for _, user, _, _ in window.value]))


def test_a_tuple_without_a_time_fails_alone() -> None:
    feeder = Feeder("page", "user", "at", "sent", max_retries=0)
    feeder.feed_all([("/", "ada", at(0), BEGIN), ("/", "bob", "noon", BEGIN), ("/", "cy", at(1), BEGIN)])
    feeder.close()
    seen: list[Any] = []

    @bolt()
    def note(tup: Any) -> None:
        seen.append(tup["users"])

    builder = TopologyBuilder("bad")
    builder.set_spout("visits", lambda: feeder, event_time=EventTime("sent"))
    builder.set_bolt("windows", WithSent).fields_grouping("visits", "page")
    builder.set_bolt("note", note).global_grouping("windows")
    run_topology(builder.build(), Config(processing_guarantee="at_least_once"))
    assert seen == [["ada", "cy"]]
    assert "'noon' of type str is not a time" in feeder.failed[0][1].error


def test_another_key_field_does_not_go_on_with_the_windows(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    played(ByPage, *VISITS, config=config, stops=True)
    with pytest.raises(ComponentError, match=r"has stored collect\(\) of .* by page, and is collect\(\) of .* by user now"):
        played(ByUser, *VISITS, config=config, tasks=1)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_key_in_the_hour_that_comes_twice_comes_back(fold: int) -> None:
    key = datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))
    found = played(ByPage, *[(key, "ada", 1), (key, "bob", 70)], tasks=1)["default"]  # type: ignore[list-item]
    assert [(page.timestamp(), start) for page, start, _ in found] == [(key.timestamp(), at(0)), (key.timestamp(), at(60))]


def test_equal_keys_of_other_types_in_other_windows_keep_theirs() -> None:
    found = played(ByPage, *[(1, "ada", 1), (1.0, "bob", 70), (True, "cy", 130)], tasks=1)["default"]  # type: ignore[list-item]
    assert [repr(page) for page, _, _ in found] == ["1", "1.0", "True"]


BERLIN = ZoneInfo("Europe/Berlin")
SKIPPED = datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN), datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.guarantee("WI-1")
@pytest.mark.parametrize("kind", [ByPage, Sliding, Sessions])
@pytest.mark.parametrize("keys", [SKIPPED, TWICE])
def test_keys_of_one_form_that_are_unequal_to_python_have_their_windows_together(kind: Any, keys: tuple[datetime, datetime]) -> None:
    first, second = keys
    assert first != second
    visits: Any = [(first, "ada", 61), (second, "bob", 62), (first, "cy", 63)]
    found = played(kind, *visits, tasks=1)["default"]
    assert {tuple(users) for _, _, users in found} == {("ada", "bob", "cy")}
    assert len(found) == (2 if kind is Sliding else 1)
    assert {repr(page.utcoffset()) for page, _, _ in found} == {repr(first.utcoffset())}


@pytest.mark.guarantee("WI-1")
def test_a_session_of_an_hour_that_comes_twice_goes_on_in_the_next_run(tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/state.db")
    keys: Any = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    played(Sessions, (keys, "ada", 1), config=config, stops=True, tasks=1)
    found = played(Sessions, (keys, "bob", 20), (keys, "cy", 200), config=config, tasks=1)["default"]
    assert [(start, users) for _, start, users in found] == [(at(1), ["ada", "bob"]), (at(200), ["cy"])]


@pytest.mark.parametrize("kind", [ByPage, Sessions])
def test_the_key_of_a_row_that_fails_leaves_nothing(kind: Any) -> None:
    class Picky(kind):  # type: ignore[misc]
        def columns(self, burst: Any) -> Any:
            keys, times, rows = super().columns(burst)
            return keys, times, [Unstorable() if row[1] == "bad" else row for row in rows]

    visits: Any = [(True, "bad", 1), (1, "ada", 2), (1, "bob", 3)]
    found = played(Picky, *visits, tasks=1)["default"]
    assert {(repr(page), tuple(users)) for page, _, users in found} == {("1", ("ada", "bob"))}


class Unstorable:
    """A value that no codec takes."""


def test_slow_windows_let_the_loop_run_in_between() -> None:
    class Slow(All):
        def execute_window(self, window: Any) -> None:
            done.append(window.start)

    done: list[Any] = []
    bolt_ = Slow()
    ticks = iter(range(1000))
    bolt_.context = SimpleNamespace(clock=SimpleNamespace(now=lambda: next(ticks) * 0.003))
    windows: list[Any] = [Windowed(None, number, number + 1, []) for number in range(10)]
    seen = [len(done) for _ in bolt_.give(windows)]
    assert seen == [2, 4, 6, 8, 10, 10]
