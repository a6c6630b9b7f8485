"""Output of each view: tables and lines on standard error, JSON on standard output."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from engine.cli.console.live_display import AboveTable
from engine.cli.console.output import error_text
from engine.cli.live_table import render
from engine.cli.run_session import make_view
from engine.cli.run_views import JsonLines, Outcome, PlainLines, plain_line, write_refusal
from engine.errors import ComponentError, EngineBug, TopologyError
from engine.metrics import TaskLabels, UserMetrics
from engine.runtime.snapshot import Snapshot
from tests.cli.snapshots import REPORT, snapshot


def drawn(width: int, before: bool = False, metrics: UserMetrics | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    now = replace(snapshot(20.0, times=2), user_metrics=metrics.read() if metrics else ())
    console.print(render(snapshot(10.0) if before else None, now, width))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def kafka_metrics() -> UserMetrics:
    metrics = UserMetrics()
    for partition in range(20):
        labels = {"topic": "[red]lines", "partition": str(partition)}
        for name in ("lag", "committed", "position", "pending", "paused", "retries", "dead_letters"):
            metrics.gauge(f"kafka_{name}", TaskLabels("lines", 1), labels).set(1_000_000 * partition)
    return metrics


def test_a_plain_line_has_all_figures() -> None:
    assert plain_line(snapshot(10.0), snapshot(12.0, times=2)) == (
        "words running 12.0 s | emitted 2,400,000 (600,000/s) | acked 2,200,000 (550,000/s) | failed 4 | pending 99,998 | "
        "loop 100% | lines p50 1.25 ms p99 38.1 ms | busiest count 480% | fullest count 60% | limit loop lines 100% | errors 2"
    )


def test_a_plain_line_shows_the_total_lag_of_a_component() -> None:
    metrics = kafka_metrics()
    metrics.gauge("lag", TaskLabels("count", 2), {}).set(7)
    metrics.counter("stalls_lag", TaskLabels("count", 2), {})  # a counter, which only grows
    line = plain_line(None, replace(snapshot(), user_metrics=metrics.read()))
    assert line.endswith(" | fullest count 60% | limit component count 96% | lines kafka lag 190,000,000 | count lag 7 | errors 1")


def transactions(committed: int, uptime_secs: float) -> Snapshot:
    """A run with the measured part of a coordinator."""
    metrics = UserMetrics()
    coordinator = TaskLabels("words/coordinator", 1)
    metrics.counter("transactions_committed", coordinator, {}).add(committed)
    metrics.counter("transactions_failed", coordinator, {}).add(2)
    metrics.gauge("transactions_open", coordinator, {}).set(4)
    metrics.gauge("transaction_committed_txid", coordinator, {}).set(1000 + committed)
    return replace(snapshot(uptime_secs), user_metrics=metrics.read())


def test_the_views_show_the_progress_of_transactions() -> None:
    expected = "transactions txid 1,500 committed (40/s) · 4 open · 2 failed"
    before, now = transactions(100, 10.0), transactions(500, 20.0)
    assert expected in plain_line(before, now).split(" | ")
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(render(before, now, 120))
    assert f"\n{expected}" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "transactions" not in plain_line(None, snapshot())


@pytest.mark.parametrize(("committed", "counts"), [(1, "1 batch committed"), (1500, "1,500 batches committed")])
def test_the_summary_of_a_transactional_run_counts_batches(committed: int, counts: str) -> None:
    """The trees of the coordinator are those of phases, which say nothing to a user."""
    assert Outcome(0, transactions(committed, 10.0)).summary() == f"words: running after 10 s: {counts}, 2 failed, 1 error"


def test_plain_lines_end_with_the_tables_of_the_users_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = UserMetrics()
    metrics.gauge("lag", TaskLabels("lines", 1), {"topic": "words", "partition": "3"}).set(1234)
    PlainLines(5.0).end(Outcome(0, replace(snapshot(state="drained"), user_metrics=metrics.read())))
    assert capsys.readouterr().err.splitlines()[-4:-1] == ["lines", "topic  partition    lag", "words  3          1,234"]


async def test_plain_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainLines(5.0)
    await view.begin("words")
    view.show(None, snapshot())
    view.note("draining")
    view.end(Outcome(0, snapshot(state="drained")))

    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split()[0] for line in err.splitlines()] == [
        *("words:", "words", "draining", "component", "lines", "count", "__acker", "spout", "lines", "The", "words:")
    ]
    assert err.splitlines()[-1] == "words: drained after 10 s: 1,200,000 emitted, 1,100,000 acked, 2 failed, 1 error"


async def test_json_lines_are_json_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonLines(5.0)
    await view.begin("words")
    view.show(None, snapshot())
    view.report(REPORT)
    view.note("draining")
    view.end(Outcome(1, snapshot(), ComponentError("count", 3, KeyError("word"), hint="Fix it.")))

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["start", "snapshot", "error", "note", "end"]
    assert lines[1]["components"]["lines"]["pending"] == 99_998
    assert "errors" not in lines[1]
    assert lines[2]["component"] == "count"
    assert lines[4]["error"] == {
        "type": "ComponentError",
        "message": "'count' (task 3): failed for good: KeyError: 'word'",
        "hint": "Fix it.",
        "notes": [],
    }
    assert (lines[4]["exit_status"], lines[4]["snapshot"]["state"]) == (1, "running")


def test_a_refusal_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    write_refusal(TopologyError(["bolt 'a': wrong.", "bolt 'b': wrong."], topology_name="words"))
    line = json.loads(capsys.readouterr().out)
    assert (line["event"], line["exit_status"], line["error"]["faults"]) == ("end", 2, ["bolt 'a': wrong.", "bolt 'b': wrong."])


@pytest.mark.parametrize("width", [80, 100, 104, 200])
def test_the_live_table_fits_the_terminal(width: int) -> None:
    lines = drawn(width, before=True).splitlines()
    assert max(map(len, lines)) <= width
    (row,) = [line.split() for line in lines if line.startswith("count")]
    assert row[0] == "count"
    assert row[-4:] == ["9%", "96%", "70", "60%"]


@pytest.mark.parametrize(("width", "left_out"), [(76, 0), (74, 1), (60, 3), (40, 6)])
def test_a_narrow_terminal_shows_the_columns_that_fit(width: int, left_out: int) -> None:
    lines = drawn(width, before=True).splitlines()
    (row,) = [line.split() for line in lines if line.startswith("count")]
    assert len(row) == 12 - left_out  # `2.00 M` is two words
    assert "96%" in row
    assert "…" not in "".join(row)


def test_the_live_table_says_what_limits_the_run() -> None:
    lines = drawn(80, before=True).splitlines()
    acker = next(number for number, line in enumerate(lines) if line.startswith("__acker"))
    assert " ".join(line.strip() for line in lines[acker + 1 : acker + 3]) == (
        "One task of 'count' is busy 96% of the time, the mean of its 2 tasks is 53%. Spread its inputs more evenly."
    )


def test_the_live_table_shows_full_counts_if_there_is_room() -> None:
    assert "2,400,000" in drawn(104)
    assert "2.40 M" in drawn(80)


def test_the_live_table_shows_the_latest_errors_unchanged() -> None:
    assert "'count' (task 3) KeyError: '[red]word'" in drawn(80)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(60, "paused, retries, dead letters"), (76, "dead letters"), (77, ""), (80, ""), (112, "dead letters"), (113, "")],
)
def test_the_live_table_shows_the_users_metrics_by_their_labels(width: int, left_out: str) -> None:
    lines = [line.rstrip() for line in drawn(width, metrics=kafka_metrics()).splitlines()]
    assert max(map(len, lines)) <= width
    title = lines.index(f"lines · no room for {left_out}" if left_out else "lines")
    assert title > max(number for number, line in enumerate(lines) if "KeyError" in line)  # a low terminal cuts off the end
    rows = [line.split("  ")[0].strip() for line in lines[title:] if line.startswith(("[red]lines", "and "))]
    assert len(rows) == 12
    last = next(line for line in lines if line.startswith("and 9 more"))
    assert last.split()[3:5] == (["135", "M"] if width < 104 else ["135,000,000"] * 2)
    assert "…" not in "".join(lines[title:])


def test_the_live_table_fits_a_low_terminal() -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(render(None, replace(snapshot(), user_metrics=kafka_metrics().read()), 80, 26))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 26
    assert lines[-2].startswith("and 16 more")


def test_a_stream_above_the_table_has_the_rest_of_a_stream() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "latin-1", "replace")
    above = AboveTable(Console(file=io.StringIO()), stream)
    assert (above.encoding, above.errors, above.buffer) == ("latin-1", "replace", stream.buffer)


def test_output_of_user_code_is_printed_above_the_table() -> None:
    file = io.StringIO()
    above = AboveTable(Console(file=file, width=20, color_system=None), io.StringIO())
    long = '{"message": "' + "a long line " * 9 + '"}'

    print("half", end="", file=above, flush=True)
    assert file.getvalue() == ""
    print(" a line\n" + long + "\n[bold]no markup[/]", file=above)
    print("the rest", end="", file=above)
    above.close()

    assert file.getvalue() == f"half a line\n{long}\n[bold]no markup[/]\nthe rest\n"


def test_auto_is_plain_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make_view("auto", 5.0), PlainLines)
    monkeypatch.setattr("sys.stderr", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_view("auto", 5.0), PlainLines)
    monkeypatch.setenv("TERM", "xterm")
    assert type(make_view("auto", 5.0)).__name__ == "LiveTable"


def test_an_error_is_shown_with_notes_and_hint_but_no_traceback() -> None:
    error = ComponentError("count", 3, None, message="died", hint="Catch it.")
    error.add_note("raised in flow.py, line 3")
    assert error_text(error) == "Error: 'count' (task 3): died\n  raised in flow.py, line 3\nFix: Catch it."


def test_a_bug_of_the_engine_has_its_traceback() -> None:
    with pytest.raises(EngineBug) as caught:
        raise EngineBug("the ledger lost a root", root=7)
    assert "in test_a_bug_of_the_engine_has_its_traceback" in error_text(caught.value)


def test_json_lines_escape_lone_surrogates(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    JsonLines(5.0).note("torn \ud800, whole \u00e9")
    line = capsysbinary.readouterr().out
    assert json.loads(line)["text"] == "torn \ud800, whole \u00e9"
    assert "whole \u00e9".encode() in line
