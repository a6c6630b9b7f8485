"""Commands as a user calls them: arguments in, text and exit status out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine import installation
from engine.cli.main import run_command_line
from engine.version import __version__
from tests.cli.topology_files import HEAD, Write
from tests.project.sources import ROOT

BOTH = "words = _builder('words').build()\nclicks = _builder('clicks').build()\nconfig = {'burst': 64}\n"


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--version"]) == 0
    assert capsys.readouterr().out == f"stormcell {__version__}\n"


@pytest.mark.parametrize("program", ["python -m engine", "stormcell"])
def test_help_names_the_program_as_it_was_called(program: str) -> None:
    entrance = (
        ["-m", "engine"]
        if program != "stormcell"
        else ["-c", "import sys; sys.argv[0] = '/bin/stormcell'\nimport engine.cli.main as m; m.main()"]
    )
    shown = subprocess.run([sys.executable, *entrance, "--help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert shown.startswith(f"Usage: {program} [OPTIONS]")
    assert f"  {program} run topology.py" in shown


@pytest.mark.parametrize("command", ["run", "check", "graph"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([command, "--help"]) == 0
    assert f"  {command} topology.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["rnu"], "'rnu' is not a command. Did you mean 'run'?"),
        (["flow.py"], "'flow.py' is not a command. Did you mean"),
        (["launch"], "The commands are run, top, ctl, check, graph, state, positions, committers, transactions, dead-letters, "),
        (["run"], "FILE is missing."),
        (["check"], "Missing argument 'FILE[:NAME]'"),
        (["run", "flow.py", "--for", "30"], "'30' is a number without a unit. Write 30s"),
        (["run", "flow.py", "--json", "--plain"], "Choose one."),
        (["run", "flow.py", "--log-level", "loud"], "'loud' is not one of 'debug', 'info'"),
        (["run", "flow.py", "--fro", "30s"], "No such option"),
    ],
)
@pytest.mark.guarantee("RUN-4")
def test_a_wrong_command_line_is_status_2(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(arguments) == 2
    out, err = capsys.readouterr()
    assert why in err
    assert out == ""


def test_check_lists_the_components(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", write(BOTH) + ":words"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "component  kind       inputs  outputs",
        "lines      spout × 1  –       default(line)",
    ]


def test_check_also_validates_the_settings(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", write(BOTH) + ":words", "-c", "brust=1"]) == 2
    assert "Did you mean 'burst'?" in capsys.readouterr().err


CYCLE = """
from engine import bolt
@bolt("line")
def again(tup):
    return None
builder = _builder("cycle")
builder.set_bolt("again", again).shuffle_grouping("lines").shuffle_grouping("again")
topology = builder.build()
"""


@pytest.mark.guarantee("BP-5")
@pytest.mark.parametrize(
    ("text", "options"),
    [(CYCLE, ["-c", "max_spout_pending=100"]), (f"{CYCLE}config = {{'max_spout_pending': 100}}\n", [])],
    ids=["flag", "config"],
)
def test_a_cycle_is_bounded_by_the_settings_of_its_run(write: Write, text: str, options: list[str]) -> None:
    assert run_command_line(["check", write(text), *options]) == 0
    assert run_command_line(["run", write(text), "--plain", *options]) == 0


@pytest.mark.guarantee("BP-5")
@pytest.mark.parametrize("command", ["check", "run"])
def test_an_unbounded_cycle_is_refused(write: Write, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([command, write(CYCLE)]) == 2
    assert "Fix set_spout('lines', ..., max_spout_pending=1000) or Config(max_spout_pending=1000)." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "beginning"), [([], "---\ntitle:"), (["--format", "dot"], 'digraph "words" {'), (["--format", "svg"], "<svg")]
)
def test_graph_prints_the_topology(write: Write, options: list[str], beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["graph", write(BOTH) + ":words", *options]) == 0
    assert capsys.readouterr().out.startswith(beginning)


@pytest.mark.parametrize(("name", "beginning"), [("a.svg", "<svg"), ("a.DOT", "digraph"), ("a.md", "---")])
def test_graph_writes_a_file_in_the_format_of_its_name(write: Write, tmp_path: Path, name: str, beginning: str) -> None:
    assert run_command_line(["graph", write(BOTH) + ":words", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)


def test_graph_reports_an_unwritable_file(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["graph", write(BOTH) + ":words", "-o", str(tmp_path / "none" / "a.svg")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_show_config_prints_the_source_of_each_setting(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE_SEED", "7")
    spec = write(BOTH)
    assert run_command_line(["run", spec + ":words", "--show-config", "-c", "max_spout_pending=9", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["seed"]["value"], shown["seed"]["origin"]) == (7, "ENGINE_SEED")
    assert (shown["burst"]["value"], shown["burst"]["origin"]) == (64, f"{spec}: config burst")
    assert shown["max_spout_pending"]["origin"] == "-c max_spout_pending"
    assert shown["key_groups"]["origin"] == "default"


def test_show_config_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--show-config"]) == 0
    assert "max_spout_pending" in capsys.readouterr().out


def test_bench_passes_its_arguments_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_command_line(["bench", "micro", "--help"])
    assert caught.value.code == 0
    assert "python -m bench micro" in capsys.readouterr().out


def test_bench_needs_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(installation, "_ROOT", tmp_path)
    assert run_command_line(["bench", "micro"]) == 2
    assert "Run this command in a checkout" in capsys.readouterr().err


def test_a_read_only_command_imports_no_heavy_module() -> None:
    script = "import sys; from engine.cli.main import run_command_line; run_command_line(['run', '--show-config']); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"rich", "uvloop", "bench"} & set(shown.splitlines()[-1].split()) == set()


@pytest.mark.guarantee("RUN-4")
@pytest.mark.parametrize("event_loop", ["asyncio", "auto"])
def test_too_few_open_files_are_an_error_and_no_traceback(event_loop: str, tmp_path: Path) -> None:
    """Each number is tried, because another step of the start finds no file."""
    (tmp_path / "flow.py").write_text(f"{HEAD}topology = _builder().build()\n", encoding="utf-8")
    statuses = set()
    for number in (8, 14, 18, 64):
        command = f"ulimit -n {number}; exec '{sys.executable}' -m engine run flow.py -c event_loop={event_loop}"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        statuses.add(done.returncode)
        assert "Traceback" not in done.stderr, number
        assert done.returncode == 0 or f"no more than {number} open files" in done.stderr
    assert statuses == {0, 2}
