"""Rows that fail for good: `failed` of stages, sources and sinks."""

from typing import Any

import pytest

from engine import Tuple, UsageError, bolt
from engine.streams import Failed, Flow
from engine.testing import Capture, Feeder
from tests.streams.flows import Click, clicks_of, run, texts_of

pytestmark = pytest.mark.guarantee("SV-14")


def test_a_stage_diverts_the_rows_that_fail() -> None:
    flow, good, bad = Flow("diverted"), list[int](), list[Failed[str]]()
    texts, feeder = texts_of(flow, "1", "x", "3")
    numbers = texts.map(str.strip).map(int, name="number", retries=2, on_error="divert")
    numbers.sink("good", good.append)
    numbers.failed.sink("bad", bad.append)
    run(flow)
    assert sorted(good) == [1, 3]
    assert bad == [Failed("x", "ValueError: invalid literal for int() with base 10: 'x'", 3, "number")]
    assert sorted(feeder.acked) == [1, 2, 3]


def test_a_diverting_stage_right_behind_a_source_diverts_rows() -> None:
    flow, bad = Flow("diverted"), list[Failed[Click]]()
    clicks, _ = clicks_of(flow, ("ada", "/", 0))
    stage = clicks.map(lambda click: 1 // click.ms, name="rate", on_error="divert")
    stage.sink("good", print)
    stage.failed.map(lambda failed: failed).sink("bad", bad.append)
    run(flow)
    assert [(each.row, each.stage) for each in bad] == [(Click("ada", "/", 0), "rate")]


@pytest.mark.guarantee("TF-1")
def test_a_key_behind_a_diverting_stage_runs_in_its_bolt() -> None:
    flow, seen, bad = Flow("diverted"), list[Any](), list[Failed[str]]()
    texts, _ = texts_of(flow, "1", "x")
    numbers = texts.map(int, name="number", on_error="divert")
    numbers.key_by(lambda number: number % 2).count().sink("seen", seen.append)
    numbers.failed.sink("bad", bad.append)
    assert [spec.component_id for spec in flow.topology().bolts][1] == "number+key_by-lambda"
    run(flow)
    assert [each.value for each in seen] == [(1, 1)]
    assert [(each.row, each.stage) for each in bad] == [("x", "number")]


@pytest.mark.guarantee("TF-2")
@pytest.mark.parametrize("with_rows", [True, False])
def test_a_source_diverts_what_is_no_row(with_rows: bool) -> None:
    flow, seen, bad = Flow("misfits"), list[str](), list[Failed[dict[str, Any]]]()
    feeder = Feeder("text")
    feeder.feed_all([("a",), (7,)])
    feeder.close()
    source = flow.stream("texts", feeder, str, divert=True)
    if with_rows:
        source.map(str.upper).sink("seen", seen.append)
    source.failed.sink("bad", bad.append)
    run(flow)
    assert seen == (["A"] if with_rows else [])
    expected = "RowMisfit: source 'texts': field 'text' is 7 (int), which is no str"
    assert [(each.row, each.error, each.stage) for each in bad] == [({"text": 7}, expected, "texts")]


@pytest.mark.guarantee("TF-2")
def test_what_is_no_row_fails_without_divert() -> None:
    flow, seen = Flow("misfits"), list[str]()
    texts, feeder = texts_of(flow, "a", 7)
    texts.map(str.upper).map(str.strip).sink("seen", seen.append)
    run(flow)
    assert seen == ["A"]
    assert [failure.error for _, failure in feeder.failed] == ["RowMisfit: source 'texts': field 'text' is 7 (int), which is no str"]


def test_a_sink_diverts_the_rows_that_it_refuses() -> None:
    def refuse(click: Click) -> None:
        raise ConnectionError("the mail server is away")

    flow, bad = Flow("sinks"), Capture()
    clicks, _ = clicks_of(flow, ("ada", "/", 0))
    clicks.sink("mail", refuse, on_error="divert", retries=1).failed.map(lambda failed: failed.row.user).sink("bad", bad)
    run(flow)
    assert bad.values == [("ada",)]


def test_a_keyed_stage_diverts_rows_without_their_key() -> None:
    flow, bad = Flow("keyed"), list[Failed[Click]]()
    clicks, _ = clicks_of(flow, ("ada", "/", 0))
    rates = clicks.key_by("user").sum(lambda click: 1 // click.ms, name="rates", on_error="divert")
    rates.sink("rates-end", print)
    rates.failed.sink("bad", bad.append)
    run(flow)
    assert bad[0].row == Click("ada", "/", 0)


def test_a_diverting_stage_without_a_reader_is_refused() -> None:
    flow = Flow("nobody")
    texts, _ = texts_of(flow, "1")
    texts.map(int, name="number", on_error="divert").sink("end", print)
    with pytest.raises(UsageError, match="stage 'number': on_error='divert' sends the rows that fail to its stream failed, which nobody"):
        flow.topology()


def test_a_bolt_of_the_user_diverts_too() -> None:
    @bolt("text")
    def fail(tup: Tuple) -> tuple[str]:
        raise ValueError(tup["row"])

    flow, bad = Flow("through"), list[Failed[str]]()
    texts, _ = texts_of(flow, "a")
    stage = texts.through(fail, str, name="fail", on_error="divert")
    stage.sink("end", print)
    stage.failed.sink("bad", bad.append)
    run(flow)
    assert bad == [Failed("a", "ValueError: a", 1, "fail")]
