"""The main job has right results with missing files and after interrupts."""

import io
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from engine.cli import run_in_terminal
from tests.kills.moments import signalled
from tests.kills.program import command_of
from tests.kills.steps import Step
from tests.project.sources import ROOT

SCRIPT = str(ROOT / "examples" / "word_count.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
LINES = 50_000
INTERRUPTED = "interrupted at the second file"
STEPS = {
    INTERRUPTED: Step(INTERRUPTED, "pathlib:Path.open", signalled(signal.SIGINT), lambda path, *rest: path.name == "b"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.txt").write_text("to be or not to be\n" * 30, encoding="utf-8")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe be\x00 \xe9t\xe9\n\n be")
    (tmp_path / "below" / "c.txt").write_text("that is the question", encoding="utf-8")
    return tmp_path


forms = pytest.mark.parametrize("form", ["WordCount", "BurstWordCount"])


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("options", [[], ["--burst"]])
def test_all_words_of_a_folder_are_counted(folder: Path, options: list[str]) -> None:
    done = run(SCRIPT, str(folder), *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["61", "be"]
    assert "34 of 34 lines done: 222 tuples, 222 acks" in lines
    assert lines[-2].startswith("188 words in ")
    assert lines[-1] == "The result equals a plain count of the same text."


@forms
def test_counts_equal_a_plain_count(word_count: ModuleType, folder: Path, form: str) -> None:
    job = getattr(word_count, form)(word_count.files_of(folder))
    assert run_in_terminal(job.topology(), view="silent").exit_status == 0
    text = "".join(path.read_text(encoding="utf-8", errors="replace") + "\n" for path in folder.rglob("*.*"))
    assert job.words == Counter(text.split())


@forms
def test_a_deleted_file_is_reported_once_and_left_out(
    word_count: ModuleType, folder: Path, form: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    job = getattr(word_count, form)(word_count.files_of(folder))
    (folder / "b.bin").unlink()
    outcome = run_in_terminal(job.topology(), view="silent")
    assert word_count.show_outcome(job, outcome) == 0
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder / 'b.bin'} cannot be read (No such file or directory): it is left out"
    ]
    assert "The result equals a plain count of the same text." in capsys.readouterr().out


@forms
def test_the_lines_before_a_read_error_are_counted(
    word_count: ModuleType,
    folder: Path,
    form: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Failing(io.StringIO):
        def __iter__(self) -> Iterator[str]:  # type: ignore[override]
            yield from ("to be\n", "or not\n")
            raise OSError(5, "Input/output error")

    open_text = word_count.open_text
    monkeypatch.setattr(word_count, "open_text", lambda path: Failing() if path.name == "b.bin" else open_text(path))
    job = getattr(word_count, form)(word_count.files_of(folder))
    outcome = run_in_terminal(job.topology(), view="silent")
    assert word_count.show_outcome(job, outcome) == 0
    assert "cannot be read (Input/output error): its first 2 lines are counted, the rest is left out" in caplog.text
    assert "33 of 33 lines done" in capsys.readouterr().out


def test_a_file_that_was_deleted_after_it_was_read_is_named_in_the_comparison(
    word_count: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = word_count.WordCount(word_count.files_of(folder))
    run_in_terminal(job.topology(), view="silent")
    (folder / "a.txt").unlink()
    assert word_count.compare(job) == 0
    assert capsys.readouterr().out.endswith(f"except for what is no longer there: {folder / 'a.txt'}.\n")


def test_a_wrong_result_is_reported(word_count: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = word_count.WordCount(word_count.files_of(folder))
    run_in_terminal(job.topology(), view="silent")
    job.words["be"] += 1
    assert word_count.compare(job) == 1
    assert "DIFFERS" in capsys.readouterr().out


@pytest.mark.guarantee("RUN-3")
@pytest.mark.parametrize("options", [[], pytest.param(["--burst"], marks=pytest.mark.guarantee("BU-4"))])
def test_an_interrupt_drains_and_the_counts_of_read_lines_are_right(tmp_path: Path, options: list[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("to be or not to be that is the question\n" * LINES, encoding="utf-8")
    done = run(*command_of(f"{__name__}:STEPS", INTERRUPTED, 1, SCRIPT, str(tmp_path), *options)[1:])
    assert done.returncode == 0, done.stderr
    assert "The run was interrupted" in done.stdout
    assert done.stdout.endswith("The result equals a plain count of the same text.\n")
    [read] = re.findall(r"of ([\d,]+) lines done", done.stdout)
    assert LINES <= int(read.replace(",", "")) < 2 * LINES, "the signal must come in the middle"


def test_bursts_and_state_are_two_forms(folder: Path) -> None:
    done = run(SCRIPT, str(folder), "--burst", "--state", "memory://")
    assert done.returncode == 2
    assert "not allowed with argument --burst" in done.stderr


@pytest.mark.parametrize(("name", "what"), [("nowhere", "does not exist"), ("empty", "there is no file in ")])
def test_a_path_without_text_is_refused(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(SCRIPT, str(tmp_path / name))
    assert done.returncode == 2
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_runs_it_and_shows_the_words() -> None:
    done = run("-m", "engine", "run", SCRIPT, "--for", "1s")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 20
    assert "word-count: " in done.stderr


def test_a_check_prints_no_words() -> None:
    done = run("-m", "engine", "check", SCRIPT)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
