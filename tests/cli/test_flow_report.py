"""`flow-report` makes a picture and a table of a run's flow control, from its JSON lines (FC-7)."""

import io
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.cli.flow_history import FlowHistory, FlowSample, TaskSample, histories_of
from engine.cli.flow_plot import flow_plot, span_text, ticks
from engine.cli.main import run_command_line
from engine.flow.status import FlowSnapshot, FlowState
from tests.cli.snapshots import entries, flow, snapshot
from tests.cli.topology_files import Write

SVG = "{http://www.w3.org/2000/svg}"
START = json.dumps({"event": "start", "topology": "words"})
NO_FLOW = json.dumps({"event": "snapshot", **snapshot().to_dict()})


def line(secs: float, *flows: FlowSnapshot, event: str = "snapshot") -> str:
    """Return a line of `run --json`."""
    figures = replace(snapshot(secs), entries=entries(*flows)).to_dict()
    return json.dumps({"event": event, **figures} if event == "snapshot" else {"event": event, "exit_status": 0, "snapshot": figures})


def a_run(seconds: int = 4) -> list[str]:
    """Return a run of `secs` seconds, whose end is half a second later. Task 10 is BUSY, 11 SLOW, 12 NORMAL."""
    told = [line(number, flow(3, slow=1, times=number)) for number in range(seconds + 1)]
    return [START, *told, line(seconds + 0.5, flow(3, slow=1, times=seconds), event="end")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(a_run()) + "\n", encoding="utf-8")
    return path


def written(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lanes(svg: str) -> dict[str, dict[str, str]]:
    """Return the paths of each bolt task's lane by class. The key is the label of the lane."""
    groups = ElementTree.fromstring(svg).iter(f"{SVG}g")
    return {
        group.findtext(f"{SVG}title", ""): {path.get("class", ""): path.get("d", "") for path in group.iter(f"{SVG}path")}
        for group in groups
    }


def history(*states: FlowState, windows: Iterable[float] = (), every_secs: float = 1.0) -> FlowHistory:
    """Return the history of one bolt task; the default of its window is 2."""
    wide = list(windows) or [2.0] * len(states)
    (found,) = histories_of(
        (
            1,
            number * every_secs,
            FlowSample("lines", 1, 10.0 * number, 10.0 * number, 5.0, [TaskSample(10, state, window, 1.0, 0.5, 2.0, 7, 0)]),
        )
        for number, (state, window) in enumerate(zip(states, wide, strict=True))
    )
    return found


@pytest.mark.guarantee("FC-7")
def test_the_report_prints_a_table_and_writes_a_picture_beside_the_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["flow-report", str(log)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "lines: 4.5 s in 6 snapshots, 200,000 records done (44,444/s), at most 120 since the checkpoint",
        "task  NORMAL  SLOW  BUSY  window  in flight  service ms  p99 ms  records  resends",
        "10        0%    0%  100%     1.0        1.0           –       –        0        7",
        "11        0%  100%    0%     2.0        2.0       0.500    3.00    4,000        0",
        "12      100%    0%    0%     3.0        2.0       0.750    4.50    8,000        0",
    ]
    assert err == f"wrote {log.with_suffix('.svg')}\n"
    svg = log.with_suffix(".svg").read_text(encoding="utf-8")
    assert list(lanes(svg)) == [
        "task 10: NORMAL 0%, SLOW 0%, BUSY 100%; window 1.0 on average",
        "task 11: NORMAL 0%, SLOW 100%, BUSY 0%; window 2.0 on average",
        "task 12: NORMAL 100%, SLOW 0%, BUSY 0%; window 3.0 on average",
    ]
    shown = texts(svg)
    assert shown[:5] == ["lines", "200,000 records in 4.5 s · 3 bolt tasks · 6 snapshots", "NORMAL", "SLOW", "BUSY"]
    assert {"records/s", "since checkpoint", "task 12", "0 s", "4.5 s"} <= set(shown)


@pytest.mark.guarantee("FC-7")
def test_windows_and_states_are_drawn_over_time() -> None:
    (lane,) = lanes(flow_plot([history("NORMAL", "SLOW", "BUSY", "NORMAL", "NORMAL", windows=(1, 2, 1, 1, 1))])).values()
    bottom = 249.0
    height = 40 / 1.15 / 2  # of one pack, as the largest window is 2
    assert lane["window"] == f"M140 {bottom - height:.1f}H340V{bottom - 2 * height:.1f}H540V{bottom - height:.1f}H940"
    assert lane["SLOW"] == f"M340 209H540V{bottom:.0f}H340Z"
    assert lane["BUSY"] == f"M540 209H740V{bottom:.0f}H540Z"
    assert lane["flight"] == f"M140 {bottom:.0f}V{bottom - height:.1f}H940V{bottom:.0f}Z"


def test_too_many_snapshots_are_merged_and_drawn_by_their_shares() -> None:
    found = history(*(("BUSY", "SLOW", "NORMAL", "NORMAL") * 1000), windows=[1.0, 3.0] * 2000, every_secs=0.25)
    svg = flow_plot([found])
    (lane,) = lanes(svg).values()
    assert lane["BUSY"].count("M") <= 400
    assert lane["BUSY"].startswith("M140 209H")
    assert len(svg) < 100_000
    assert any("each piece of 2.5 s shows means and the shares of the states" in text for text in texts(svg))
    assert found.mean(found.tasks[10].windows) == pytest.approx(2.0, abs=0.01)


def test_a_task_that_starts_later_has_no_window_before() -> None:
    late = [TaskSample(11, "NORMAL", 1.0, 1.0, None, None, 0, 0)]
    (found,) = histories_of((1, float(secs), FlowSample("lines", 1, 0.0, 0.0, 0.0, late if secs in (2, 3) else [])) for secs in range(5))
    (lane,) = lanes(flow_plot([found])).values()
    assert lane["window"].startswith("M540 ")
    assert lane["window"].endswith("H940")
    assert found.shares(found.tasks[11])["NORMAL"] == 0.5


def test_the_record_count_continues_after_a_spout_instance_is_replaced() -> None:
    told = ((100.0, 120.0), (150.0, 150.0), (150.0, 140.0), (10.0, 20.0), (30.0, 60.0))
    (found,) = histories_of((1, float(secs), FlowSample("lines", 1, done, settled, 0.0, [])) for secs, (done, settled) in enumerate(told))
    assert list(found.done_records) == [0, 50, 50, 60, 80]
    assert list(found.settled_records) == [0, 30, 20, 40, 80]


@pytest.mark.guarantee("FC-7")
def test_records_per_second_are_computed_even_if_a_snapshot_misses_a_task(tmp_path: Path) -> None:
    """The done prefix leaps when the slowest record is done, while the tasks work steadily."""
    held = [replace(flow(1), done_records=0, pending_records=140 + 100 * secs) for secs in range(4)]
    leapt = replace(flow(1), done_records=500, pending_records=40)
    told = [line(secs, shown) for secs, shown in enumerate([*held, leapt])]
    assert run_command_line(["flow-report", written(tmp_path / "run.jsonl", told)]) == 0
    root = ElementTree.fromstring((tmp_path / "run.svg").read_text(encoding="utf-8"))
    (rate,) = [path.get("d", "") for path in root.iter(f"{SVG}path") if path.get("class") == "rate"]
    assert rate == "M140 148V102H940V148Z"
    assert "at most 100" in texts((tmp_path / "run.svg").read_text(encoding="utf-8"))


def test_each_spout_task_and_run_has_its_own_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clicks = replace(flow(2), component_id="clicks", task_id=9)
    told = [line(secs, flow(2), replace(flow(2), task_id=2), clicks) for secs in range(3)]
    spec = written(tmp_path / "run.jsonl", [START, *told, START, *told[:2]])
    assert run_command_line(["flow-report", spec]) == 0
    names = [each.split(":")[0] for each in capsys.readouterr().out.splitlines() if "snapshots" in each]
    assert names == [
        *("lines (task 1, run 1)", "lines (task 2, run 1)", "clicks (run 1)"),
        *("lines (task 1, run 2)", "lines (task 2, run 2)", "clicks (run 2)"),
    ]
    shown = texts((tmp_path / "run.svg").read_text(encoding="utf-8"))
    assert [name for name in shown if name in names] == names

    assert run_command_line(["flow-report", spec, "--spout", "clicks", "-o", str(tmp_path / "clicks.svg")]) == 0
    assert "lines" not in capsys.readouterr().out
    assert run_command_line(["flow-report", spec, "--spout", "click"]) == 2
    assert "the run has no spout 'click' with flow control\nFix: Did you mean 'clicks'?" in capsys.readouterr().err


def test_standard_input_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(a_run()).encode())))
    assert run_command_line(["flow-report", "-"]) == 0
    assert (tmp_path / "flow.svg").read_text(encoding="utf-8").startswith("<svg")
    assert capsys.readouterr().err == "wrote flow.svg\n"


def test_a_truncated_last_line_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(a_run())[:-40], encoding="utf-8")
    assert run_command_line(["flow-report", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"Note: {path}, line 7 is incomplete and skipped. The run is writing it, or was killed.\n")
    assert out.startswith("lines: 4.0 s in 5 snapshots")


def test_a_valid_last_line_without_a_newline_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(a_run()), encoding="utf-8")
    assert run_command_line(["flow-report", str(path)]) == 0
    assert "Note" not in capsys.readouterr().err


def damaged(change: dict[str, Any], *, of_task: bool = False) -> str:
    """Return a snapshot with other values of flow control; None removes one."""
    event = json.loads(line(2.0, flow(1)))
    target = event["flow"][0]["tasks"][0] if of_task else event["flow"][0]
    for name, value in change.items():
        if value is None:
            del target[name]
        else:
            target[name] = value
    return json.dumps(event)


@pytest.mark.parametrize(
    ("content", "why", "fix"),
    [
        ("", "run.jsonl is empty", "Write it with python -m engine run topology.py --json"),
        ("\n\n", "run.jsonl: none of its 2 lines is a snapshot", "every stats_interval_secs"),
        (START + "\n", "run.jsonl: none of its 1 lines is a snapshot", "every stats_interval_secs"),
        (f"{START}\n{NO_FLOW}\n", "run.jsonl: none of its 1 snapshots contains flow control", "FlowControlSpout"),
        (f"{START}\n{line(1, flow(1))}\n", "a report needs at least two snapshots", "-c stats_interval_secs=0.25"),
        (f"{START}\nhello, world\n{line(1, flow(1))}\n", "run.jsonl, line 2 is not JSON: 'hello, world'", "print to standard error"),
        (f'{START}\n{{"word": 1}}\n', "run.jsonl, line 2 is JSON, but not an event of a run: it has no 'event'", "run --json"),
        (f"{START}\n[1, 2]\n", "line 2 is JSON, but not an event of a run", "run --json"),
        ('{"event": 3}\n', "line 1 is JSON, but not an event of a run", "run --json"),
        ("[" * 100_000 + "\n", "line 1 is not JSON: '[[[", "run --json"),
        ('{"event": "snapshot"}\n', "line 1 is not a snapshot of this version: there is no 'uptime_secs'", "Write the file again"),
        ('{"event": "snapshot", "uptime_secs": NaN}\n', "uptime_secs is nan", "Write the file again"),
        ('{"event": "snapshot", "uptime_secs": 1, "flow": 7}\n', "line 1 is not a snapshot of this version", "Write the file again"),
        ('{"event": "end", "snapshot": "none"}\n', "line 1 is not a snapshot of this version", "Write the file again"),
        (damaged({"done_records": -1}) + "\n", "done_records is -1", "Write the file again"),
        (damaged({"tasks": None}) + "\n", "there is no 'tasks'", "Write the file again"),
        (damaged({"state": "LAZY"}, of_task=True) + "\n", "state is 'LAZY', not NORMAL, SLOW, BUSY", "Write the file again"),
        (damaged({"window": None}, of_task=True) + "\n", "there is no 'window'", "Write the file again"),
        (damaged({"window": 10**400}, of_task=True) + "\n", "window is 1000", "Write the file again"),
        (damaged({"window": True}, of_task=True) + "\n", "window is True", "Write the file again"),
        (damaged({"records": 1.5}, of_task=True) + "\n", "records is 1.5", "Write the file again"),
    ],
)
def test_an_invalid_line_is_reported_with_file_line_and_hint(
    content: str, why: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content, encoding="utf-8")
    assert run_command_line(["flow-report", str(path)]) == 2
    out, err = capsys.readouterr()
    error, hint = err.split("\nFix: ")
    assert why in error
    assert str(path) in error
    assert fix in hint
    assert len(err) < 1000
    assert (out, path.with_suffix(".svg").exists()) == ("", False)


def test_undecodable_bytes_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00\n")
    assert run_command_line(["flow-report", str(path)]) == 2
    assert "line 1 is not JSON" in (err := capsys.readouterr().err)
    assert "The line is not UTF-8." in err


def test_a_time_that_is_not_a_finite_number_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = [damaged({"service_p99_ms": "inf"}, of_task=True), line(1, flow(1))]
    assert run_command_line(["flow-report", written(tmp_path / "run.jsonl", reversed(told))]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-3] == "–"


@pytest.mark.parametrize(
    ("name", "why"),
    [("rnu.jsonl", "Did you mean"), ("none/run.jsonl", "and neither does its folder"), (".", "is a folder"), ("run", "does not exist")],
)
def test_a_missing_file_is_reported(name: str, why: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["flow-report", str(log.parent / name)]) == 2
    assert why in capsys.readouterr().err


def test_an_unwritable_picture_is_reported(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["flow-report", str(log), "-o", str(log.parent / "none" / "flow.svg")]) == 2
    assert "cannot be written: No such file or directory. Name another file with -o." in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["flow-report", "--help"]) == 0
    out = capsys.readouterr().out
    assert "  run topology.py --json -c stats_interval_secs=0.25 > run.jsonl" in out
    assert "  flow-report run.jsonl " in out


def test_names_are_text_and_not_markup() -> None:
    found = history("NORMAL", "NORMAL")
    found.component_id = '<b> & "co"\x1b[2J' + "x" * 200
    svg = flow_plot([found])
    assert texts(svg)[0].startswith('\'<b> & "co"\\x1b[2Jxxx')
    assert len(texts(svg)[0]) == 60


@pytest.mark.parametrize("tasks", [0, 1, 12, 40, 300])
def test_each_task_has_a_lane_for_any_number_of_tasks(tasks: int) -> None:
    told = [TaskSample(number, "SLOW", 1.0, 1.0, 0.5, 2.0, 1, 0) for number in range(tasks)]
    histories = histories_of((1, float(secs), FlowSample("lines", 1, 0.0, 0.0, 0.0, told)) for secs in range(3))
    svg = flow_plot(histories)
    assert len(lanes(svg)) == tasks
    root = ElementTree.fromstring(svg)
    below = [float(rect.get("y", "0")) + float(rect.get("height", "0")) for rect in root.iter(f"{SVG}rect") if rect.get("y")]
    assert max(below) < float(root.get("height", "0"))


@pytest.mark.parametrize("span", [0.04, 0.3, 1, 7, 10, 45, 95, 600, 3600, 86_400, 10_000_000])
@pytest.mark.parametrize("begin", [0.0, 3.7, 5000.0])
def test_an_axis_has_a_few_ticks_with_different_labels(begin: float, span: float) -> None:
    found = ticks(begin, begin + span)
    assert 2 <= len(found) <= 10
    assert all(begin - 1e-6 <= secs <= begin + span + 1e-6 for secs in found)
    assert len({span_text(secs) for secs in found}) == len(found)


RUNS = """
import asyncio
from engine import TopologyBuilder
from engine.flow import FlowControlBolt, FlowControlSpout, FlowProducer, FlowSettings

class Lines(FlowProducer):
    def records(self, after):
        for number in range(300):
            yield number, f"line {number}"

class Parse(FlowControlBolt):
    async def process(self, line):
        await asyncio.sleep(0.003)

builder = TopologyBuilder("logs")
builder.set_spout("lines", lambda: FlowControlSpout(Lines(), FlowSettings(pack_records=5)))
builder.set_bolt("parse", Parse, parallelism=3).direct_grouping("lines")
"""


@pytest.mark.guarantee("FC-7")
def test_the_report_reads_the_output_of_a_run(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", write(RUNS, head=""), "--json", "-c", "stats_interval_secs=0.05"]) == 0
    told = capsys.readouterr().out.splitlines()
    (ended,) = json.loads(told[-1])["snapshot"]["flow"]
    assert (ended["component_id"], ended["done_records"], ended["records_since_checkpoint"], ended["position"]) == ("lines", 300, 0, "299")
    assert sum(task["settled"] for task in ended["tasks"]) >= 60

    assert run_command_line(["flow-report", written(tmp_path / "run.jsonl", told)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert len(lanes((tmp_path / "run.svg").read_text(encoding="utf-8"))) == 3
