"""Spark in a child process: what starts it, calls functions there, and survives its death (SP-5). The child has no need of the engine."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.session.config import SparkConfig as SparkConfig
    from spark_bridge.session.errors import SparkDied as SparkDied
    from spark_bridge.session.errors import SparkError as SparkError
    from spark_bridge.session.errors import SparkMissing as SparkMissing
    from spark_bridge.session.errors import SparkUnavailable as SparkUnavailable
    from spark_bridge.session.shared import SharedSpark as SharedSpark
    from spark_bridge.session.spark_child import SparkChild as SparkChild

_HOMES: Final = {
    "SharedSpark": "shared",
    "SparkChild": "spark_child",
    "SparkConfig": "config",
    "SparkDied": "errors",
    "SparkError": "errors",
    "SparkMissing": "errors",
    "SparkUnavailable": "errors",
}
"""name: the module that has it. Imported on first use, since the child imports this package too."""

__all__ = ["SharedSpark", "SparkChild", "SparkConfig", "SparkDied", "SparkError", "SparkMissing", "SparkUnavailable"]


def __getattr__(name: str) -> Any:
    """Return a name of the engine's side."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
