"""Time from the start of a process to its first tuple, and to the end of `import engine`."""

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
"""Environment in which bytecode is cached, like in an installed package, which pip compiles."""


def measure() -> dict[str, float]:
    """Measure twice and return the second reading. Files and bytecode are then in the caches."""
    for _ in range(2):
        reading = {
            "first_tuple_ms": _first_tuple_ms(),
            "import_ms": _import_ms("engine"),
            "import_asyncio_ms": _import_ms("asyncio"),
        }
    return reading


def _first_tuple_ms() -> float:
    with tempfile.TemporaryDirectory() as folder:
        stamp = Path(folder) / "stamp"
        start = time.clock_gettime(time.CLOCK_MONOTONIC)
        command = [sys.executable, "-m", "engine", "run", str(TOPOLOGY)]
        subprocess.run(command, env={**AS_INSTALLED, STAMP: str(stamp)}, check=True, capture_output=True, timeout=TIMEOUT_SECS)
        return (float(stamp.read_text(encoding="ascii")) - start) * 1000


def _import_ms(module: str) -> float:
    """Return the time of an import in a fresh interpreter, by its own clock."""
    script = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, env=AS_INSTALLED, check=True, capture_output=True, timeout=TIMEOUT_SECS).stdout) * 1000
