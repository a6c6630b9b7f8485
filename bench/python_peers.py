"""Peers that are Python packages. They live in environments of their own, for their dependencies are large and pin what others need."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from bench.child import PROJECT


@dataclass(frozen=True, eq=False)
class Environment:
    """A virtual environment and what goes into it, pinned."""

    name: str
    folder: Path
    constraints: Path
    modules: Mapping[str, str]
    """The packages, each with the module that it is imported by."""

    def interpreter(self, package: str) -> str | None:
        """Return the interpreter that has a package: this one, or that of the environment; None where neither has it."""
        return _interpreter_with(self.modules[package], self._python)

    def unavailable(self, package: str) -> str | None:
        """Return why a package cannot be measured here, or None."""
        return None if self.interpreter(package) else f"{package} is not installed (python -m bench install-peers {self.name})"

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages that are installed for the benchmarks."""
        script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        found = {package: self.interpreter(package) for package in self.modules}
        return {
            package: subprocess.run([python, "-c", script, package], capture_output=True, text=True, check=True).stdout.strip()
            for package, python in found.items()
            if python
        }

    def install(self) -> None:
        """Make the environment and install its packages."""
        if not self._python.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        pip = [str(self._python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "--constraint", str(self.constraints), *self.modules], check=True)
        _interpreter_with.cache_clear()

    @property
    def _python(self) -> Path:
        return self.folder / "bin" / "python"


COMPARE = Environment(
    "compare", PROJECT / ".venv-bench", PROJECT / "constraints" / "bench.txt", {"bytewax": "bytewax", "pathway": "pathway"}
)
"""Those of `compare`: 1.6 GB, minutes."""

KAFKA = Environment(
    "kafka",
    PROJECT / ".venv-bench-kafka",
    PROJECT / "constraints" / "bench-kafka.txt",
    {
        "aiokafka": "aiokafka",
        "bytewax": "bytewax",
        "confluent-kafka": "confluent_kafka",
        "faust-streaming": "faust",
        "quixstreams": "quixstreams",
        "uvloop": "uvloop",
    },
)
"""Those of `kafka`: 250 MB, half a minute."""

ENVIRONMENTS: Mapping[str, Environment] = {each.name: each for each in (COMPARE, KAFKA)}


@cache
def _interpreter_with(module: str, other: Path) -> str | None:
    if find_spec(module) is not None:
        return sys.executable
    there = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return str(other) if other.exists() and subprocess.run([str(other), "-c", there]).returncode == 0 else None
