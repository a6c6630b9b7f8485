"""Twelve tasks of different speed process logs. Results are right after task deaths, and slow tasks get less (FC-3, FC-5, FC-6)."""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from engine.testing import KillTask, run_topology
from tests.examples.conftest import load
from tests.kills.moments import after, before
from tests.kills.program import command_of
from tests.kills.steps import Step
from tests.project.sources import ROOT

SCRIPT = str(ROOT / "examples" / "flow_logs.py")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
EXACT = "The result equals a plain computation over the same logs."
LINES = 8000


def is_beyond_a_quarter(keeper: Any, done: int, position: Any) -> bool:
    """Select writes of a position beyond a quarter of the lines."""
    return bool(keeper._done_before + done > LINES // 4)


PULLED, WRITTEN = "a line pulled", "a position written, of more than a quarter of the lines"
STEPS = {
    PULLED: Step(PULLED, "engine.flow.controller:FlowController.offer_record", before),
    WRITTEN: Step(WRITTEN, "engine.flow.position_keeper:PositionKeeper._write_entry", after, is_beyond_a_quarter),
}


@pytest.fixture
def flow_logs() -> ModuleType:
    return load("flow_logs")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def lines_by_task(shown: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"^task +\d+ +([\d,]+) lines", shown, re.MULTILINE)]


@pytest.mark.guarantee("FC-6")
@pytest.mark.deep
def test_after_repeated_kills_the_sums_are_right(tmp_path: Path) -> None:
    draws, command = random.Random(4), (SCRIPT, str(tmp_path), "--lines", str(LINES))
    for step in (PULLED, PULLED, PULLED, WRITTEN):
        number = draws.randint(1, LINES // 6) if step == PULLED else 1
        died = subprocess.run(command_of(f"{__name__}:STEPS", step, number, *command), env=ENVIRONMENT, capture_output=True, timeout=100)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    shown = run(*command).stdout
    assert shown.startswith("Continued after ('access-")
    assert shown.splitlines()[-1] == EXACT
    assert sum(lines_by_task(shown)) < LINES


def test_the_command_line_runs_the_example(flow_logs: ModuleType, tmp_path: Path) -> None:
    small = tmp_path / "small.py"
    small.write_text(Path(SCRIPT).read_text().replace(f"LINES, TASKS = {flow_logs.LINES:_}, ", "LINES, TASKS = 2_000, "))
    done = run("-m", "engine", "run", str(small))
    assert "this task dies once, and its lines go to others" in done.stderr
    assert "the task is replaced by a fresh instance" in done.stderr
    assert sum(lines_by_task(done.stdout)) >= 2000


@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")  # the killed instance closes nothing
@pytest.mark.guarantee("FC-3", "FC-5")
def test_slow_tasks_get_less_and_the_lines_of_a_stalled_task_go_to_others(flow_logs: ModuleType, tmp_path: Path) -> None:
    job = flow_logs.Job(tmp_path, LINES)
    finished = run_topology(job.topology(), faults=[KillTask("store", at_secs=0.5)])
    assert finished.state == "complete"
    assert job.struck == {flow_logs.STANDS_STILL, flow_logs.DIES}
    assert flow_logs.stored_sums(job.requests) == flow_logs.plain_sums(job.logs)
    usual = [lines for task, lines in enumerate(job.lines) if task not in flow_logs.SLOWER and task != flow_logs.STANDS_STILL]
    assert 5 * job.lines[6] < min(usual)
    assert all(2 * job.lines[task] < min(usual) for task in (1, 4, 9))
    [flow] = finished.snapshot.flow
    assert sum(task.resends for task in flow.tasks) >= 2


def test_wrong_sums_are_reported(flow_logs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_logs, "plain_sums", lambda logs: {200: (1, 1)})
    monkeypatch.setattr(sys, "argv", [SCRIPT, str(tmp_path), "--lines", "30"])
    assert flow_logs.main() == 1
