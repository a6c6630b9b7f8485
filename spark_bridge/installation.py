"""Says how to install an optional dependency, in a checkout and elsewhere.

The same as `engine.installation`, for machines of Spark that have no engine. There the package may come from a zip.
"""

from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]


def install_command(*extras: str) -> str:
    """Return the command that installs these extras of the distribution.

    No package index has the distribution, so in a checkout the command names its folder.
    """
    return f"pip install '{_distribution()}[{','.join(extras)}]'"


def _distribution() -> str:
    if not (_ROOT / "pyproject.toml").is_file():
        return "stormcell"
    try:
        return "." if Path.cwd() == _ROOT else str(_ROOT)
    except OSError:  # the current folder was deleted
        return str(_ROOT)
