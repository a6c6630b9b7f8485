"""Flow control in each view: window, state, service time, in flight, resends per task (FC-7)."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from engine.cli.live_table import render
from engine.cli.run_views import JsonLines, Outcome, PlainLines, plain_line
from engine.cli.snapshot_text import flow_headline, flow_summaries, flow_tables
from engine.flow.status import FlowSnapshot
from engine.runtime.snapshot import Snapshot
from tests.cli.snapshots import entries, flow, snapshot
from tests.cli.test_run_views import kafka_metrics

pytestmark = pytest.mark.guarantee("FC-7")


def with_flow(*flows: FlowSnapshot) -> Snapshot:
    return replace(snapshot(), entries=entries(*flows))


def drawn(now: Snapshot, width: int, height: int | None = None, *, colours: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=colours, color_system="standard" if colours else None)
    console.print(render(None, now, width, height))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_the_headline_shows_the_position_of_the_spout_and_what_delays_it() -> None:
    assert flow_headline(flow()) == "lines: position 'part-7.log:1234' · 120 records since the checkpoint · 300 buffered"
    held = replace(flow(), position=None, holds="nothing is sent before\nthe store is back")
    assert flow_headline(held, alone=False) == (
        "lines (task 1): no position yet · 120 records since the checkpoint · 300 buffered · "
        "holds: 'nothing is sent before\\nthe store is back'"
    )
    assert len(flow_headline(replace(flow(), position="9" * 5000))) < 120


def test_a_table_has_a_row_for_each_bolt_task() -> None:
    (table,) = flow_tables(with_flow(flow(4)))
    assert [table.headers, *table.rows] == [
        ("task", "state", "window", "in flight", "pack records", "service ms", "p99 ms", "records", "resends"),
        ("10", "BUSY", "1", "1", "20", "–", "–", "0", "7"),
        ("11", "SLOW", "2", "2", "20", "0.500", "3.00", "1,000", "0"),
        ("12", "SLOW", "2", "2", "20", "0.750", "4.50", "2,000", "0"),
        ("13", "NORMAL", "3", "2", "20", "1.00", "6.00", "3,000", "0"),
    ]


def test_if_rows_do_not_fit_normal_tasks_are_summed_up() -> None:
    tasks = flow(100, slow=1, busy=1).tasks
    mixed = replace(flow(), tasks=(*tasks[2:], *tasks[:2]))
    (table,) = flow_tables(with_flow(mixed), lines=10)
    assert [row[0] for row in table.rows] == ["12", "13", "10", "11", "and 96 more"]
    assert table.rows[-1] == ("and 96 more", "NORMAL", "288", "192", "–", "16.9", "150", "4,944,000", "0")
    (table,) = flow_tables(with_flow(flow(100, slow=5, busy=3)), lines=0)
    assert [row[:2] for row in table.rows] == [("10", "BUSY"), ("11", "BUSY"), ("and 98 more", "5 SLOW, 1 BUSY")]


@pytest.mark.parametrize("width", [60, 80, 103, 104, 200])
def test_the_live_table_shows_each_window_within_the_width_of_the_terminal(width: int) -> None:
    lines = drawn(with_flow(flow(12)), width)
    assert max(map(len, lines)) <= width
    title = next(number for number, line in enumerate(lines) if line.startswith("lines: position"))
    assert title > max(number for number, line in enumerate(lines) if "KeyError" in line)
    assert [line.split()[:4] for line in lines[title:] if "SLOW" in line] == [["11", "SLOW", "2", "2"], ["12", "SLOW", "2", "2"]]


def test_the_live_table_colours_the_states() -> None:
    text = "\n".join(drawn(with_flow(flow(4)), 120, colours=True))
    assert "\x1b[33mSLOW" in text
    assert "\x1b[31mBUSY" in text
    assert "NORMAL" in text


@pytest.mark.parametrize("height", [26, 30, 50, 130])
def test_the_live_table_of_a_hundred_tasks_fits_a_low_terminal(height: int) -> None:
    lines = drawn(with_flow(flow(100)), 80, height)
    assert len(lines) <= height
    assert any(line.startswith("and ") for line in lines) == (height < 120)
    assert sum(line.startswith(("10 ", "11 ", "12 ")) for line in lines) == 3


def test_other_tables_stay_visible_beside_it() -> None:
    now = replace(with_flow(flow(100), replace(flow(100), task_id=2)), user_metrics=kafka_metrics().read())
    lines = drawn(now, 80, 60)
    assert len(lines) <= 60
    assert [line.split(":")[0] for line in lines if line.startswith("lines (task")] == ["lines (task 1)", "lines (task 2)"]
    assert sum(line.startswith("and ") for line in lines) == 3


def test_the_final_live_table_has_all_tasks() -> None:
    assert sum("NORMAL" in line for line in drawn(with_flow(flow(100)), 80)) == 97


def test_a_plain_line_has_one_short_part_for_each_spout() -> None:
    line = plain_line(None, with_flow(flow(12), replace(flow(2, slow=0, busy=0), component_id="clicks", holds="max_pending_records")))
    assert "flow lines: 2 SLOW, 1 BUSY of 12, window 32, 120 since checkpoint" in line.split(" | ")
    assert "flow clicks: 2 NORMAL of 2, window 6, 120 since checkpoint, holds: max_pending_records" in line.split(" | ")
    assert flow_summaries(with_flow(flow(12), replace(flow(12), task_id=2, holds="the store is away"))) == [
        "flow lines: 4 SLOW, 2 BUSY of 24, window 64, 240 since checkpoint, holds: the store is away"
    ]
    assert "flow" not in plain_line(None, snapshot())


def test_plain_lines_end_with_all_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    PlainLines(5.0).end(Outcome(0, replace(with_flow(flow(40)), state="drained")))
    lines = capsys.readouterr().err.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("lines: position"))
    assert lines[start + 1].startswith("task  state   window  in flight  pack records  service ms  p99 ms")
    assert [line.split()[0] for line in lines[start + 2 : -1]] == [str(task) for task in range(10, 50)]


async def test_every_json_snapshot_has_flow_control(capsys: pytest.CaptureFixture[str]) -> None:
    view = JsonLines(5.0)
    view.show(None, with_flow(flow(3)))
    view.end(Outcome(0, with_flow(flow(3))))
    shown, ended = map(json.loads, capsys.readouterr().out.splitlines())
    assert shown["flow"] == ended["snapshot"]["flow"]
    assert [task["window"] for task in shown["flow"][0]["tasks"]] == [1, 2, 2]
