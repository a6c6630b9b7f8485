"""The main job with `--state` has exact counts after kills and restarts (CP-7, CP-10)."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from subprocess import PIPE
from types import ModuleType
from typing import Any

import pytest

from engine import ComponentError, Config
from engine.cli import run_in_terminal
from engine.testing import DelayTuple, KillTask, RaiseError, run_topology
from tests.kills.moments import before, signalled
from tests.kills.program import command_of
from tests.kills.steps import Step
from tests.project.sources import ROOT

SCRIPT = str(ROOT / "examples" / "word_count.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
EXACT = "The result equals a plain count of the same text."
FINISHED = "No line was left to count: it was finished."
RANDOM_KILLS = 5
NAMED_STEPS = ("within stage", "before committing", "after committing", "before committed", "before fold", "within fold")
"""Steps of tests.checkpoint.killing, which kills its own topology at all of them."""
SECS = 60


CHANGED, INTERRUPTED, PAUSED = "before a change of a state", "interrupted at a change of a state", "paused at a change of a state"
STEPS = {
    CHANGED: Step(CHANGED, "engine.state.layered:LayeredState.put", before),
    INTERRUPTED: Step(INTERRUPTED, "engine.state.layered:LayeredState.put", signalled(signal.SIGINT)),
    PAUSED: Step(PAUSED, "engine.state.layered:LayeredState.put", signalled(signal.SIGSTOP)),
}
STEPS_HERE = f"{__name__}:STEPS"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write three files with about 50,000 lines, which a run may count in one checkpoint."""
    texts = tmp_path / "texts"
    texts.mkdir()
    for number, lines in enumerate((30_000, 17_123, 1)):
        text = "".join(f"to be or not {line % 97} {line % 1009}\n" for line in range(lines))
        (texts / f"{number}.txt").write_text(text, encoding="utf-8")
    return texts


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder.parent}/counts.db"


def command(folder: Path, url: str | None = None) -> list[str]:
    return [sys.executable, SCRIPT, str(folder), "--state", url or url_of(folder)]


def run(folder: Path, url: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, url), env=ENVIRONMENT, capture_output=True, text=True, timeout=SECS)


def run_with(step: str, number: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run to the end, or until the process dies at the n-th execution of a step."""
    armed = command_of(STEPS_HERE, step, number, *command(folder)[1:])
    return subprocess.run(armed, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECS)


def check_is_exact(folder: Path, shown: str) -> None:
    """Check that the example reports and shows exact counts."""
    assert shown.splitlines()[-1] == EXACT
    plain = Counter("".join(path.read_text(encoding="utf-8") for path in folder.iterdir()).split())
    told = dict(reversed(line.split()) for line in shown.splitlines()[:20])
    assert {word: int(count.replace(",", "")) for word, count in told.items()} == {word: plain[word] for word in told}


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.deep
def test_the_result_is_exact_after_kills_at_named_steps(folder: Path) -> None:
    killed = []
    for step in NAMED_STEPS:
        done = run(folder, f"tests.checkpoint.killing:deadly_provider?{step}|1|{url_of(folder)}")
        if done.returncode == -signal.SIGKILL:
            killed.append(step)
        else:
            assert done.returncode == 0, done.stderr
            check_is_exact(folder, done.stdout)
    last = run(folder)
    assert last.returncode == 0, last.stderr
    check_is_exact(folder, last.stdout)
    assert {"within stage", "before committing", "after committing"} <= set(killed)


@pytest.mark.guarantee("CP-7", "CP-10")
@pytest.mark.deep
def test_the_result_is_exact_after_kills_at_random_words(folder: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draws = random.Random(seed)
    changes = sum(len(line.split()) + 1 for path in folder.iterdir() for line in path.read_text(encoding="utf-8").splitlines())
    for _ in range(RANDOM_KILLS):
        killed = run_with(CHANGED, draws.randint(1, changes // (RANDOM_KILLS + 1)), folder)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    last = run(folder)
    assert last.returncode == 0, last.stderr
    check_is_exact(folder, last.stdout)


def test_a_finished_job_reports_that_it_is_finished(folder: Path) -> None:
    first, second = run(folder), run(folder)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "47,124 lines done" in first.stdout
    assert second.stdout.splitlines()[20:] == [FINISHED, EXACT]
    check_is_exact(folder, second.stdout)


@pytest.mark.guarantee("RUN-3")
@pytest.mark.deep
def test_an_interrupted_job_continues_at_the_next_start(folder: Path) -> None:
    interrupted = run_with(INTERRUPTED, 100_000, folder)
    assert interrupted.returncode == 0, interrupted.stderr
    assert "The run was interrupted: start it again" in interrupted.stdout
    last = run(folder)
    assert FINISHED not in last.stdout
    check_is_exact(folder, last.stdout)


# In this process, with short texts and in virtual time


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Write three files with 600 lines."""
    for number in range(3):
        text = "".join(f"to be or not {line % 7}\n" for line in range(200))
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def plain_count(folder: Path) -> Counter[str]:
    return Counter(word for path in folder.glob("*.txt") for word in path.read_text(encoding="utf-8").split())


def job_of(word_count: ModuleType, few: Path) -> Any:
    return word_count.DurableWordCount(sorted(few.glob("*.txt")), f"sqlite:///{few}/counts.db")


@pytest.mark.guarantee("EO-1")
@pytest.mark.parametrize("seed", range(4))
def test_lines_are_counted_once_whatever_fails_in_the_run(word_count: ModuleType, few: Path, seed: int) -> None:
    """Ackers and tasks die, a call raises, and a late tuple makes a checkpoint time out."""
    job = job_of(word_count, few)
    deaths = [KillTask(component, at_secs=secs) for component, secs in (("__acker", 0.002), ("count", 0.05), ("lines", 0.12))]
    late, raises = DelayTuple("split", "count", 900, secs=3), RaiseError("split", at_call=130)
    config = Config(state_provider=job.state_provider, checkpoint_timeout_secs=1)
    finished = run_topology(job.topology(), config, faults=[*deaths, late, raises], seed=seed, shuffle=True)
    assert finished.snapshot.checkpoint is not None
    assert finished.snapshot.checkpoint.recoveries
    assert job.words == plain_count(few)


@pytest.mark.guarantee("EO-1", "CP-10")
@pytest.mark.parametrize("component", ["split", "count"])
@pytest.mark.parametrize("at_call", [1, 17, 130])
def test_the_result_is_exact_after_an_error_ended_the_run(word_count: ModuleType, few: Path, component: str, at_call: int) -> None:
    ends = Config(state_provider=f"sqlite:///{few}/counts.db", on_error="stop")
    with pytest.raises(ComponentError, match="InjectedError"):
        run_topology(job_of(word_count, few).topology(), ends, faults=[RaiseError(component, at_call=at_call)])
    job = job_of(word_count, few)
    assert run_topology(job.topology()).state == "complete"
    assert job.words == plain_count(few)


def counted(word_count: ModuleType, few: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Any, list[str]]:
    """Run the job in this process. Return the job and the lines that it prints after the words."""
    job = job_of(word_count, few)
    assert word_count.show_outcome(job, run_in_terminal(job.topology(), view="silent")) == 0
    return job, capsys.readouterr().out.splitlines()


def test_lines_that_were_appended_are_counted(word_count: ModuleType, few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(word_count, few, capsys)
    with (few / "1.txt").open("a", encoding="utf-8") as file:
        file.write("that is\nthe question")
    (few / "3.txt").write_text("a new file\n", encoding="utf-8")
    _, shown = counted(word_count, few, capsys)
    assert shown[0].startswith("3 lines done")
    assert shown[-1] == EXACT


def test_a_changed_file_ends_the_run_with_its_name(word_count: ModuleType, few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(word_count, few, capsys)
    (few / "1.txt").write_text("another text\n" * 500, encoding="utf-8")
    job = job_of(word_count, few)
    assert word_count.show_outcome(job, run_in_terminal(job.topology(), view="silent")) == 1
    assert "1.txt" in capsys.readouterr().err


def test_a_second_process_on_the_same_state_is_refused(folder: Path) -> None:
    with subprocess.Popen(command_of(STEPS_HERE, PAUSED, 1, *command(folder)[1:]), env=ENVIRONMENT, stdout=PIPE, stderr=PIPE) as process:
        os.waitpid(process.pid, os.WUNTRACED)  # until it has paused itself
        second = run(folder)
        assert process.poll() is None
        process.kill()
        process.communicate(timeout=SECS)
    assert second.returncode == 1
    assert "runs already" in second.stderr
    assert "Traceback" not in second.stderr
