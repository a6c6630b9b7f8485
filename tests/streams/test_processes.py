"""Stages in processes of their own, with functions, lambdas and classes."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from engine import UsageError
from engine.streams import Flow
from tests.streams.flows import texts_of
from tests.streams.functions import with_process

PROGRAM = """
import os
from engine import spout
from engine.streams import Flow

@spout("text")
def texts():
    yield from [("a",), ("b",)]

def show(row):
    text, process = row
    print(text, process != os.getpid(), flush=True)

offset = "!"
flow = Flow("processes")
stage = flow.stream("texts", texts, str).map(lambda text: (text + offset, os.getpid()), processes=True, name="mapped")
stage.key_by(lambda row: row).count(name="counts", processes=True).map(lambda each: each.value.key).sink("keep", show)
"""


@pytest.mark.guarantee("PR-1")
def test_a_lambda_runs_in_a_process(tmp_path: Path) -> None:
    if importlib.util.find_spec("cloudpickle") is None:
        pytest.skip("needs cloudpickle")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "engine", "run", str(program)], capture_output=True, text=True, check=False, timeout=60)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("a!", "b!"))]
    assert sorted(lines) == ["a! True", "b! True"], done.stdout + done.stderr


def test_a_lambda_without_cloudpickle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    flow = Flow("lambdas")
    texts, _ = texts_of(flow, "a")
    texts.map(lambda text: text, processes=True, name="mapped").sink("end", print)
    with pytest.raises(UsageError, match=r"stage 'mapped': with processes=True its function must be picklable, (.|\n)*Make it a def"):
        flow.topology()
    flow = Flow("functions")
    texts, _ = texts_of(flow, "a")
    texts.map(with_process, processes=True, name="mapped").sink("end", print)
    assert flow.topology().components["mapped"].settings.processes
