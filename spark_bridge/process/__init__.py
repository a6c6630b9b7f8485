"""Runs Spark in a child process. Starts the process, calls functions there, and replaces it after its death (SP-5).

`spark_child` (the interface), `spark_process` (one child) and `launch` (processes of the operating system) run in the engine's process.
`messages` and `pickling` run in both processes. The package `child` runs in Spark's process and imports no engine.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.process.config import SparkConfig as SparkConfig
    from spark_bridge.process.errors import SparkDied as SparkDied
    from spark_bridge.process.errors import SparkError as SparkError
    from spark_bridge.process.errors import SparkMissing as SparkMissing
    from spark_bridge.process.errors import SparkUnavailable as SparkUnavailable
    from spark_bridge.process.spark_child import SharedSpark as SharedSpark
    from spark_bridge.process.spark_child import SparkChild as SparkChild

_MODULES: Final = {
    "SharedSpark": "spark_child",
    "SparkChild": "spark_child",
    "SparkConfig": "config",
    "SparkDied": "errors",
    "SparkError": "errors",
    "SparkMissing": "errors",
    "SparkUnavailable": "errors",
}
"""Module of each public name. Imported on first use, because the child imports this package and has no engine."""

__all__ = ["SharedSpark", "SparkChild", "SparkConfig", "SparkDied", "SparkError", "SparkMissing", "SparkUnavailable"]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
