"""`python -m bench.macro.start_up`: from the start of a process to its first tuple, and to an imported engine, as JSON."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.macro.one_tuple import STAMP

TOPOLOGY = Path(__file__).with_name("one_tuple.py")
TIMEOUT_SECS = 60
AS_INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment without the switch that keeps bytecode from being cached: an installed package has its bytecode, for pip compiles it."""


def first_tuple_ms() -> float:
    """Return the time from starting `python -m engine run` to the first tuple in a bolt."""
    with tempfile.TemporaryDirectory() as folder:
        stamp = Path(folder) / "stamp"
        start = time.clock_gettime(time.CLOCK_MONOTONIC)
        command = [sys.executable, "-m", "engine", "run", str(TOPOLOGY)]
        subprocess.run(command, env={**AS_INSTALLED, STAMP: str(stamp)}, check=True, capture_output=True, timeout=TIMEOUT_SECS)
        return (float(stamp.read_text(encoding="ascii")) - start) * 1000


def import_ms(module: str) -> float:
    """Return the time that importing a module takes in a fresh interpreter, by its own clock."""
    script = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return float(_python("-c", script).stdout) * 1000


def import_time_ms() -> float:
    """Return what `-X importtime` says of the engine with all that it imports; the option itself costs time."""
    lines = _python("-X", "importtime", "-c", "import engine").stderr.splitlines()
    own = next(line for line in lines if line.split("|")[-1].strip() == "engine")
    return int(own.split("|")[1]) / 1000


def process_ms(script: str) -> float:
    """Return how long an interpreter with this script lives."""
    start = time.perf_counter()
    _python("-c", script)
    return (time.perf_counter() - start) * 1000


def _python(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], env=AS_INSTALLED, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECS)


def main() -> None:
    """Print one line of JSON; the second of two runs counts, so that files and bytecode are in the caches."""
    for _ in range(2):
        reading = {
            "first_tuple_ms": first_tuple_ms(),
            "import_ms": import_ms("engine"),
            "import_asyncio_ms": import_ms("asyncio"),
            "importtime_ms": import_time_ms(),
            "process_with_import_ms": process_ms("import engine"),
            "bare_process_ms": process_ms("pass"),
        }
    print(json.dumps(reading))


if __name__ == "__main__":
    main()
