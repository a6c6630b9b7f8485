"""The first thing that a newcomer runs."""

import os
import subprocess
import sys

from tests.project.sources import ROOT


def test_hello_says_hello() -> None:
    command = [sys.executable, "-m", "engine", "run", str(ROOT / "examples" / "hello.py")]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["Hello, world!", "Hello, storm!"]
    assert "complete" in done.stderr
