"""Output of the views of a pipeline."""

import asyncio
import io
import json
import sys
from dataclasses import replace

import pytest

from engine.cli.console.session import SessionResult
from engine.cli.console.views import SilentView
from engine.errors import EngineError
from spark_bridge.cli.pipeline_session import outcome_of
from spark_bridge.cli.pipeline_views import JsonPipeline, LivePipeline, PipelineOutcome, PlainPipeline, make_view, picture
from spark_bridge.pipeline.progress import PipelineSnapshot, PipelineState, QuerySnapshot
from spark_bridge.pipeline.run import Until

RAW = QuerySnapshot("raw", "running", txid=120, lag=3, rows=1_200_000, batches=40, batch_ms=230.0)
COUNTS = QuerySnapshot(
    "per-minute", "restarting", txid=90, lag=33, rows=900, batches=9, state_rows=77, restarts=1, trouble="OSError: gone\n    x"
)
NOW = PipelineSnapshot("flow.py", "running", 60.0, 123, {"raw": RAW, "per-minute": COUNTS}, deaths=1)


def drawn(now: PipelineSnapshot, width: int = 120) -> str:
    """Return the live table as text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width)
    console.print(picture(None, now))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_live_table_shows_queries_and_their_errors() -> None:
    lines = [" ".join(line.split()) for line in drawn(NOW).splitlines()]
    assert lines[0] == "flow.py · running · 1 m 00 s · newest txid 123 · Spark was restarted 1 time"
    assert "raw running 120 3 1,200,000 20,000 230 – 40 0" in lines
    assert "per-minute restarting 90 33 900 15 – 77 9 1" in lines
    assert "per-minute: OSError: gone" in lines


def test_plain_lines_end_with_all_figures(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainPipeline(2.0)
    asyncio.run(view.begin("flow.py"))
    view.show(None, NOW)
    view.end(PipelineOutcome(0, NOW))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "flow.py: running. Ctrl-C stops after the current micro-batch."
    assert lines[-1] == "flow.py: running after 1 m 00 s: 1,200,900 rows in 49 batches, lag 33"
    assert lines[2].split() == ["query", "status", "txid", "lag", "rows", "rows/s", "batch", "ms", "state", "rows", "batches", "restarts"]


def test_a_pipeline_that_started_no_query_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    PlainPipeline(2.0).end(PipelineOutcome(2, PipelineSnapshot("flow.py", "failed", 9.0, 123)))
    assert capsys.readouterr().err == "flow.py: failed after 9.0 s: no query was started\n"


def test_json_lines_are_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonPipeline(2.0)
    asyncio.run(view.begin("flow.py"))
    view.show(None, NOW)
    view.note("restarted")
    view.end(PipelineOutcome(1, NOW, EngineError("broken", hint="Mend it.")))
    start, snapshot, note, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert start == {"event": "start", "pipeline": "flow.py"}
    assert (snapshot["event"], snapshot["lag"], snapshot["queries"][1]["restarts"]) == ("snapshot", 33, 1)
    assert note == {"event": "note", "text": "restarted"}
    assert (end["exit_status"], end["error"]["hint"], end["summary"].split(":")[1]) == (1, "Mend it.", " failed after 1 m 00 s")


def test_auto_is_the_live_table_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_view("auto", 2.0), PlainPipeline)
    assert isinstance(make_view("silent", 2.0), SilentView)
    monkeypatch.setattr(sys, "stderr", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_view("auto", 2.0), LivePipeline)


@pytest.mark.parametrize(
    ("until", "state", "status", "expected"),
    [
        ("stopped", "stopped", 0, 0),
        ("caught up", "caught up", 0, 0),
        ("caught up", "stopped", 0, 3),
        (7, "stopped", 0, 3),
        (7, "caught up", 0, 0),
        ("caught up", "failed", 1, 1),
        ("caught up", "stopped", 130, 130),
    ],
)
def test_a_pipeline_that_is_stopped_before_it_has_caught_up_has_a_status_of_its_own(
    until: Until, state: PipelineState, status: int, expected: int
) -> None:
    assert outcome_of(SessionResult(status, replace(NOW, state=state)), until).exit_status == expected
