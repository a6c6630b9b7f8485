"""Tells whether the engine runs from a checkout, and how to install its missing parts there and elsewhere.

`spark_bridge.installation` has `install_command` for the parts of the bridge that run without the engine.
"""

import sys
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "stormcell"
_ROOT: Final = Path(__file__).resolve().parents[1]


def checkout() -> Path | None:
    """Return the folder of the checkout from which the engine runs. None for an installed package."""
    return _ROOT if (_ROOT / "pyproject.toml").is_file() else None


def install_command(*extras: str) -> str:
    """Return the command that installs these extras of the distribution.

    No package index has the distribution, so in a checkout the command names its folder.
    """
    return f"pip install '{_installed_from()}[{','.join(extras)}]'"


def _installed_from() -> str:
    folder = checkout()
    if folder is None:
        return DISTRIBUTION
    try:
        return "." if Path.cwd() == folder else str(folder)
    except OSError:  # the current folder was deleted
        return str(folder)


def build_hint() -> str:
    """Return the fix for compiled modules that are missing, or that were built for another Python."""
    folder = checkout()
    if folder is None:
        return f"Install {DISTRIBUTION} again, into this Python: {sys.executable}"
    return (
        f"Python runs the checkout {folder}, which is not compiled for this Python. Compile it there: make build (or: pip install -e .). "
        "To run an installed package, use the command `stormcell`, or change to another folder."
    )


def hidden_version(version: str) -> str | None:
    """Return the version of an installed package that is not `version`, if the engine runs from a checkout. None if there is none."""
    if checkout() is None:
        return None
    from importlib.metadata import PackageNotFoundError, distribution  # imported here, because an installed package does not need it

    try:
        found = distribution(DISTRIBUTION).version
    except PackageNotFoundError:
        return None
    return None if found == version else found
