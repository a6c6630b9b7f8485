"""One measured run: a process of its own that prints one line of JSON, so that memory and allocator start fresh."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
Reading = Mapping[str, float]
"""What one run measured: the numbers of its line of JSON, by key."""


class RunFailed(Exception):
    """A measured run ended without a result; the text says how to see why."""


@dataclass(frozen=True)
class Child:
    """The command of one measured run."""

    argv: tuple[str, ...]
    cwd: Path = PROJECT
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_secs: float = 180.0


def module_child(module: str, *arguments: object, python: str = sys.executable, timeout_secs: float = 180.0) -> Child:
    """Return the child that runs a module of this project."""
    return Child((python, "-m", module, *map(str, arguments)), timeout_secs=timeout_secs)


def run_child(child: Child) -> Reading:
    """Run a child to its end and return its reading; raises `RunFailed` when it fails, hangs, or prints no JSON."""
    process = subprocess.Popen(
        child.argv,
        cwd=child.cwd,
        env={**os.environ, **child.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=child.timeout_secs)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        raise RunFailed(f"no result after {child.timeout_secs:g} s: {' '.join(child.argv)}") from None
    except BaseException:
        _kill_group(process)
        raise
    if process.returncode != 0:
        raise RunFailed(f"exit status {process.returncode}: {' '.join(child.argv)}\n{_tail(errors or output)}")
    return _parse(output, child)


def _parse(output: str, child: Child) -> Reading:
    """Read the last line that is a JSON object: peers print logs before it."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            values = json.loads(line)
            return {key: float(value) for key, value in values.items() if isinstance(value, (int, float))}
    raise RunFailed(f"printed no JSON: {' '.join(child.argv)}\n{_tail(output)}")


def _kill_group(process: "subprocess.Popen[str]") -> None:
    """Kill what was started, with all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.communicate()


def _tail(text: str, lines: int = 12) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])
