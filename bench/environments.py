"""Virtual environments of peers that are Python packages. The peers are large, and pin packages that the engine also uses."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, eq=False)
class Environment:
    """A virtual environment and its packages."""

    name: str
    folder: Path
    constraints: Path
    """Pinned versions."""
    modules: Mapping[str, str]
    """Packages, each with the module to import."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages that a benchmark would use."""
        script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        found = {package: _interpreter(self.name, package) for package in self.modules}
        return {
            package: subprocess.run([python, "-c", script, package], capture_output=True, text=True, check=True).stdout.strip()
            for package, python in found.items()
            if python
        }

    def install(self) -> None:
        """Create the environment and install its packages."""
        if not self.python.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "--constraint", str(self.constraints), *self.modules], check=True)
        _interpreter.cache_clear()

    @property
    def python(self) -> Path:
        """Return the interpreter of the environment, which need not exist."""
        return self.folder / "bin" / "python"


ENVIRONMENTS: Mapping[str, Environment] = {
    "compare": Environment(  # 1.6 GB, minutes
        "compare", PROJECT / ".venv-bench", PROJECT / "constraints" / "bench.txt", {"bytewax": "bytewax", "pathway": "pathway"}
    ),
    "kafka": Environment(  # 250 MB, half a minute
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
    ),
    "service": Environment(  # 40 MB, seconds
        "service",
        PROJECT / ".venv-bench-service",
        PROJECT / "constraints" / "bench-service.txt",
        {"fastapi": "fastapi", "uvicorn": "uvicorn", "uvloop": "uvloop"},
    ),
}


def interpreter(package: str) -> str:
    """Return the interpreter for a package named `environment/package`. For "" return this one."""
    environment, _, name = package.partition("/")
    return (package and _interpreter(environment, name)) or sys.executable


def missing_package(package: str) -> str | None:
    """Return the reason why a package named `environment/package` cannot be used here, or None."""
    environment, _, name = package.partition("/")
    return None if _interpreter(environment, name) else f"{name} is not installed (python -m bench install-peers {environment})"


@cache
def _interpreter(environment: str, package: str) -> str | None:
    """Return an interpreter that has the package (this one or the environment's), or None."""
    found = ENVIRONMENTS[environment]
    module = found.modules[package]
    if find_spec(module) is not None:
        return sys.executable
    there = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    python = found.python
    return str(python) if python.exists() and subprocess.run([str(python), "-c", there]).returncode == 0 else None
