"""Running counts and reductions: their revisions, their state over restarts, and what they refuse."""

import enum
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from engine import Config, FatalError, TopologyError, UsageError
from engine.errors import ComponentError
from engine.streams import Flow, Keyed, Revised, merge
from engine.testing import Feeder, run_topology
from tests.streams.flows import Click, clicks_of, run, texts_of

CLICKS = [("ada", "/a", 3), ("bob", "/b", 5), ("ada", "/c", 9), ("ada", "/d", 4)]
AT_LEAST_ONCE = Config(processing_guarantee="at_least_once")


def results_of(method: str, *arguments: Any) -> list[Revised[Keyed[str, Any]]]:
    flow, seen = Flow("running"), list[Revised[Keyed[str, Any]]]()
    clicks, feeder = clicks_of(flow, *CLICKS)
    getattr(clicks.key_by("user"), method)(*arguments, name="stage").sink("seen", seen.append)
    run(flow)
    assert sorted(feeder.acked) == [1, 2, 3, 4]
    assert [(each.value.key, each.revision) for each in seen] == [("ada", 0), ("bob", 0), ("ada", 1), ("ada", 2)]
    assert {each.kind for each in seen} == {"early"}
    return seen


@pytest.mark.guarantee("TF-3")
@pytest.mark.parametrize("method", ["sum", "count"])
def test_keys_of_one_form_that_are_unequal_to_python_have_one_value(method: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    keys = {"ada": datetime(2026, 3, 29, 2, 30, tzinfo=berlin), "bob": datetime(2026, 3, 29, 3, 30, tzinfo=berlin)}  # 02:30 was skipped
    flow, seen = Flow("running"), list[Revised[Keyed[Any, int]]]()
    clicks, _ = clicks_of(flow, *CLICKS)
    keyed = clicks.key_by(lambda click: keys[click.user])
    (keyed.count(name="stage") if method == "count" else keyed.sum(lambda click: 1, name="stage")).sink("seen", seen.append)
    run(flow)
    assert [(each.value.value, each.revision) for each in seen] == [(1, 0), (2, 1), (3, 2), (4, 3)]


@pytest.mark.guarantee("TF-3")
@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("count", (), [1, 1, 2, 3]),
        ("sum", (lambda click: click.ms,), [3, 5, 12, 16]),
        ("mean", (lambda click: click.ms,), [3, 5, 6, 16 / 3]),
        ("min", (lambda click: click.ms,), [3, 5, 3, 3]),
        ("max", (lambda click: click.ms,), [3, 5, 9, 9]),
    ],
)
def test_each_row_gives_the_next_revision(method: str, arguments: tuple[Any, ...], expected: list[Any]) -> None:
    assert [each.value.value for each in results_of(method, *arguments)] == expected


def test_reductions_keep_rows() -> None:
    assert results_of("max_by", lambda click: click.ms)[-1].value.value == Click("ada", "/c", 9)
    assert results_of("collect")[-1].value.value == [Click(*each) for each in CLICKS if each[0] == "ada"]
    longest = results_of("reduce", lambda first, second: max(first, second, key=lambda click: click.page))
    assert longest[-1].value.value == Click("ada", "/d", 4)


def test_rows_of_an_unknown_type_are_reduced_as_what_they_are() -> None:
    flow, seen = Flow("unknown"), list[Revised[Keyed[str, Click]]]()
    texts, _ = texts_of(flow, "a", "a", "b")
    stage = texts.map(lambda text: Click(text, "/")).key_by(lambda click: click.user)
    stage.reduce(lambda first, second: first._replace(ms=first.ms + 1), name="last").sink("seen", seen.append)
    run(flow)
    assert [each.value.value for each in seen] == [Click("a", "/", 0), Click("a", "/", 1), Click("b", "/", 0)]


def test_a_row_with_a_wrong_key_fails_alone() -> None:
    flow, seen = Flow("keys"), list[Any]()
    texts, feeder = texts_of(flow, "a", "b")
    texts.key_by(lambda text: [text] if text == "b" else text).count().sink("seen", seen.append)
    run(flow, AT_LEAST_ONCE)
    assert [each.value.key for each in seen] == ["a"]
    assert "the key ['b'] of the row 'b': a list cannot be a key of a state" in feeder.failed[0][1].error


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.guarantee("TF-3")
@pytest.mark.guarantee("GRP-2")
@pytest.mark.parametrize("key", [None, True, 7, 2.5, "a", b"a", ("a", 1), Click("a", "/"), Level.LOW])
def test_a_key_comes_back_in_its_type(key: Any) -> None:
    flow, seen = Flow("keys"), list[Any]()
    texts, _ = texts_of(flow, "a", "b")
    texts.key_by(lambda text: key).count(parallelism=3).sink("seen", seen.append)
    run(flow)
    assert [each.value.value for each in seen] == [1, 2]
    assert {type(each.value.key) for each in seen} == {type(key)}


def test_a_row_that_raises_leaves_no_trace_in_the_value() -> None:
    def rate(click: Click) -> int:
        return 12 // click.ms

    flow, seen = Flow("undone"), list[Any]()
    clicks, feeder = clicks_of(flow, ("ada", "/", 3), ("ada", "/", 0), ("ada", "/", 4))
    clicks.key_by("user").sum(rate, name="rates", retries=1).sink("seen", seen.append)
    run(flow, AT_LEAST_ONCE)
    assert [each.value.value for each in seen] == [4, 7]
    assert [message_id for message_id, _ in feeder.failed] == [2]


# State


def stored_run(folder: Path, row_type: Any, method: str = "max_by", *, rows: list[tuple[Any, ...]], name: str | None = "best") -> list[Any]:
    """Run a stage with a stored state. The rows have the fields of the type."""
    flow, seen = Flow("stored", Config(state_provider=f"sqlite:///{folder}/state.db")), list[Any]()
    feeder = Feeder("user", "ms")
    feeder.feed_all(rows)
    feeder.close()
    keyed = flow.stream("rows", feeder, row_type).key_by("user")
    stage = getattr(keyed, method)(*([] if method in ("count", "collect") else [lambda row: row.ms]), name=name)
    stage.sink("seen", seen.append)
    run_topology(flow.topology())
    return seen


class First(NamedTuple):
    user: str
    ms: int


class WithMore(NamedTuple):
    user: str
    ms: int
    page: str = "/"


@dataclass
class WithLess:
    ms: int


class OtherType(NamedTuple):
    user: str
    ms: str


class WithoutDefault(NamedTuple):
    user: str
    ms: int
    page: str


@pytest.mark.guarantee("TF-3")
@pytest.mark.guarantee("CP-6")
def test_values_and_revisions_go_on_after_a_restart(tmp_path: Path) -> None:
    stored_run(tmp_path, First, rows=[("ada", 9), ("bob", 1)])
    (last,) = stored_run(tmp_path, First, rows=[("ada", 3)])
    assert last == Revised(Keyed("ada", First("ada", 9)), 1, "early")


@pytest.mark.guarantee("TF-4")
def test_added_fields_with_defaults_and_removed_ones_are_read(tmp_path: Path) -> None:
    stored_run(tmp_path, First, rows=[("ada", 9)])
    (last,) = stored_run(tmp_path, WithMore, rows=[("ada", 3)])
    assert last.value.value == WithMore("ada", 9, "/")
    (last,) = stored_run(tmp_path, First, rows=[("ada", 3)])
    assert last.value.value == First("ada", 9)


@pytest.mark.guarantee("TF-4")
def test_other_changes_are_refused_at_the_start(tmp_path: Path) -> None:
    stored_run(tmp_path, First, rows=[("ada", 9)])
    with pytest.raises((ComponentError, FatalError), match=r"stored a row with user: str, ms: int, which is no OtherType now: field 'ms'"):
        stored_run(tmp_path, OtherType, rows=[])
    with pytest.raises((ComponentError, FatalError), match=r"stage 'best' has stored values of max_by\(\), and is count\(\) now"):
        stored_run(tmp_path, First, "count", rows=[])


@pytest.mark.guarantee("TF-4")
def test_a_stage_with_a_durable_state_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"stage 'count': state_provider='sqlite:.*' keeps its state under this name"):
        stored_run(tmp_path, First, "count", rows=[], name=None)


def test_a_run_with_another_store_needs_a_name_too(tmp_path: Path) -> None:
    flow = Flow("given")
    clicks, _ = clicks_of(flow, *CLICKS)
    clicks.key_by("user").count().sink("seen", print)
    topology = flow.topology()
    with pytest.raises(TopologyError, match="Give the stage a name of your own"):
        run_topology(topology, Config(state_provider=f"sqlite:///{tmp_path}/state.db"))


@pytest.mark.guarantee("TF-3")
def test_updates_are_not_reduced_again() -> None:
    flow = Flow("updates")
    clicks, _ = clicks_of(flow, *CLICKS)
    counts = clicks.key_by("user").count()
    with pytest.raises(UsageError, match=r"key_by\(\) got a stream of updates"):
        counts.key_by("key")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"count\(\) got a stream of updates"):
        merge(counts.filter(bool).map(lambda each: each.value)).key_by("key").count()
