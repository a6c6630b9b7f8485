"""Sinks: functions, classes, bolts and committers, with rows or with fields of rows."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, TopologyError, Tuple, UsageError, bolt, spout
from engine.streams import Flow, Keyed, Put, Revised, minutes, tumbling
from engine.streams.windows import Windowed
from engine.testing import Capture, run_topology
from engine.topology.graph import mermaid
from engine.transactional import FileCommitter, SqlCommitter, SqliteDatabase
from engine.transactional.values import MemoryValues, ReduceInto, SqliteValues, ValueMap
from tests.streams.flows import Click, clicks_of, run, texts_of

CLICKS = [("ada", "/a", 3), ("bob", "/b", 5), ("ada", "/c", 9)]


class Mailer:
    """Sends mails. One instance per task."""

    sent: list[str]
    open = 0
    context: Any

    async def prepare(self) -> None:
        type(self).open += 1

    async def __call__(self, click: Click) -> None:
        await asyncio.sleep(0.1)
        self.sent.append(f"{self.context.component_id} {click.user}")

    async def cleanup(self) -> None:
        type(self).open -= 1


def test_a_class_is_opened_and_closed() -> None:
    Mailer.sent = []
    flow = Flow("mails")
    clicks, feeder = clicks_of(flow, *CLICKS)
    clicks.sink("mail", Mailer, concurrency=3)
    finished = run(flow)
    assert sorted(Mailer.sent) == ["mail ada", "mail ada", "mail bob"]
    assert Mailer.open == 0
    assert sorted(feeder.acked) == [1, 2, 3]
    assert finished.secs < 0.3


class Keep(BasicBolt):
    """Bolt of the user."""

    kept: list[Any]

    def execute(self, tup: Tuple) -> None:
        self.kept.append(tup.values)


@bolt()
def forget(tup: Tuple) -> None:
    assert tup["row"]


def test_a_sink_may_be_a_bolt() -> None:
    Keep.kept = []
    flow = Flow("bolts")
    clicks, _ = clicks_of(flow, *CLICKS[:1])
    clicks.sink("class", Keep)
    clicks.sink("function", forget)
    clicks.sink("factory", lambda: Keep())
    clicks.key_by("user").sink("keyed", Keep, parallelism=2)
    run(flow)
    assert sorted(Keep.kept, key=len) == [(Click("ada", "/a", 3),), (Click("ada", "/a", 3),), (Click("ada", "/a", 3), "ada")]


def test_fields_give_a_bolt_what_it_reads() -> None:
    flow, capture = Flow("fields"), Capture()
    clicks, _ = clicks_of(flow, *CLICKS)
    clicks.map(lambda click: click).sink("records", capture, fields={"key": lambda click: click.user, "value": lambda click: click.ms * 2})
    topology = flow.topology()
    run_topology(topology)
    assert [tuple(tup.fields) for tup in capture.tuples[:1]] == [("key", "value")]
    assert capture.values == [("ada", 6), ("bob", 10), ("ada", 18)]
    assert [spec.component_id for spec in topology.bolts] == ["map-lambda", "records"]  # the bolt of the map reads the fields


@pytest.mark.guarantee("EO-9")
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_committer_reads_the_fields_that_it_names(parallelism: int) -> None:
    totals = MemoryValues("totals")
    flow = Flow("totals")
    clicks, _ = clicks_of(flow, *CLICKS)
    clicks.sink("totals", ReduceInto(totals, key="user", value="ms"), parallelism=parallelism)
    topology = flow.topology()
    assert [each.grouping.label for each in topology.components["totals"].subscriptions] == ["fields(user)"]
    assert f"committer × {parallelism} · exactly once" in mermaid(topology)
    run_topology(topology)
    assert asyncio.run(_items(totals)) == {"ada": 12, "bob": 5}


@pytest.mark.guarantee("EO-9", "TF-3")
@pytest.mark.parametrize("parallelism", [1, 3])
def test_put_sets_the_newest_update(parallelism: int, tmp_path: Path) -> None:
    values = SqliteValues(tmp_path / "values.db", "best")
    flow = Flow("put", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    clicks, _ = clicks_of(flow, *CLICKS, ("bob", "/d", 1))
    best = clicks.key_by("user").max_by(lambda click: click.ms, name="best", parallelism=2)
    best.sink("put", Put(values, key=lambda row: (row.value.key, 1), value=lambda row: row.value.value.ms), parallelism=parallelism)
    run(flow)
    assert asyncio.run(_items(values)) == {("ada", 1): 9, ("bob", 1): 5}


def sessions_of(update: Revised[Keyed[str, int]]) -> Revised[Windowed[str, int]]:
    """Return what a session gives when a third row joins the first two: the sessions that begin at 10 and at 20 are replaced."""
    key, count = update.value
    start, replaces = [(10, ()), (20, ()), (8, (10, 20))][count - 1]
    return Revised(Windowed(key, start, start + 30, count), 0, "early", replaces)


@pytest.mark.guarantee("WI-3")
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("runs", [1, 2])
def test_put_deletes_the_sessions_that_an_update_replaces(parallelism: int, runs: int, tmp_path: Path) -> None:
    values = SqliteValues(tmp_path / "values.db", "sessions")
    put = Put(values, key=lambda row: (row.value.key, row.value.start_us), value=lambda row: row.value.value)
    rows = [("bob", "/e", 1), ("ada", "/d", 1), *CLICKS]
    for given in [rows] if runs == 1 else [rows[:-1], rows[-1:]]:
        flow = Flow("put", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
        clicks, _ = clicks_of(flow, *given)
        clicks.key_by("user").count(name="counts").map(sessions_of, name="sessions").sink("put", put, parallelism=parallelism)
        run(flow)
    assert asyncio.run(_items(values)) == {("ada", 8): 3, ("bob", 10): 1, ("bob", 20): 2}
    with closing(sqlite3.connect(tmp_path / "values.db")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (3,)


async def _items(values: ValueMap) -> dict[Any, Any]:
    async with values.reader() as reader:
        return {key: value async for key, value in reader.items()}


def test_sql_takes_parameters_from_the_row(tmp_path: Path) -> None:
    path = tmp_path / "visits.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE visits (user TEXT, page TEXT)")
    connection.close()
    insert = "INSERT INTO visits(user, page) VALUES ($1, $2)"
    flow = Flow("sql", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    clicks, _ = clicks_of(flow, *CLICKS)
    committer = SqlCommitter(SqliteDatabase(path), insert, fields=("user", "page"))
    clicks.sink("visits", committer, fields={"user": lambda click: click.user.upper(), "page": lambda click: click.page})
    run(flow)
    connection = sqlite3.connect(path)
    assert sorted(connection.execute("SELECT user, page FROM visits")) == [("ADA", "/a"), ("ADA", "/c"), ("BOB", "/b")]
    connection.close()


def test_a_file_has_the_fields_of_its_lines(tmp_path: Path) -> None:
    flow = Flow("files", Config(state_provider=f"sqlite:///{tmp_path}/state.db"))
    clicks, _ = clicks_of(flow, *CLICKS)
    clicks.sink("lines", FileCommitter(tmp_path / "out"), fields={"page": lambda click: click.page})
    run(flow)
    lines = [json.loads(line) for path in (tmp_path / "out").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sorted(line["page"] for line in lines) == ["/a", "/b", "/c"]


@spout("user", "page", "ms")
def unseekable() -> Any:
    yield ("ada", "/", 1)


@pytest.mark.guarantee("TF-5")
@pytest.mark.guarantee("EO-7")
def test_a_committer_behind_a_source_that_cannot_rewind_is_refused() -> None:
    flow = Flow("inexact", Config())
    flow.stream("clicks", unseekable, Click).sink("totals", ReduceInto(MemoryValues("totals"), key="user"))
    expected = r"source 'clicks': its rows come at least once, because it has no seek\(\) and position\(\). So 'totals' would not commit"
    with pytest.raises(TopologyError, match=expected):
        flow.topology()
    flow = Flow("inexact")
    clicks, _ = clicks_of(flow, *CLICKS)
    clicks.sink("totals", ReduceInto(MemoryValues("totals"), key="user"))
    topology = flow.topology()
    with pytest.raises(TopologyError, match="source 'clicks': its rows come at least once, because processing_guarantee='at_least_once'"):
        run_topology(topology, Config(processing_guarantee="at_least_once"))


@pytest.mark.guarantee("TF-3")
def test_reduce_into_refuses_updates() -> None:
    flow = Flow("updates")
    clicks, _ = clicks_of(flow, *CLICKS)
    counts = clicks.key_by("user").count().map(lambda each: each.value)
    with pytest.raises(UsageError, match="sink 'totals': ReduceInto would add an update to what the update replaces"):
        counts.sink("totals", ReduceInto(MemoryValues("totals"), key="key", value="value"))


def test_mistakes_are_named_where_they_are_made() -> None:
    flow = Flow("mistakes")
    clicks, _ = clicks_of(flow, *CLICKS)
    with pytest.raises(UsageError, match=r"sink 'totals': Click has no field 'usr' \(it has: user, page, ms\)\nFix: Did you mean 'user'\?"):
        clicks.sink("totals", ReduceInto(MemoryValues("totals"), key="usr"))
    counts = clicks.event_time("ms").key_by("user").window(tumbling(minutes(1))).count(name="counts")
    has = r"Windowed has no field 'count' \(it has: key, start_us, end_us, value, end, start\)"
    with pytest.raises(UsageError, match=rf"sink 'table': {has}"):
        counts.sink("table", SqlCommitter(SqliteDatabase("x.db"), "INSERT INTO t VALUES ($1, $2)", fields=("key", "count")))
    with pytest.raises(UsageError, match=r"sink 'show': a function takes the row, so it has no fields"):
        clicks.sink("show", print, fields={"page": lambda click: click.page})  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"key_by\(\): Click has no field 'pgae'"):
        clicks.key_by("pgae")
    with pytest.raises(UsageError, match="sink 'records' reads fields, so a row that it diverts is none any more"):
        _ = clicks.sink("records", Capture(), fields={"page": lambda click: click.page}, on_error="divert").failed


def test_a_sink_that_is_no_sink_is_a_fault_of_the_topology() -> None:
    flow = Flow("wrong")
    texts, _ = texts_of(flow, "a")
    texts.sink("end", 7)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="bolt 'end': its factory is 7"):
        flow.topology()
