"""What the figures depend on: machine, interpreter, versions, load."""

import os
import platform
from importlib import metadata
from pathlib import Path

from bench.child import PROJECT

DISTRIBUTIONS = ("cython", "uvloop")


def describe() -> dict[str, str]:
    """Return the machine and the versions, by name, for the head of every result."""
    described = {
        "cpu": _cpu_model(),
        "cores": str(_usable_cores()),
        "load": _load(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "stormcell": _own_version(),
    }
    return described | {name: version(name) for name in DISTRIBUTIONS}


def version(distribution: str) -> str:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _own_version() -> str:
    """Read it from the tree: a checkout that was never installed has no metadata."""
    source = (PROJECT / "engine" / "version.py").read_text(encoding="utf-8")
    words = [line.split("=")[-1].strip().strip("\"'") for line in source.splitlines() if line.startswith("__version__")]
    return words[0] if words else "unknown"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load() -> str:
    """Return the load of the last minute before the run: above 0 the machine is not quiet."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
