"""Peers that are Python packages. They live in `.venv-bench`, for their dependencies are large and pin what others need."""

import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench.child import PROJECT

ENVIRONMENT = PROJECT / ".venv-bench"
CONSTRAINTS = PROJECT / "constraints" / "bench.txt"
PACKAGES = ("bytewax", "pathway")


@cache
def interpreter(package: str) -> str | None:
    """Return the interpreter that has a package: this one, or that of `.venv-bench`; None where neither has it."""
    if find_spec(package) is not None:
        return sys.executable
    own = str(_environment_python())
    there = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return own if Path(own).exists() and subprocess.run([own, "-c", there]).returncode == 0 else None


def unavailable(package: str) -> str | None:
    """Return why a package cannot be measured here, or None."""
    return None if interpreter(package) else f"{package} is not installed (python -m bench install-peers)"


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed for the benchmarks."""
    script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    found = {package: interpreter(package) for package in PACKAGES}
    return {
        package: subprocess.run([python, "-c", script, package], capture_output=True, text=True, check=True).stdout.strip()
        for package, python in found.items()
        if python
    }


def install() -> None:
    """Make `.venv-bench` and install the peers in it, pinned; takes minutes and 1.6 GB."""
    if not _environment_python().exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(_environment_python()), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "--constraint", str(CONSTRAINTS), *PACKAGES], check=True)
    interpreter.cache_clear()


def _environment_python() -> Path:
    return ENVIRONMENT / "bin" / "python"
