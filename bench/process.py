"""Start one measured run in its own process, so that memory and allocator are fresh."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from bench.environments import PROJECT, interpreter
from bench.measuring import STARTED
from bench.work import Argument, Run

Reading = Mapping[str, float]
"""Numbers that one run printed, by key."""


class RunFailed(Exception):
    """A measured run ended without a result."""


def take_reading(run: Run, *, quick: bool = False) -> Reading:
    """Run to the end and return the reading. Raise `RunFailed` if the process fails, hangs, or prints no JSON."""
    return call_in_process(run.function, run.sized(quick=quick), python=interpreter(run.package), timeout_secs=run.timeout_secs)


def call_in_process(
    function: str, arguments: Mapping[str, Argument], *, python: str = sys.executable, timeout_secs: float = 180.0
) -> Reading:
    """Call a function through `bench.run` in a new process and return its reading."""
    words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()]
    command = (python, "-m", "bench.run", function, *words)
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, STARTED: str(time.monotonic())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout_secs)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        raise RunFailed(f"no result after {timeout_secs:g} s: {' '.join(command)}") from None
    except BaseException:
        _kill_group(process)
        raise
    if process.returncode != 0:
        raise RunFailed(f"exit status {process.returncode}: {' '.join(command)}\n{_tail(errors or output)}")
    for line in reversed(output.splitlines()):  # peers print logs before the result
        if line.startswith("{"):
            return {key: float(value) for key, value in json.loads(line).items() if isinstance(value, (int, float))}
    raise RunFailed(f"printed no JSON: {' '.join(command)}\n{_tail(output)}")


def _kill_group(process: "subprocess.Popen[str]") -> None:
    """Kill the process and its child processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.communicate()


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
