"""The first program of a new user works."""

import os
import subprocess
import sys

import pytest

from tests.project.sources import ROOT


@pytest.mark.parametrize("how", [["-m", "engine", "run"], []])
def test_hello_says_hello(how: list[str]) -> None:
    command = [sys.executable, *how, str(ROOT / "examples" / "hello.py")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Hello, world!", "Hello, storm!"]
    assert "complete" in done.stderr
